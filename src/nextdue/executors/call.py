"""Calling one task's function: arguments in, ending out. Whatever it raises is an ending, never an escape."""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from types import CoroutineType
from typing import IO, Any, Protocol

import msgspec

from nextdue import effects
from nextdue.clock import Duration, duration_ms, from_ms
from nextdue.codec import Signature, result_text
from nextdue.errors import BadArguments, BadDefinition, LeaseLost
from nextdue.records import Claim, Ending
from nextdue.task import Cancelled, GiveUp, Options, RetryAfter, Snooze, failure_message


class Definition(msgspec.Struct, frozen=True):
    """A registered task: its function, what it takes, and its options."""

    fn: Callable[..., Any]
    signature: Signature
    options: Options
    wants_context: bool


class Desk(Protocol):
    """What a running task may ask of the store, from its own thread."""

    def extend(self, claim: Claim, ms: int) -> None:
        """Move the end of the claim's lease to at least `ms` from now. Raises LeaseLost or StoreError."""
        ...


class Context:
    """What a running task knows of itself: the first argument of a function whose first parameter is `ctx`."""

    __slots__ = ("_claim", "_desk", "_lost", "_said", "_stop", "ends_at")

    def __init__(self, claim: Claim, desk: Desk | None = None) -> None:
        self._claim, self._desk = claim, desk
        self._lost = self._stop = False
        self._said: str | None = None
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
    def crashes(self) -> int:
        """How many workers died while they held this task, since its last success."""
        return self._claim.crashes

    @property
    def scheduled_for(self) -> datetime:
        """When it was first to run (aware, UTC); the same for all attempts."""
        return from_ms(self._claim.scheduled_for)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far this attempt is; `nextdue ls` and `show` tell it within a few seconds.

        Costs no disk access. Raises Cancelled if the task's cancellation was asked for.
        """
        self._said = msgspec.json.encode((done, total, note[:200])).decode()
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

    def _refuse_if_lost(self, so: str = "the file was not replaced") -> None:
        if self._lost:
            raise LeaseLost(f"{self.name} #{self.id}: its lease is lost, so {so}")

    # what the executor does with it

    def mark_lost(self) -> None:
        """The claim is no longer ours."""
        self._lost = True

    def ask_to_stop(self) -> None:
        """The task's cancellation was asked for."""
        self._stop = True

    def take_progress(self) -> str | None:
        """What it last said, as JSON [done, total, note], once; None if nothing new."""
        said, self._said = self._said, None
        return said


def call(definition: Definition, claim: Claim, context: Context) -> Ending:
    """Run one claim to its ending; never raises."""
    begun = time.monotonic_ns()
    try:
        ending = _call(definition, claim, context)
    except BaseException:  # whatever asks this exception what it is fails too; its slot must live all the same
        ending = indescribable(claim)
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
    return Ending(
        claim,
        "gave_up" if isinstance(exc, (GiveUp, *retry.give_up)) else "failed",
        ran_ms=0,
        delay_ms=exc.delay_ms if isinstance(exc, RetryAfter) else None,
        reason=retry.reason(exc),
        message=failure_message(exc),
    )


def _unawaited(claim: Claim) -> Ending:
    message = "it returned a coroutine, which nobody awaits, so nothing was done; write its decorator with async def"
    return Ending(claim, "failed", ran_ms=0, reason="coroutine", message=message)


def returned(definition: Definition, claim: Claim, result: Any) -> Ending:
    """The ending of a task that returned this."""
    if not definition.options.keep_result:
        return Ending(claim, "done", ran_ms=0)
    try:
        return Ending(claim, "done", ran_ms=0, result=result_text(result, claim.name))
    except BaseException as exc:  # the effect is out, so this must not be a failure, which would repeat it
        return Ending(claim, "done", ran_ms=0, reason="result", message=failure_message(exc))
