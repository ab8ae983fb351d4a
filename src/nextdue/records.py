"""What travels between the worker, the store and the executors: plain values, no behaviour."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

Outcome = Literal["done", "failed", "snoozed", "released", "dead", "held", "crashed", "cancelled", "expired", "missed"]
"""How one claim ended; the word kept in the run history."""
Kind = Literal["done", "failed", "snoozed", "gave_up", "held", "released", "cancelled", "crashed", "finished", "rested"]
"""What an executor says of how one claim ended. finished, rested: by itself, in a transaction of its own."""
Mode = Literal["ignore", "reject", "replace", "earliest", "extend", "again"]
"""What a put does when its key is in use."""
Doubt = Literal["repeat", "skip", "hold"]
"""What a rerun does with a step that was begun and not marked as done."""
State = Literal["waiting", "running", "done", "dead", "cancelled", "held", "gone"]
"""What a user sees of a task; derived from its row or, when that is gone, from the run history."""


class Occurrence(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a claimed row knows of the schedule whose row it is."""

    plan: str
    """JSON of a schedule.Plan, as stored when the row was claimed."""
    fired: int
    """How many occurrences have ended before this one."""
    missed: int
    """How many were missed since the last one."""
    late_ms: int
    """How long after its slot it was claimed."""
    begun: int = 0
    """1 if it was started before, and snoozed or given back by a worker that stopped."""


class Claim(msgspec.Struct, array_like=True, frozen=True, gc=False, eq=False):
    """A row that this worker holds: (id, token) is the proof that every later write must show."""

    id: int
    token: int
    name: str
    args: str
    key: str | None
    attempts: int
    crashes: int
    claims: int
    scheduled_for: int
    alone: int
    """1 in a lane of tasks that are tried alone, having killed workers before."""
    occurrence: Occurrence | None = None


class Ending(msgspec.Struct, frozen=True):
    """What an executor says of one claim. `ran_ms` None: it was never started."""

    claim: Claim
    kind: Kind
    ran_ms: int | None = None
    delay_ms: int | None = None
    """The delay that the task itself asked for (Snooze, RetryAfter)."""
    reason: str | None = None
    message: str | None = None
    result: str | None = None
    error: BaseException | None = None
    """What it raised, for the log."""
    said: str | None = None
    """The last that it said of itself, as by ports.Executor.progress()."""


class Settlement(msgspec.Struct, array_like=True, frozen=True):
    """The end of one claim as the store writes it.

    Exactly one of `delay_ms`, `rest` and `forget` says what becomes of the row.
    """

    id: int
    token: int
    outcome: Outcome
    ran_ms: int | None = None
    """How long it ran; None leaves no trace in the run history."""
    forget: bool = False
    """The row is deleted: it is done and nobody needs its key."""
    delay_ms: int | None = None
    """Due again so many ms after now."""
    rest: str | None = None
    """At rest for this reason: done, dead or held."""
    attempts: int | None = None
    crashes: int | None = None
    alone: bool | None = None
    """From now on in the lane of tasks tried alone. Of these three, None leaves what the row says."""
    reason: str | None = None
    message: str | None = None
    result: str | None = None
    name: str = ""
    """For people; the store doesn't need it."""
    keep_ms: int | None = None
    """How long the result is kept at least."""
    next_ms: int | None = None
    """Of a schedule's row whose occurrence has ended, whatever the outcome: the due of the next one (UTC),"""
    next_in_ms: int | None = None
    """or how long after now it is due."""
    slot_ms: int | None = None
    """The slot of the next one; None: its due."""
    missed: int | None = None
    """So many occurrences are passed over; None: this one has ended."""
    error: BaseException | None = None
    """What it raised, for the log; it isn't stored."""


class Put(NamedTuple):
    """One task to be stored. Due at `due_ms` (UTC) or `delay_ms` after the store's now.

    `mode` says what becomes of a task that holds the key already; `latest_ms` is how long after now its due may be
    put off by mode "extend". Not to be started after `expires_ms` (UTC) or `expires_in_ms` after now.
    """

    name: str
    queue: str
    priority: int
    args: str
    due_ms: int | None = None
    delay_ms: int = 0
    key: str | None = None
    remember_ms: int | None = None
    mode: Mode = "ignore"
    latest_ms: int | None = None
    expires_ms: int | None = None
    expires_in_ms: int | None = None
    group: str | None = None
    after: tuple[int, ...] = ()
    """It rests until these tasks are done."""
    if_dead: str = "hold"
    """What becomes of it if one of them never will be: hold, cancel."""
    period_ms: int | None = None
    """On demand: a run at the end of the period of the wished due; `key` is that of all of them and gets a number."""


class Serving(NamedTuple):
    """How the tasks of one name are served: for how long they are leased, by which executor, and how many at most."""

    lease_ms: int
    kind: str = "thread"
    limit: int | None = None
    """How many of a group may run at once, in all workers."""
    rate_ms: int | None = None
    """The time between two starts of a group, in all workers."""
    rates_ms: Mapping[str, int] | None = None
    """The same of single groups, in place of `rate_ms`; 0: none."""


class Declared(NamedTuple):
    """A schedule to be kept; its row is due at `due_ms` for the occurrence `slot_ms`, or never (both None)."""

    name: str
    key: str
    """The key of its row, which begins with schedule.MARK."""
    queue: str
    priority: int
    args: str
    plan: str
    source: str | None
    """The module that declares it; None: made at run time."""
    due_ms: int | None
    slot_ms: int | None


class Stored(NamedTuple):
    """What a put answers: the row that now holds the task or its key, and whether this put made it."""

    id: int
    created: bool
    state: State


class Mark(NamedTuple):
    """What is recorded of a step, or of a wait, of one task."""

    done_ms: int | None
    """When the effect was out (UTC); None: it was begun, and nobody knows."""
    result: str | None
    """JSON."""
    problem: str | None
    """Why there is no result."""


class InDoubt(NamedTuple):
    """A step of which nobody knows whether it happened, or what it returned."""

    label: str
    begun_ms: int
    how: Doubt | None
    problem: str | None


class TickRequest(NamedTuple):
    """Everything one tick of a worker asks of the store, done in one transaction in this order."""

    worker: int
    settlements: list[Settlement]
    token: int
    """The token for rows claimed by this tick: worker << 32 | n, never used before."""
    slots: int
    """How many rows can be started at once."""
    ahead: int = 0
    """How many more may wait in this worker; none of them with crashes."""
    fair: bool = False
    """Take the oldest due whatever its priority."""
    alone: bool = False
    """Claim from the lanes of tasks tried alone instead of from the others."""
    until_ms: int | None = None
    """Claim only what was due at this instant (None: now)."""
    renewed_ms: int = 0
    """When the leases of this worker were last known to be fresh."""
    renew_every_ms: int = 0
    """Renew all of them unless now is within so many ms after `renewed_ms`; 0 = nothing runs."""
    kind: str = "thread"
    """Claim only what is run by this kind of executor."""
    progress: Sequence[tuple[int, int, str]] = ()
    """(id, token, JSON) that running tasks said of themselves."""


class TickAnswer(NamedTuple):
    """What one tick did."""

    now_ms: int
    claims: list[Claim]
    lost: list[tuple[int, int]]
    """(id, token) of settlements that were refused: the claim was no longer ours."""
    held: set[tuple[int, int]] | None
    """After a renewal, every (id, token) that this worker still holds; None if nothing was renewed."""
    alone_due_ms: int | None
    """The nearest due of the tasks that are tried alone."""
    ring: bool
    """A settled row became the nearest of its lane: idle neighbours must hear of it."""
    passed: bool
    """Rows were passed by that are claimed for a free slot only, never ahead."""
    expired: int
    """How many rows were past their `expires` and are dead now, or in their next life."""
    stops: list[tuple[int, int]]
    """(id, token) of rows of this worker that were asked to stop."""


class Look(NamedTuple):
    """What a worker with free slots sees before it sleeps."""

    now_ms: int
    dues: dict[str, int]
    """The nearest due of the rows that this worker could claim, by kind of executor."""
    alone_due_ms: int | None
    """The same for tasks that are tried alone."""
    retry_at_ms: int | None
    """When expired leases of others, which can't be trusted to be expired yet, may be taken over."""
    stops: list[tuple[int, int]]
    """(id, token) of rows of this worker that were asked to stop."""

    @property
    def due_ms(self) -> int | None:
        """The nearest of all dues."""
        return min(self.dues.values(), default=None)


class TaskView(msgspec.Struct, frozen=True):
    """One task as users see it. Instants in UTC ms."""

    id: int
    name: str
    queue: str | None
    priority: int | None
    state: State
    due: int | None
    key: str | None
    args: str | None
    attempts: int
    crashes: int
    claims: int
    scheduled_for: int | None
    created: int | None
    reason: str | None
    message: str | None
    worker: int | None


class RunView(msgspec.Struct, frozen=True):
    """One line of the run history. Instants in UTC ms."""

    task: int
    name: str
    key: str | None
    claim: int
    scheduled_for: int | None
    started: int | None
    ended: int
    outcome: Outcome
    reason: str | None
    message: str | None
    result: str | None
    """JSON."""
    worker: int | None
