"""A handle: one stored task as its program sees it."""

from collections.abc import Generator, Sequence
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any, Generic, TypeVar, overload

import msgspec

from nextdue.aio import in_thread
from nextdue.clock import Duration, duration_ms, from_ms, utc_text
from nextdue.codec import plain_text
from nextdue.errors import BadArguments, ResultNotKept, TaskFailed, UnknownTask, WouldDeadlock
from nextdue.executors.context import running_in_worker
from nextdue.records import InDoubt, RunView, State, TaskView
from nextdue.sqlite import care, marks
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.pauses import pause_task, resume_task
from nextdue.sqlite.waiting import Ended, ended
from nextdue.task import checked_name

R = TypeVar("R")


class Handle(Generic[R]):
    """A stored task. `created` says whether this enqueue made it, or found its key in use.

    `await handle` is `await handle.aresult()`.
    """

    __slots__ = ("_caller", "created", "id", "key", "name")

    def __init__(self, caller: Caller, id: int, name: str, key: str | None, *, created: bool) -> None:
        self._caller, self.id, self.name, self.key, self.created = caller, id, name, key, created

    def __repr__(self) -> str:
        key = "" if self.key is None else f" key={self.key!r}"
        return f"<{self.name} #{self.id}{key}>"

    def __eq__(self, other: object) -> bool:
        """Whether it is the same task of the same file."""
        return isinstance(other, Handle) and (self.id, self._caller.path) == (other.id, other._caller.path)

    def __hash__(self) -> int:
        return hash((self.id, self._caller.path))

    @property
    def path(self) -> Path:
        """The file it is in."""
        return self._caller.path

    # looking at it

    @property
    def state(self) -> State:
        """waiting, running, done, dead, cancelled or held; gone if neither a row nor its history is left."""
        with self._caller.use() as store:
            view = store.get(self.id)
        return view.state if view else "gone"

    @property
    def due(self) -> datetime | None:
        """When it is looked at next (aware, UTC): to be started, or, while it runs, the end of its lease."""
        with self._caller.use() as store:
            view = store.get(self.id)
        return from_ms(view.due) if view and view.due is not None else None

    def view(self) -> TaskView:
        """All that is known of it. Raises UnknownTask if nothing is."""
        with self._caller.use() as store:
            view = store.get(self.id)
        if view is None:
            raise UnknownTask(f"{self!r} is neither in {self._caller.path} nor in its run history")
        return view

    def runs(self) -> list[RunView]:
        """What happened to it so far, newest first."""
        with self._caller.use() as store:
            return store.runs(task=self.id)

    # changing what becomes of it

    def cancel(self) -> bool:
        """Cancel it if it is waiting, held or dead: True. False if it is done, or runs: then it is asked to stop.

        A running task sees that at its next ctx.progress() or, in a coroutine, await; look at `state`.
        """
        return self._caller.cancel(self.id) == "cancelled"

    def retry(self) -> bool:
        """Start it anew if it is dead, held, cancelled, or failed and waiting: due now, nothing counted against it.

        One that waits for its rate keeps its slot. False if it is in any other state, or paused (resume() is for
        that); then nothing changes.
        """
        with self._caller.change() as store:
            return care.apply(store, "retry", [self.id]) == 1

    def run_now(self) -> bool:
        """Make it due now if it is waiting, whatever its delay.

        False if it isn't, or if its rate allows no earlier start than its `due`; then nothing changes.
        """
        with self._caller.change() as store:
            return care.apply(store, "run_now", [self.id]) == 1

    def pause(self) -> bool:
        """Set it aside until resume(): it is held, and its due is kept. False if it runs or has ended.

        Raises UnknownTask if its row is gone.
        """
        with self._caller.change() as store:
            paused = pause_task(store, self.id)
        self._caller.ring()  # those behind it in its group may run now
        return paused

    def resume(self) -> bool:
        """End its pause: due when it was to be, now if that passed. False if it wasn't paused."""
        with self._caller.change() as store:
            resumed = resume_task(store, self.id)
        self._caller.ring()
        return resumed

    # deciding about its steps

    def doubts(self) -> list[InDoubt]:
        """Its steps of which nobody knows whether they happened, or what they returned; the oldest first."""
        with self._caller.use() as store:
            return marks.doubts(store, self.id)

    def resolve(self, label: str, *, happened: bool, result: Any = None) -> bool:
        """Say of a step in doubt that it has happened, and returned `result`, or that it hasn't: then it is made.

        True if the task was held for it and is due now; else it goes on when it is due, or by retry(). Raises
        NotInDoubt, also while it runs, UnknownTask if its row is gone, BadArguments for what JSON can't hold.
        """
        if type(happened) is not bool:
            raise BadArguments(f"happened must be True or False, not {happened!r}")
        if result is not None and not happened:
            raise BadArguments(f"step {label!r}: one that didn't happen returned nothing; leave result out")
        text = plain_text(result, f"the result of step {label!r}")
        with self._caller.change() as store:
            released = marks.resolve(store, self.id, checked_name(label, "a label"), happened=happened, result=text)
        if released:
            self._caller.ring()
        return released

    # waiting for its end

    def result(self, timeout: Duration | None = None) -> R:
        """What it returned, as the type that its function's annotation names; blocks until it is done.

        A task that will be retried is waited for. Raises TimeoutError after `timeout` (0: don't wait), TaskFailed if
        it is dead, expired, cancelled or held, ResultNotKept if there is no result to give, WouldDeadlock inside a
        running task unless `timeout` is 0.
        """
        self._refuse_unkept()
        seconds = self._patience(timeout)
        found = self._look()
        if found is None and seconds != 0:
            found = self._caller.waits.ended(self.id, seconds) or self._look()
        if found is None:
            raise self._late(seconds)
        value: R = self._value(found)
        return value

    async def aresult(self, timeout: Duration | None = None) -> R:
        """result() from a coroutine, without blocking its event loop."""
        self._refuse_unkept()
        seconds = self._patience(timeout)
        found = await in_thread(self._look)
        if found is None and seconds != 0:
            found = await self._caller.waits.aended(self.id, seconds) or await in_thread(self._look)
        if found is None:
            raise await in_thread(self._late, seconds)
        value: R = self._value(found)
        return value

    def __await__(self) -> Generator[Any, None, R]:
        return self.aresult().__await__()

    def wait(self, timeout: Duration | None = None) -> State:
        """Block until it is done, dead, cancelled, held or gone, or until `timeout` is over; its state then.

        It needs no kept result. Raises WouldDeadlock inside a running task unless `timeout` is 0.
        """
        seconds = self._patience(timeout)
        found = self._look()
        if found is None and seconds != 0:
            found = self._caller.waits.ended(self.id, seconds)
        return found.state if found else self.state

    def _look(self) -> Ended | None:
        with self._caller.use() as store:
            store.database.check_file()
            return next(iter(ended(store, [self.id])), None)

    def _patience(self, timeout: Duration | None) -> float | None:
        """How many seconds to wait; None: for ever."""
        ms = None if timeout is None else duration_ms(timeout, "the timeout")
        inside = running_in_worker.get()
        if inside is not None and ms != 0:
            raise WouldDeadlock(
                f"task {inside.name} #{inside.id} would wait for {self!r}, which may need the slot that it takes "
                "itself; let the other task enqueue what comes after it, or raise Snooze and look again with timeout=0"
            )
        return None if ms is None else ms / 1000

    def _refuse_unkept(self) -> None:
        declared = self._caller.declared.get(self.name)
        if declared is not None and not declared.options.keep_result:
            raise ResultNotKept(
                f"task {self.name} keeps no results; declare it with keep_result=True, or wait for its end by wait()"
            )

    def _late(self, seconds: float | None) -> TimeoutError:
        with self._caller.use() as store:
            view, alive = store.get(self.id), store.lives.living()
        waited = f"after {seconds:g} s " if seconds else ""
        state, more = (view.state, "") if view else ("gone", "")
        if view and view.due is not None and state == "waiting":
            more = f", due {utc_text(view.due)}"
            if view.attempts:
                more += f" after {view.attempts} failure{'s' if view.attempts > 1 else ''}"
        if not alive:
            return TimeoutError(f"{self!r} {waited}is still {state}{more}, and no worker lives on {self._caller.path}")
        return TimeoutError(f"{self!r} {waited}is still {state}{more}; it goes on, ask again later")

    def _value(self, found: Ended) -> Any:
        if found.state == "gone":
            raise ResultNotKept(
                f"{self!r} is neither in {self._caller.path} nor is its end in the run history: "
                "its result, if it had one, is no longer kept"
            )
        if found.state != "done":
            raise self._failed(found)
        if found.result is None:
            why = "none was kept when it ended, or not for so long"
            if found.reason == "result":
                why = f"it could not be kept: {found.message}"
            raise ResultNotKept(f"{self!r} is done, but its result can't be given: {why}")
        declared = self._caller.declared.get(self.name)
        if declared is None:
            return msgspec.json.decode(found.result)
        try:
            return declared.signature.result(found.result)
        except BadArguments as exc:
            raise ResultNotKept(
                f"{self!r} is done, but its result is of another type than the function returns now: {exc}; "
                "as JSON it is in runs()[0].result"
            ) from None

    def _failed(self, found: Ended) -> TaskFailed:
        reason = found.reason or found.state
        message = found.message or ""
        said = f": {message}" if message else f" ({reason})" if reason != found.state else ""
        command = f"nextdue retry {quote(str(self._caller.path))} {self.id}"
        anew = f"; its handle's retry(), or `{command}`, starts it anew"
        todo = {"dead": anew, "held": "; it waits for a person"}.get(found.state, "")
        if found.state == "held" and found.reason == "in_doubt":
            todo = "; its handle's doubts() and resolve(), or `nextdue resolve`, decide whether it happened"
        text = f"{self!r} has no result, it is {found.state}{said}{todo}"
        return TaskFailed(text, reason=reason, message=message, state=found.state)


class Handles(Sequence[Handle[R]]):
    """The handles of tasks that were stored together, each made when it is asked for: a million cost nothing."""

    __slots__ = ("_caller", "_ids", "_name")

    def __init__(self, caller: Caller, ids: Sequence[int], name: str) -> None:
        self._caller, self._ids, self._name = caller, ids, name

    def __repr__(self) -> str:
        return f"<{len(self)} handles of {self._name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> Handle[R]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Handle[R]]: ...
    def __getitem__(self, index: int | slice) -> Handle[R] | Sequence[Handle[R]]:
        if isinstance(index, slice):
            return Handles(self._caller, self._ids[index], self._name)
        return Handle(self._caller, self._ids[index], self._name, None, created=True)
