"""What a running task knows of itself, and may ask for: the context given to its function."""

import inspect
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import IO, Any, Protocol, TypeVar

import msgspec

from nextdue import effects
from nextdue.aio import in_thread
from nextdue.clock import Duration, duration_ms, from_ms, to_ms
from nextdue.codec import Signature, plain_text
from nextdue.errors import BadArguments, BadTransaction, LeaseLost
from nextdue.executors import steps
from nextdue.executors.steps import InDoubt, Marks, Resting, Step
from nextdue.records import Claim, Doubt, Ending, Mark
from nextdue.task import Cancelled, Options, checked_name

log = logging.getLogger("nextdue")
R = TypeVar("R")
T = TypeVar("T")
running_in_worker: ContextVar[Claim | None] = ContextVar("running_in_worker", default=None)
"""The claim of the task whose function runs here, if one does: such a one must not wait for other tasks."""


class Definition(msgspec.Struct, frozen=True):
    """A registered task: its function, what it takes, and its options."""

    fn: Callable[..., Any]
    signature: Signature
    options: Options
    wants_context: bool


TELL_EVERY_S = 2.0
"""How often progress makes the worker write it down."""


class Desk(Marks, Protocol):
    """What a running task may ask of the store, from its own thread."""

    def extend(self, claim: Claim, ms: int) -> None:
        """Move the end of the claim's lease to at least `ms` from now. Raises LeaseLost or StoreError."""
        ...

    def holds(self, claim: Claim) -> bool:
        """Whether the claim still stands, as committed. Raises StoreError."""
        ...

    def finish(
        self,
        claim: Claim,
        tx: object,
        *,
        tell: Callable[[str | None], None],
        begun_ns: int,
        result: str | None,
        result_ms: int | None,
        again: tuple[int | None, int | None],
    ) -> Any:
        """A context manager for the user's rows and the completion of the claim in one commit.

        `tell` hears "open", then "settled" (committed), "pending" (the user's to commit) or None (rolled back).
        `again` is a delay in ms, or an instant in UTC ms.
        """
        ...

    def identity(self, claim: Claim) -> tuple[int, str] | None:
        """When the task was put (UTC ms), and the id that its store had then; None if it is gone."""
        ...

    def results(self, claim: Claim) -> list[str | None]:
        """What the tasks returned that this one comes after, as JSON."""
        ...

    def wait(
        self,
        claim: Claim,
        label: str,
        event: str | None,
        ms: int | None,
        *,
        tell: Callable[[str | None], None],
        begun_ns: int,
    ) -> Mark:
        """Wait for an event, at most `ms`, or for so long: the mark if that is over. Else the task rests.

        Then Resting is raised, and `tell` has heard "open" and "settled". Raises LeaseLost, Cancelled or StoreError.
        """
        ...


class Context:
    """What a running task knows of itself: the first argument of a function whose first parameter is `ctx`."""

    __slots__ = (
        *("_before", "_begun_ns", "_claim", "_cursor", "_desk", "_ended", "_ending", "_finish", "_keeps", "_labels"),
        *("_lost", "_moved", "_progress", "_said", "_stop", "_tell", "_told", "_unawaited"),
        "ends_at",
    )

    def __init__(self, claim: Claim, desk: Desk | None = None, tell: Callable[[], None] | None = None) -> None:
        self._claim, self._desk, self._tell = claim, desk, tell
        self._told = 0.0
        self._lost = self._stop = False
        self._progress = "null"
        self._cursor: str | None = None
        self._moved, self._said = False, True
        self._finish: str | None = None
        self._before: str | None = None
        """What became of the finish() before this one."""
        self._begun_ns = time.monotonic_ns()
        self._keeps: Definition | None = None
        self._labels, self._unawaited = set[str](), set[str]()
        self._ended: Ending | None = None
        self._ending = threading.Lock()
        """Held while a wait may end the claim: coroutines may ask for several at once, each in a thread."""
        self.ends_at: float | None = None
        """When its time limit passes; monotonic seconds, kept by the executor."""

    @property
    def id(self) -> int:
        """The task's id, the same for all its attempts."""
        return self._claim.id

    @property
    def name(self) -> str:
        """The name under which it was stored."""
        return self._claim.name

    @property
    def key(self) -> str | None:
        """The key given to using(key=...)."""
        return self._claim.key

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1: failures so far + 1. Snoozes, stops and crashes don't count."""
        return self._claim.attempts + 1

    @property
    def claim(self) -> int:
        """How often a worker took this task to run it, this time included: from 1, whatever ended the earlier ones.

        A next life of a key begins at 1 again; nextdue retry and, without a key, finish(again=) count on.
        """
        return self._claim.claims

    @property
    def crashes(self) -> int:
        """How many workers died while they held this task, since its last success."""
        return self._claim.crashes

    @property
    def scheduled_for(self) -> datetime:
        """When it was first to run (aware, UTC); the same for all attempts."""
        return from_ms(self._claim.scheduled_for)

    @property
    def late(self) -> timedelta:
        """How long after its time an occurrence of a schedule was taken up; zero for any other task."""
        return timedelta(milliseconds=self._claim.occurrence.late_ms if self._claim.occurrence else 0)

    @property
    def missed(self) -> int:
        """How many occurrences of its schedule were missed since the last one that ran; this one stands for them."""
        return self._claim.occurrence.missed if self._claim.occurrence else 0

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far this attempt is; `nextdue ls` and `show` tell it within a few seconds.

        Costs no disk access. Raises Cancelled if the task's cancellation was asked for.
        """
        self._progress = msgspec.json.encode((done, total, note[:200])).decode()
        self._say()
        if self._stop:
            raise Cancelled(f"{self.name} #{self.id}: its cancellation was asked for")

    @property
    def cursor(self) -> Any:
        """How far a long iteration has come: what was set last, in an earlier attempt too, or None. Any plain JSON.

        `for row in rows(after=ctx.cursor): ...; ctx.cursor = row.id`. Setting it costs no disk access: it is saved
        every 2 s and when the attempt ends. Setting raises BadArguments for what JSON can't keep.
        """
        if self._cursor is None:
            mark = self._marks().mark(self._claim, steps.CURSOR) if self._claim.id else None
            self._cursor = mark.result if mark is not None and mark.result is not None else "null"
        return msgspec.json.decode(self._cursor)

    @cursor.setter
    def cursor(self, value: Any) -> None:
        self._cursor = plain_text(value, "ctx.cursor") or "null"
        self._moved = True
        self._say()

    def _say(self) -> None:
        self._said = False
        if self._tell is not None and time.monotonic() - self._told >= TELL_EVERY_S:
            self._told = time.monotonic()
            self._tell()

    def cancelled(self) -> bool:
        """Whether the task's cancellation was asked for. Whoever sees it cleans up and raises nextdue.Cancelled."""
        return self._stop

    def extend(self, more: Duration) -> None:
        """Ask for more time: the lease ends at the earliest so long from now, and so does the time limit.

        A living worker keeps leases by itself. This is for what stops even that: a call into C that holds the
        interpreter for longer than the lease. Raises LeaseLost.
        """
        ms = duration_ms(more, "extend's time")
        self._refuse_if_lost("no time was added")
        if self._desk is not None:
            self._desk.extend(self._claim, ms)
        if self.ends_at is not None:
            self.ends_at = max(self.ends_at, time.monotonic() + ms / 1000)

    def lost(self) -> bool:
        """Whether this attempt's lease is over, so that another worker may be running the task.

        A long task asks now and then, and stops: what it still does may be done twice.
        """
        return self._lost

    def replace(
        self,
        path: str | os.PathLike[str],
        mode: str = "w",
        *,
        encoding: str | None = None,
        newline: str | None = None,
    ) -> AbstractContextManager[IO[Any]]:
        """Write a file that appears under its name only when complete: `with ctx.replace("a.csv") as f: ...`.

        A temporary file beside it, fsync, rename, fsync of the directory; if the block raises, the old file stays.
        Raises LeaseLost instead of renaming if the lease was lost meanwhile.
        """
        return effects.replace(path, mode, encoding=encoding, newline=newline, before_rename=self._refuse_if_lost)

    def finish(self, tx: Any = None, *, result: Any = None, again: Duration | datetime | None = None) -> Any:
        """The task's own rows and its completion in one commit: `with ctx.finish() as tx: tx.execute(...)`.

        At the end of the block the task is done. An exception in it rolls both back and is this attempt's failure; so
        does LeaseLost, raised if the claim is no longer ours. What is raised after the block changes nothing any more.

        tx: your own transaction instead of one of nextdue's, as for using(tx=...); it is yours to commit, and is
        rolled back here if the block fails. result: what the function would have returned. again: instead of ending,
        be due again so long from now, or at this instant; as a fresh task, with no failures.

        Where you rolled it back, the task may finish again. Raises BadTransaction for a second finish, or for a
        transaction that can't carry the task.
        """
        due = to_ms(again) if isinstance(again, datetime) else None
        delay = None if again is None or isinstance(again, datetime) else duration_ms(again, "finish's again")
        keeps = self._keeps
        self._refuse_if_lost("nothing was written")
        try:
            text = keeps.signature.result_text(result) if keeps else None
        except BadArguments as exc:
            if result is not None:
                raise
            raise BadArguments(f"{exc}; what the function is to return is given by finish(result=...)") from None
        if self._desk is None:
            raise BadTransaction(f"{self.name} #{self.id}: finish() needs a store, and this executor was given none")
        return self._desk.finish(
            self._claim,
            tx,
            tell=self._tell_finish,
            begun_ns=self._begun_ns,
            result=text,
            result_ms=keeps.options.keep_result_ms if keeps else None,
            again=(delay, due),
        )

    # effects outside of the database

    def step(
        self,
        label: str,
        fn: Callable[..., R],
        *args: Any,
        in_doubt: Doubt = "repeat",
        repeatable: bool = False,
        not_happened: tuple[type[BaseException], ...] = (),
    ) -> R:
        """Call `fn(*args)` once: `ctx.step("mail", send, order)`. If an earlier attempt did, answer what it returned.

        It is marked before and after, under its label: unique within the task, and the same in every attempt. `fn` may
        be async: `await ctx.step("mail", asend, order)`. What it returns must be JSON by its annotation, as of a task.

        in_doubt: what becomes of a step that was begun and whose end isn't known, because the worker died or `fn`
        raised: "repeat" it, "skip" it (None is its result), or "hold" the task until a person decides (`nextdue
        resolve`). not_happened: exceptions of `fn` that leave no doubt, like ConnectionRefusedError; nor do Snooze and
        RetryAfter. repeatable: a repeat does no harm, so that one of the two commits is spared.

        Raises BadDefinition for a label used twice, BadArguments for a result that JSON can't keep (the step isn't
        repeated), LeaseLost, StoreError, and what `fn` raises.
        """
        step = self._step(label, fn, in_doubt, repeatable, not_happened)
        if inspect.iscoroutinefunction(fn):
            return self._awaitable(f"step {label!r}", self._astep, step, args)  # type: ignore[return-value]
        with self._held_if_in_doubt():
            return step.make(args) if self._claim.id else fn(*args)

    async def _astep(self, step: Step, args: tuple[Any, ...]) -> Any:
        with self._held_if_in_doubt():
            return await (step.amake(args) if self._claim.id else step.fn(*args))

    def _awaitable(self, what: str, fn: Callable[..., Awaitable[T]], *args: Any) -> Coroutine[Any, Any, T]:
        """What is missed if nobody awaits it."""

        async def awaited() -> T:
            self._unawaited.discard(what)
            return await fn(*args)

        self._unawaited.add(what)
        return awaited()

    def _step(self, label: str, fn: Callable[..., Any], *how: Any) -> Step:
        with self._ending:
            self._refuse_if_lost("the step was not made")
        if self._finish is not None:
            raise BadTransaction(f"{self.name} #{self.id}: step {label!r} comes too late, in finish() or after it")
        step = Step(self._marks(), self._claim, label, fn, *how)
        steps.once(self._labels, label, f"{self.name} #{self.id}: two steps of one attempt are called {label!r}")
        return step

    def _marks(self) -> Desk:
        if self._desk is None:
            raise BadTransaction(f"{self.name} #{self.id}: this needs a store, and this executor was given none")
        return self._desk

    @contextmanager
    def _held_if_in_doubt(self) -> Iterator[None]:
        try:
            yield
        except InDoubt as doubt:
            self._ended = steps.held(self._claim, doubt)
            raise Resting(f"{self.name} #{self.id} is held: {doubt}") from None

    def idempotency_key(self, label: str) -> str:
        """32 hexadecimal digits that are the same in every attempt of this task, and in no other task or label.

        For an Idempotency-Key header, a Message-ID, a payment's reference: whoever receives an effect twice can tell.
        It stays the same in a restored backup. Raises BadDefinition for a bad label, LeaseLost if the task is gone.
        """
        steps.checked_label(label)
        found = self._marks().identity(self._claim) if self._claim.id else (0, "")
        if found is None:
            raise LeaseLost(f"{self.name} #{self.id}: its row is gone, so that it has no idempotency key any more")
        created_ms, store = found
        return steps.idempotency_key(store, self._claim, created_ms, label)

    # waiting without a slot

    @property
    def results(self) -> list[Any]:
        """What the tasks returned that this one was put after=, in that order; None of one that keeps no result."""
        found = self._marks().results(self._claim) if self._claim.id else []
        return [None if text is None else msgspec.json.decode(text) for text in found]

    def wait_for(self, event: str, timeout: Duration | None = None) -> Any:
        """The data of an event that nd.send() has sent, or will: meanwhile the task rests, without slot or lease.

        Then its function is called anew, from its first line: what is before this belongs into steps. Raises
        TimeoutError if nothing came within `timeout`, and Resting, which must be let pass.
        """
        ms = None if timeout is None else duration_ms(timeout, "the timeout")
        mark = self._wait(f"@event {checked_name(event, 'an event')}", event, ms)
        if mark.problem is not None:
            raise TimeoutError(f"{self.name} #{self.id}: event {event!r} did not come in time")
        return None if mark.result is None else msgspec.json.decode(mark.result)

    def await_for(self, event: str, timeout: Duration | None = None) -> Coroutine[Any, Any, Any]:
        """wait_for() in a coroutine."""
        return self._awaitable(f"await_for {event!r}", in_thread, self.wait_for, event, timeout)

    def sleep(self, label: str, duration: Duration) -> None:
        """Rest for so long, without slot or lease, whatever becomes of the worker; then the function is called anew.

        The label is that of a step: unique within the task. Raises Resting, which must be let pass.
        """
        mark, ms = f"@sleep {steps.checked_label(label)}", duration_ms(duration, "sleep's duration")
        steps.once(self._labels, mark, f"{self.name} #{self.id}: two sleeps of one attempt are called {label!r}")
        self._wait(mark, None, ms)

    def asleep(self, label: str, duration: Duration) -> Coroutine[Any, Any, None]:
        """sleep() in a coroutine."""
        return self._awaitable(f"asleep {label!r}", in_thread, self.sleep, label, duration)

    def _wait(self, label: str, event: str | None, ms: int | None) -> Mark:
        if not self._claim.id:
            raise BadTransaction(f"{self.name}: only a task that a worker runs can wait; this one was called by hand")
        steps.refuse_to_wait(f"{self.name} #{self.id}")
        with self._ending:
            self._refuse_if_lost("it can't wait")
            if self._finish is not None:
                raise self._finished_before()
            if self._moved:
                self._marks().end(self._claim, steps.CURSOR, self._cursor, None)  # its worker sees this claim no more
            try:
                return self._marks().wait(
                    self._claim, label, event, ms, tell=self._tell_finish, begun_ns=self._begun_ns
                )
            except Resting:
                self._ended = Ending(self._claim, "rested", ran_ms=0)
                raise

    def _tell_finish(self, state: str | None) -> None:
        if state == "open":
            if self._finish not in (None, "pending"):  # what is pending may have been rolled back; the token knows
                raise self._finished_before()
            self._before = self._finish
        self._finish = self._before if state is None else state

    def _finished_before(self) -> BadTransaction:
        return BadTransaction(f"{self.name} #{self.id}: a task finishes once, and this one did so before")

    def _refuse_if_lost(self, so: str = "the file was not replaced") -> None:
        if self._lost:
            raise LeaseLost(f"{self.name} #{self.id}: its lease is lost, so {so}")
        if self._ended is not None:
            raise Resting(f"{self.name} #{self.id} is at rest already, so {so}; let what said so pass")

    # what the executor does with it

    def begin(self, definition: Definition) -> None:
        """The function is called now."""
        self._begun_ns = time.monotonic_ns()
        self._keeps = None if definition.options.keep_result_ms is None else definition

    def concluded(self, ending: Ending) -> Ending:
        """The ending of an attempt that may have settled itself by finish(); else the one given."""
        with self._ending:  # by a thread that its coroutine no longer waits for
            ended = self._ended
        if ended is not None:
            ending = ended  # whatever the function made of Resting
        elif ending.kind == "done" and self._unawaited:
            ending = steps.unawaited(self._claim, min(self._unawaited))
        if self._moved and ending.kind != "done":
            ending = msgspec.structs.replace(ending, said=self._words())
        if ended is not None or self._finish is None or self._desk is None:
            return ending
        if self._finish == "pending" and self._desk.holds(self._claim):
            if ending.kind != "done":
                return ending
            message = "finish(tx=...) was used, but the transaction was never committed"
            return Ending(self._claim, "failed", ran_ms=0, reason="not_committed", message=message)
        if ending.kind != "done":
            said = ending.message or ending.kind
            log.warning("%s #%d is done; what it raised after finish() changes nothing: %s", self.name, self.id, said)
        return Ending(self._claim, "finished", ran_ms=0)

    def settled(self) -> bool:
        """Whether finish() has committed its end."""
        return self._finish == "settled"

    def mark_lost(self) -> None:
        """The claim is no longer ours; unless it is settled by the task itself, which the worker may not know yet."""
        self._lost = self._finish != "settled"

    def ask_to_stop(self) -> None:
        """The task's cancellation was asked for."""
        self._stop = True

    def take_progress(self) -> str | None:
        """What it says of itself, as ports.Executor.progress() does, once; None if nothing new."""
        said, self._said = self._said, True
        return None if said else self._words()

    def _words(self) -> str:
        return f"[{self._progress},{self._cursor}]" if self._moved else f"[{self._progress}]"


def first_limit_ms(contexts: Iterable[Context]) -> int | None:
    """Milliseconds until the first time limit among these passes, if any has one."""
    nearest = min((context.ends_at for context in contexts if context.ends_at is not None), default=None)
    return None if nearest is None else max(0, int((nearest - time.monotonic()) * 1000) + 1)


def all_progress(contexts: Iterable[tuple[Claim, Context]]) -> list[tuple[Claim, str]]:
    """What these have said of themselves since they were last asked."""
    return [(claim, said) for claim, context in contexts if (said := context.take_progress()) is not None]
