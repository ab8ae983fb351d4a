"""What the tasks of a test raised, and where: a failing test shows it, though the engine went on."""

import functools
import inspect
import traceback
from collections import Counter
from types import TracebackType
from typing import Any

import msgspec

from nextdue.executors.context import Definition
from nextdue.records import Claim, Ending

SHOWN = 5
"""The most tracebacks that are kept, the last ones."""


class Failures:
    """The failed attempts of one sandbox."""

    def __init__(self) -> None:
        self.last: BaseException | None = None
        """What the last attempt that failed raised."""
        self.raised: BaseException | None = None
        """What the running attempt raised so far, be it a failure or not."""
        self._trace: TracebackType | None = None
        self._seen: Counter[str] = Counter()

    def watched(self, definition: Definition) -> Definition:
        """The same task; what its function raises is noted on its way."""
        fn = definition.fn
        self.raised = self._trace = None

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return fn(*args, **kwargs)
            except BaseException as exc:
                self._note(exc)
                raise

        async def acall(*args: Any, **kwargs: Any) -> Any:
            try:
                return await fn(*args, **kwargs)
            except BaseException as exc:
                self._note(exc)
                raise

        watched = acall if inspect.iscoroutinefunction(fn) else call
        return msgspec.structs.replace(definition, fn=functools.wraps(fn)(watched))

    def _note(self, exc: BaseException) -> None:
        self.raised = exc
        self._trace = exc.__traceback__ and exc.__traceback__.tb_next

    def cut(self) -> BaseException | None:
        """What the running attempt raised, with the traceback from its function on. Keeps no local variables alive."""
        if self.raised is not None:
            BaseException.with_traceback(self.raised, self._trace)
            traceback.clear_frames(self._trace)
        return self.raised

    def ended(self, claim: Claim, ending: Ending) -> None:
        """The attempt is over; it is remembered if it failed."""
        exc = self.cut()
        if exc is None or ending.kind not in ("failed", "gave_up"):
            return
        self.last = exc
        text = f"{claim.name} failed:\n{_text(exc)}"  # without its id: of many tasks the same line fails
        count = self._seen.pop(text, 0)  # to the end: the last one comes last
        self._seen[text] = count + 1
        if len(self._seen) > SHOWN:
            del self._seen[next(iter(self._seen))]

    def report(self) -> list[str]:
        """The last tracebacks, equal ones once."""
        return [
            text if count == 1 else text.replace(" failed:", f" failed {count} times, each time so:", 1)
            for text, count in self._seen.items()
        ]


def _text(exc: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(exc)).rstrip()
    except BaseException:  # whatever asks such an exception what it is fails too
        return "its exception can't be described"
