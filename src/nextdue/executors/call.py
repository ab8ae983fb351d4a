"""Calling one task's function: arguments in, ending out. Whatever it raises is an ending, never an escape."""

import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import datetime, timedelta
from types import CoroutineType
from typing import IO, Any, Protocol

import msgspec

from nextdue import effects
from nextdue.clock import Duration, duration_ms, from_ms, to_ms
from nextdue.codec import Signature
from nextdue.errors import BadArguments, BadDefinition, BadTransaction, LeaseLost
from nextdue.executors import blame
from nextdue.records import Claim, Ending
from nextdue.task import Cancelled, GiveUp, Options, RetryAfter, Snooze, failure_message

log = logging.getLogger("nextdue")
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


class Desk(Protocol):
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


class Context:
    """What a running task knows of itself: the first argument of a function whose first parameter is `ctx`."""

    __slots__ = (
        *("_begun_ns", "_claim", "_desk", "_finish", "_keeps", "_lost", "_said", "_stop", "_tell", "_told"),
        "ends_at",
    )

    def __init__(self, claim: Claim, desk: Desk | None = None, tell: Callable[[], None] | None = None) -> None:
        self._claim, self._desk, self._tell = claim, desk, tell
        self._told = 0.0
        self._lost = self._stop = False
        self._said: str | None = None
        self._finish: str | None = None
        self._begun_ns = time.monotonic_ns()
        self._keeps: Definition | None = None
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
        self._said = msgspec.json.encode((done, total, note[:200])).decode()
        if self._tell is not None and time.monotonic() - self._told >= TELL_EVERY_S:
            self._told = time.monotonic()
            self._tell()
        if self._stop:
            raise Cancelled(f"{self.name} #{self.id}: its cancellation was asked for")

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

        Raises BadTransaction for a second finish, or for a transaction that can't carry the task.
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

    def _tell_finish(self, state: str | None) -> None:
        if state == "open" and self._finish is not None:
            raise BadTransaction(f"{self.name} #{self.id}: a task finishes once, and this one did so before")
        self._finish = state

    def _refuse_if_lost(self, so: str = "the file was not replaced") -> None:
        if self._lost:
            raise LeaseLost(f"{self.name} #{self.id}: its lease is lost, so {so}")

    # what the executor does with it

    def begin(self, definition: Definition) -> None:
        """The function is called now."""
        self._begun_ns = time.monotonic_ns()
        self._keeps = None if definition.options.keep_result_ms is None else definition

    def concluded(self, ending: Ending) -> Ending:
        """The ending of an attempt that may have settled itself by finish(); else the one given."""
        if self._finish is None or self._desk is None:
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
        """What it last said, as JSON [done, total, note], once; None if nothing new."""
        said, self._said = self._said, None
        return said


def first_limit_ms(contexts: Iterable[Context]) -> int | None:
    """Milliseconds until the first time limit among these passes, if any has one."""
    nearest = min((context.ends_at for context in contexts if context.ends_at is not None), default=None)
    return None if nearest is None else max(0, int((nearest - time.monotonic()) * 1000) + 1)


def all_progress(contexts: Iterable[tuple[Claim, Context]]) -> list[tuple[Claim, str]]:
    """What these have said of themselves since they were last asked."""
    return [(claim, said) for claim, context in contexts if (said := context.take_progress()) is not None]


def call(definition: Definition, claim: Claim, context: Context) -> Ending:
    """Run one claim to its ending; never raises."""
    begun = time.monotonic_ns()
    inside = running_in_worker.set(claim)
    try:
        context.begin(definition)
        ending = context.concluded(_call(definition, claim, context))
    except BaseException:  # whatever asks this exception what it is fails too; its slot must live all the same
        ending = indescribable(claim)
    finally:
        running_in_worker.reset(inside)
    return timed(ending, begun)


def indescribable(claim: Claim) -> Ending:
    """The ending of a task whose exception can't even be looked at."""
    return Ending(claim, "failed", ran_ms=0, reason="unknown", message="its exception can't be described")


def timed(ending: Ending, begun_ns: int) -> Ending:
    """This ending with the time since `begun_ns` (monotonic) as its run time."""
    ran_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
    return msgspec.structs.replace(ending, ran_ms=ran_ms) if ran_ms else ending


def _call(definition: Definition, claim: Claim, context: Context) -> Ending:
    try:
        result = invoke(definition, claim, context)
    except Unfit as exc:
        return exc.ending
    except BaseException as exc:  # SystemExit and CancelledError too: they are the task's failures, not ours
        return raised(definition, claim, exc)
    if type(result) is CoroutineType:
        result.close()
        return _unawaited(claim)
    return returned(definition, claim, result)


class Unfit(Exception):
    """The stored arguments don't fit the function."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


def invoke(definition: Definition, claim: Claim, context: Context) -> Any:
    """What the function answers, a coroutine for one written with async def. Raises Unfit and what it raises."""
    try:
        args, kwargs = definition.signature.decode(claim.args)
    except (BadArguments, BadDefinition) as exc:
        raise Unfit(Ending(claim, "unfit", ran_ms=0, reason="arguments", message=failure_message(exc))) from None
    return definition.fn(context, *args, **kwargs) if definition.wants_context else definition.fn(*args, **kwargs)


def raised(definition: Definition, claim: Claim, exc: BaseException) -> Ending:
    """The ending of a task that raised this."""
    if isinstance(exc, Snooze):
        return Ending(claim, "snoozed", ran_ms=0, delay_ms=exc.delay_ms)
    if isinstance(exc, Cancelled):
        return Ending(claim, "cancelled", ran_ms=0, message=failure_message(exc))
    retry = definition.options.retry
    message, place = failure_message(exc), blame.place(definition.fn, exc)
    return Ending(
        claim,
        "gave_up" if isinstance(exc, (GiveUp, *retry.give_up)) else "failed",
        ran_ms=0,
        delay_ms=exc.delay_ms if isinstance(exc, RetryAfter) else None,
        reason=retry.reason(exc),
        message=message if place is None else f"{message} ({place})",
        error=blame.without_ours(exc, message),
    )


def _unawaited(claim: Claim) -> Ending:
    message = "it returned a coroutine, which nobody awaits, so nothing was done; write its decorator with async def"
    return Ending(claim, "failed", ran_ms=0, reason="coroutine", message=message)


def returned(definition: Definition, claim: Claim, result: Any) -> Ending:
    """The ending of a task that returned this."""
    if definition.options.keep_result_ms is None:
        return Ending(claim, "done", ran_ms=0)
    try:
        return Ending(claim, "done", ran_ms=0, result=definition.signature.result_text(result))
    except BaseException as exc:  # the effect is out, so this must not be a failure, which would repeat it
        return Ending(claim, "done", ran_ms=0, reason="result", message=failure_message(exc))
