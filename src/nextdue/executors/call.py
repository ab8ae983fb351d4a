"""Calling one task's function: arguments in, ending out. Whatever it raises is an ending, never an escape."""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import datetime
from typing import IO, Any, Protocol

import msgspec

from nextdue import effects
from nextdue.clock import Duration, duration_ms, from_ms
from nextdue.codec import Signature
from nextdue.errors import BadArguments, BadDefinition, LeaseLost
from nextdue.records import Claim, Ending
from nextdue.task import Cancelled, GiveUp, Options, RetryAfter, Snooze, failure_message

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


class Context:
    """What a running task knows of itself: the first argument of a function whose first parameter is `ctx`."""

    __slots__ = ("_claim", "_desk", "_lost", "_said", "_stop", "_tell", "_told", "ends_at")

    def __init__(self, claim: Claim, desk: Desk | None = None, tell: Callable[[], None] | None = None) -> None:
        self._claim, self._desk, self._tell = claim, desk, tell
        self._told = 0.0
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
    inside = running_in_worker.set(claim)
    try:
        ending = _call(definition, claim, context)
    except BaseException:  # whatever asks this exception what it is fails too; its slot must live all the same
        ending = Ending(claim, "failed", ran_ms=0, reason="unknown", message="its exception can't be described")
    finally:
        running_in_worker.reset(inside)
    ran_ms = (time.monotonic_ns() - begun) // 1_000_000
    return msgspec.structs.replace(ending, ran_ms=ran_ms) if ran_ms else ending


def _call(definition: Definition, claim: Claim, context: Context) -> Ending:
    options = definition.options
    try:
        args, kwargs = definition.signature.decode(claim.args)
    except (BadArguments, BadDefinition) as exc:
        return Ending(claim, "unfit", ran_ms=0, reason="arguments", message=failure_message(exc))
    try:
        result = definition.fn(context, *args, **kwargs) if definition.wants_context else definition.fn(*args, **kwargs)
    except Snooze as snooze:
        return Ending(claim, "snoozed", ran_ms=0, delay_ms=snooze.delay_ms)
    except Cancelled as exc:
        return Ending(claim, "cancelled", ran_ms=0, message=failure_message(exc))
    except BaseException as exc:  # SystemExit and CancelledError too: they are the task's failures, not ours
        gave_up = isinstance(exc, (GiveUp, *options.retry.give_up))
        return Ending(
            claim,
            "gave_up" if gave_up else "failed",
            ran_ms=0,
            delay_ms=exc.delay_ms if isinstance(exc, RetryAfter) else None,
            reason=options.retry.reason(exc),
            message=failure_message(exc),
        )
    return _done(definition, claim, result)


def _done(definition: Definition, claim: Claim, result: Any) -> Ending:
    if not definition.options.keep_result:
        return Ending(claim, "done", ran_ms=0)
    try:
        return Ending(claim, "done", ran_ms=0, result=definition.signature.result_text(result))
    except BaseException as exc:  # the effect is out, so this must not be a failure, which would repeat it
        return Ending(claim, "done", ran_ms=0, reason="result", message=failure_message(exc))
