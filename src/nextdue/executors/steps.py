"""Steps: effects outside of the database, each marked before and after, so that a rerun passes by what is done.

Between the effect and its mark there is a gap that nothing can close: a worker that dies there leaves a step that was
begun and isn't done. It is in doubt, and `in_doubt` says what a rerun does.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from shlex import quote
from typing import Any, Protocol, TypeVar, get_args

import msgspec

from nextdue import points
from nextdue.aio import in_thread
from nextdue.codec import Returned
from nextdue.errors import BadArguments, BadDefinition
from nextdue.records import Claim, Doubt, Ending, Mark
from nextdue.task import RetryAfter, Snooze, checked_name, failure_message

T = TypeVar("T")
DOUBTS = get_args(Doubt)
CURSOR = "@cursor"
_label_of: ContextVar[str | None] = ContextVar("label_of", default=None)
"""Of the step whose function runs here."""


class Unawaited(BadDefinition):
    """A step's function answered a coroutine, so that nothing happened yet."""


NOT_YET = (Snooze, RetryAfter, Unawaited)
"""By these a function says itself that it did nothing yet."""


class Marks(Protocol):
    """What a step asks of the store."""

    def mark(self, claim: Claim, label: str) -> Mark | None:
        """What is marked under this label."""
        ...

    def begin(self, claim: Claim, label: str, how: str) -> None:
        """The effect is about to go out. Raises LeaseLost or StoreError."""
        ...

    def end(self, claim: Claim, label: str, result: str | None, problem: str | None) -> None:
        """It is out. Raises LeaseLost or StoreError."""
        ...

    def withdraw(self, claim: Claim, label: str) -> None:
        """It did not go out."""
        ...


class Resting(BaseException):
    """Ends a task's function because the task rests. No Exception, or it would be taken for a failure: let it pass."""


class Step:
    """One step of one attempt: what is marked before its function, and after it."""

    def __init__(
        self,
        marks: Marks,
        claim: Claim,
        label: str,
        fn: Callable[..., Any],
        in_doubt: Doubt,
        repeatable: bool,
        not_happened: tuple[type[BaseException], ...],
    ) -> None:
        self._marks, self._claim, self._label, self.fn = marks, claim, checked_label(label), fn
        if in_doubt not in DOUBTS:
            raise BadDefinition(f"step {label!r}: in_doubt must be {', '.join(DOUBTS)}, not {in_doubt!r}")
        if repeatable and in_doubt != "repeat":
            raise BadDefinition(
                f'step {label!r}: what is repeatable may be repeated, so that in_doubt="{in_doubt}" has no meaning; '
                "leave one of them out"
            )
        _check_function(label, fn, not_happened)
        self._in_doubt, self._repeatable, self._not_happened = in_doubt, repeatable, not_happened
        self._returned = Returned(fn, f"step {label!r}")

    def make(self, args: tuple[Any, ...]) -> Any:
        """What the function returned, now or before. Raises InDoubt if a person has to decide; and what it raises."""
        over, value = self.before()
        if over:
            return value
        points.point("begun", self._label)
        try:
            with _making(self._label):
                value = _answered(self._label, self.fn(*args))
        except BaseException as exc:
            self.failed(exc)
            raise
        points.point("effect", self._label)
        self.after(value)
        points.point("marked", self._label)
        return value

    async def amake(self, args: tuple[Any, ...]) -> Any:
        """The same for a coroutine function."""
        over, value = await in_thread(self.before)
        if over:
            return value
        points.point("begun", self._label)
        try:
            with _making(self._label):
                value = await self.fn(*args)
        except BaseException as exc:
            await in_thread(self.failed, exc)
            raise
        points.point("effect", self._label)
        await in_thread(self.after, value)
        points.point("marked", self._label)
        return value

    def before(self) -> tuple[bool, Any]:
        """Whether the step is over already, with what it returned; else its effect may go out.

        Raises InDoubt if a person has to decide that.
        """
        mark = self._marks.mark(self._claim, self._label)
        if mark is not None and mark.done_ms is not None:
            if mark.problem is not None:
                who = f"step {self._label!r} of {self._claim.name} #{self._claim.id}"
                raise BadArguments(f"{who} was made, but what it returned is lost: {mark.problem}{self._resolve()}")
            return True, None if mark.result is None else self._returned.value(mark.result)
        if mark is not None and self._in_doubt == "hold":
            raise InDoubt(f"step {self._label!r} was begun, and its end was not recorded: it may have happened or not")
        if mark is not None and self._in_doubt == "skip":
            self._marks.end(self._claim, self._label, None, None)
            return True, None
        if not self._repeatable:
            self._marks.begin(self._claim, self._label, self._in_doubt)
        return False, None

    def failed(self, exc: BaseException) -> None:
        """The function raised this. Only if that says that nothing happened, there is no doubt.

        Raises InDoubt if a person has to decide that.
        """
        if isinstance(exc, (*NOT_YET, *self._not_happened)):
            if not self._repeatable:
                self._marks.withdraw(self._claim, self._label)
        elif self._in_doubt == "hold" and isinstance(exc, Exception):
            raise InDoubt(f"step {self._label!r} may have happened or not, for it raised {failure_message(exc)}")

    def after(self, value: Any) -> None:
        """The effect is out. Raises BadArguments for a result that can't be kept: the step is made all the same."""
        try:
            text = None if value is None else self._returned.text(value)
        except BadArguments as exc:
            self._marks.end(self._claim, self._label, None, failure_message(exc))
            raise BadArguments(f"{exc}; the step was made and won't be repeated{self._resolve()}") from None
        self._marks.end(self._claim, self._label, text, None)

    def _resolve(self) -> str:
        command = f"nextdue resolve FILE {self._claim.id} {quote(self._label)} --happened --result JSON"
        return f"; let it return what JSON can hold, and give what this one returned by `{command}`"


def _check_function(label: str, fn: Any, not_happened: Any) -> None:
    """Refuse now what would fail after the step was begun, and leave it in doubt. Raises BadDefinition."""
    if not callable(fn):
        raise BadDefinition(
            f"step {label!r}: its function can't be called: {fn!r}; give it and its arguments one by one, "
            "as in ctx.step(label, send, order), not the call send(order)"
        )
    kinds = not_happened if isinstance(not_happened, tuple) else [not_happened]
    if kinds is not not_happened or not all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds
    ):
        raise BadDefinition(
            f"step {label!r}: not_happened is a tuple of exception types, like (ConnectionRefusedError,), "
            f"not {not_happened!r}"
        )


def once(labels: set[str], mark: str, two: str) -> None:
    """Refuse a mark that is among those of this attempt. Raises BadDefinition."""
    if mark in labels:
        raise BadDefinition(
            f"{two}, and the second would pass for the first; give each its own label, in a loop with what it is about"
        )
    labels.add(mark)


def _answered(label: str, value: T) -> T:
    """What a function that isn't async returned. Raises Unawaited."""
    if inspect.iscoroutine(value):
        value.close()
        raise Unawaited(
            f"step {label!r}: its function answered a coroutine, which nobody awaits; give the function that is "
            "written with async def, and write `await ctx.step(...)`"
        )
    return value


@contextmanager
def _making(label: str) -> Iterator[None]:
    before = _label_of.get()
    _label_of.set(label)
    try:
        yield
    finally:  # not reset(): a coroutine that is thrown away is closed in any context
        _label_of.set(before)


def refuse_to_wait(who: str) -> None:
    """Raise BadDefinition in a step: it would be begun, and end with its task's rest."""
    if (label := _label_of.get()) is not None:
        raise BadDefinition(
            f"{who}: a wait inside of step {label!r} would leave that in doubt; wait before the step or after it"
        )


def unawaited(claim: Claim, what: str) -> Ending:
    """The ending of an attempt that seems done, and has left what was to be awaited where it was."""
    verb, _, _ = what.partition(" ")
    message = (
        f"{what} was never awaited, so nothing came of it; write `await ctx.{verb}(...)`, in a task that is written "
        "with async def"
    )
    return Ending(claim, "failed", ran_ms=0, reason="coroutine", message=message)


class InDoubt(Exception):
    """A person has to decide whether a step happened."""


def held(claim: Claim, doubt: InDoubt) -> Ending:
    """The ending of an attempt that came to such a step."""
    return Ending(claim, "held", ran_ms=0, reason="in_doubt", message=str(doubt))


def checked_label(label: Any) -> str:
    """A label that can be stored. Raises BadDefinition."""
    if checked_name(label, "a label").startswith("@"):
        raise BadDefinition(f"a label must not begin with @, as {label!r} does: so begin nextdue's own marks")
    return str(label)


def idempotency_key(store: str, claim: Claim, created_ms: int, label: str) -> str:
    """32 hexadecimal digits that are the same in every attempt at this effect, and for no other one."""
    parts = msgspec.json.encode((store, claim.id, created_ms, claim.scheduled_for, claim.args, label))
    return hashlib.sha256(parts).hexdigest()[:32]
