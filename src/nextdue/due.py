"""The idea of nextdue, as pure functions: everything is a future `due`.

A task is a row and its `due` says when somebody must look at it next. A delay, a retry, a lease and a snooze are
all the same thing: the row's next due. These functions say what that is; they reach no clock, thread or SQL.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from nextdue import schedule
from nextdue.clock import MAX_MS, utc_text
from nextdue.errors import BadTime
from nextdue.records import Claim, Ending, Outcome, Settlement
from nextdue.task import Options, Retry

CRASH_BACKOFF_MS = 250
MAX_CRASHES = 3
"""A task is dead after it killed its worker so often, the last time alone."""
MAX_CLAIMED = 400
"""The most rows that one tick claims."""
AHEAD_WINDOW_MS = 20
"""A worker claims ahead as many rows as it finished in so long."""
AHEAD_PATIENCE_MS = 100
"""Rows claimed ahead are given back when nothing finished for so long."""
STALL_MS = 1_000
"""An executor that didn't start what it was given gets no more for so long."""
FAIR_EVERY = 8
"""Every so many claims the oldest due goes first whatever its priority."""
ALONE_TURN_MS = 60_000
ALONE_HOLD_MS = 10_000
"""A task that must run alone waits for the worker to be idle; for the last 10 s of each overdue minute, no
new claims are made so that it becomes idle."""


def backoff_ms(failures: int, retry: Retry, random: Callable[[], float]) -> int:
    """The wait after the n-th failure: base * 2**(n-1), at most cap, plus jitter.

    The exponent is capped before the power, so that no number of failures can overflow.

    >>> backoff_ms(3, Retry(base=60, cap=3600, jitter=0), lambda: 0.0)
    240000
    """
    exponent = min(max(failures - 1, 0), 40)
    return min(retry.cap_ms, retry.base_ms << exponent) + int(retry.jitter_ms * random())


def crash_backoff_ms(crashes: int) -> int:
    """The wait after a task's n-th crash: 250 ms, doubling, at most about 17 minutes."""
    return CRASH_BACKOFF_MS << min(max(crashes - 1, 0), 12)


def on_claim(claim: Claim) -> Settlement | None:
    """What a claimed row's crashes demand before it is started: nothing (None), to be tried alone, or to be dead.

    A worker that dies takes all it runs with it, so a crash is at first nobody's in particular. Only a task that
    kills its worker while nothing else runs there is to blame.
    """
    if claim.key is not None and claim.key[0] == schedule.MARK and claim.occurrence is None:
        return Settlement(claim.id, claim.token, "cancelled", forget=True, name=claim.name)  # its schedule was removed
    if claim.alone:
        if claim.crashes < MAX_CRASHES:
            return None
        message = f"its worker died {claim.crashes} times, at last with nothing else running"
        verdict = Settlement(claim.id, claim.token, "dead", ran_ms=0, rest="dead", message=message)
    elif claim.crashes < MAX_CRASHES - 1:
        return None
    else:
        message = "its worker died repeatedly; it is now tried alone"
        verdict = Settlement(claim.id, claim.token, "released", delay_ms=0, message=message)
    return msgspec.structs.replace(
        verdict, attempts=claim.attempts, crashes=claim.crashes, alone=True, reason="worker_died", name=claim.name
    )


def settle(claim: Claim, ending: Ending, options: Options, random: Callable[[], float]) -> Settlement:
    """What becomes of a row whose attempt ended so: the one place where outcomes turn into dues."""
    settlement = _settled(claim, ending, options, random)
    return settlement if claim.occurrence is None else followed(claim, settlement, random)


def _settled(claim: Claim, ending: Ending, options: Options, random: Callable[[], float]) -> Settlement:
    if ending.kind == "cancelled" and ending.ran_ms is None:
        ending = msgspec.structs.replace(ending, ran_ms=0)  # or nothing would tell that it was cancelled
    if ending.kind in ("done", "cancelled") and claim.key is None:
        return _forgotten(claim, ending, "done" if ending.kind == "done" else "cancelled", options)
    kept = Settlement(
        claim.id,
        claim.token,
        "done",
        ran_ms=ending.ran_ms,
        attempts=claim.attempts,
        crashes=claim.crashes,
        alone=bool(claim.alone),
        reason=ending.reason,
        message=ending.message,
        result=ending.result,
        name=claim.name,
        keep_ms=None if ending.result is None else options.keep_result_ms,
        error=ending.error,
    )
    settlement = partial(msgspec.structs.replace, kept)
    match ending.kind:
        case "done":
            return settlement(rest="done", crashes=0, alone=False)
        case "snoozed":
            return settlement(outcome="snoozed", delay_ms=ending.delay_ms, crashes=0, alone=False)
        case "released" | "finished" | "rested":  # what settled itself is settled; this would change nothing
            return settlement(outcome="released", delay_ms=0)
        case "cancelled":
            return settlement(outcome="cancelled", rest="cancelled")
        case "crashed":
            crashes = claim.crashes + 1
            if crashes >= MAX_CRASHES:
                return settlement(outcome="dead", rest="dead", crashes=crashes)
            return settlement(outcome="crashed", delay_ms=crash_backoff_ms(crashes), crashes=crashes)
        case "held":
            return settlement(outcome="held", rest="held")
        case "gave_up":
            return settlement(outcome="dead", rest="dead", attempts=claim.attempts + 1)
        case "failed":
            failures = claim.attempts + 1
            limit = options.retry.limit
            if limit is not None and failures >= limit:
                return settlement(outcome="dead", rest="dead", attempts=failures)
            delay = ending.delay_ms
            if delay is None:
                delay = backoff_ms(failures, options.retry, random)
            return settlement(outcome="failed", delay_ms=delay, attempts=failures)


class Next(NamedTuple):
    """When the next occurrence of a schedule is due: at an instant, or so long after now; and its slot, if any."""

    at_ms: int | None
    in_ms: int | None
    slot_ms: int | None


def next_of(claim: Claim, random: Callable[[], float]) -> Next | None:
    """What follows on a claimed occurrence when it has ended; None if it is the last."""
    assert claim.occurrence is not None
    plan = schedule.read(claim.occurrence.plan)
    slot = schedule.following(plan, claim.scheduled_for, claim.scheduled_for + claim.occurrence.late_ms)
    if slot is None or (plan.count is not None and claim.occurrence.fired + 1 >= plan.count):
        return None
    if schedule.from_end(plan):
        return Next(None, schedule.jittered(plan, plan.period_ms or 0, random), None)
    return Next(schedule.jittered(plan, slot, random), None, slot)


def followed(claim: Claim, ended: Settlement, random: Callable[[], float]) -> Settlement:
    """The same for a schedule's row: an occurrence that ended, however it ended, is followed by the next one."""
    assert claim.occurrence is not None
    if ended.reason == "in_doubt":
        return ended  # it isn't over before a person has decided
    if ended.outcome in ("failed", "crashed") and ended.delay_ms is not None:
        now = claim.scheduled_for + claim.occurrence.late_ms + (ended.ran_ms or 0)
        until = schedule.retried_until(schedule.read(claim.occurrence.plan), claim.scheduled_for, now)
        if until is not None and now + ended.delay_ms >= until:
            ended = msgspec.structs.replace(ended, outcome="dead", delay_ms=None)
    following = next_of(claim, random)
    if ended.delay_ms is None:
        # If its schedule was removed meanwhile, nothing comes of the next occurrence and nobody needs the row.
        last = following is None
        ended = msgspec.structs.replace(ended, forget=not last, rest="done" if last else None, alone=False)
    if following is None:
        return ended
    at, within, slot = following
    return msgspec.structs.replace(ended, next_ms=at, next_in_ms=within, slot_ms=slot)


def pass_over(claim: Claim, now: int, random: Callable[[], float]) -> Settlement | None:
    """What a claimed occurrence demands before it is started: nothing (None), or that a later one takes its place.

    So it is after a downtime, by the plan's rule for what was missed. One that was begun is brought to its end. Raises
    BadDefinition or BadTime for a plan or a slot from which nothing can be computed.
    """
    if claim.occurrence is None:
        return None
    plan = schedule.read(claim.occurrence.plan)
    if not 0 <= claim.scheduled_for <= MAX_MS:
        raise BadTime(f"{claim.scheduled_for} is no instant between 1970 and 9999")
    if claim.attempts or claim.crashes or claim.occurrence.begun:
        schedule.following(plan, claim.scheduled_for, now)  # what can't be followed must not begin
        return None
    to = schedule.forward(plan, claim.scheduled_for, now)
    if to.slot_ms == claim.scheduled_for:
        return None
    passed = Settlement(
        claim.id,
        claim.token,
        "missed",
        ran_ms=0 if to.missed else None,
        reason="missed",
        message=f"{to.missed} missed from {utc_text(claim.scheduled_for)} on",
        name=claim.name,
        missed=to.missed,
    )
    if to.slot_ms is None:
        return msgspec.structs.replace(passed, rest="done")
    due = schedule.jittered(plan, to.slot_ms, random) if to.slot_ms > now else to.slot_ms
    return msgspec.structs.replace(passed, forget=True, next_ms=due, slot_ms=to.slot_ms)


def _forgotten(claim: Claim, ending: Ending, outcome: Outcome, options: Options) -> Settlement:
    return Settlement(
        claim.id,
        claim.token,
        outcome,
        ending.ran_ms,
        forget=True,
        reason=ending.reason,
        message=ending.message,
        result=ending.result,
        name=claim.name,
        keep_ms=None if ending.result is None else options.keep_result_ms,
    )


def renew_every_ms(leases: Iterable[int]) -> int:
    """How long leases of these lengths may go without a renewal: a third of the shortest; 0 if there is none."""
    return min(leases, default=0) // 3


def believed_lease_ms(steady_ms: int) -> int:
    """The longest lease whose end is believed by a worker that was steady for so long.

    Half a lease without a long wait for the write lock and without a clock step is enough. Otherwise it isn't the
    owner that is late, it is everybody. (Half, because a living owner renews within a third of it.)
    """
    return steady_ms * 2


def disbelief_ms(lease_ms: int, steady_ms: int) -> int:
    """How long such a worker has to stay steady until it believes that a lease of this length has expired."""
    return max(0, -(-lease_ms // 2) - steady_ms)


def ahead(finished_lately: int, free: int) -> int:
    """How many rows to claim beyond the free slots: as many as were finished lately, within the limit."""
    return max(0, min(finished_lately, MAX_CLAIMED - free))


def holds_for_alone(overdue_ms: int) -> bool:
    """Whether claims pause so that the worker becomes idle for a task that must be tried alone."""
    return overdue_ms % ALONE_TURN_MS >= ALONE_TURN_MS - ALONE_HOLD_MS
