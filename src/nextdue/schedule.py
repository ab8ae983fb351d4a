"""What a schedule is, and which of its occurrences is to run: pure functions of its plan and the time.

An occurrence is named by its instant, the *slot*. A schedule is one row whose next due comes from the slot of the last
occurrence, so that nothing is computed from when a worker happened to look.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from nextdue.clock import MAX_MS, from_ms
from nextdue.errors import BadDefinition

if TYPE_CHECKING:  # whoever has no schedules needs no zones
    from nextdue.cron import Cron
    from nextdue.every import Every

Missed = Literal["run_once", "skip", "all"]

MARK = "@"
"""The key of a schedule's row begins with it, and no other key."""
SKIP_AFTER_MS = 60_000
"""With missed="skip", how late an occurrence may start if no later one has come."""
CATCH_UP = 100
"""With missed="all", how many missed occurrences are run at most: the latest ones."""


_Ms = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule as it is stored: the recurrence, and what to do around it."""

    cron: str | None = None
    tz: str | None = None
    day_and: bool | None = None
    period_ms: _Ms | None = None
    months: int | None = None
    anchor_ms: _Ms | None = None
    jitter_ms: _Ms = 0
    starting_ms: _Ms | None = None
    ending_ms: _Ms | None = None
    count: _Count | None = None
    missed: Missed = "run_once"
    limit: _Count = CATCH_UP
    window_ms: _Ms | None = None


UNREADABLE = Plan()
"""Stands for a stored plan that can't be read; there is no rule in it."""


class Forward(msgspec.Struct, frozen=True):
    """Which occurrence is to run: its slot (None: there is no other), and how many before it are missed for good."""

    slot_ms: int | None
    missed: int


def plan_of(rule: "Cron | Every", **more: object) -> Plan:
    """The plan of a recurrence."""
    return Plan(**rule.stored(), **more)  # type: ignore[arg-type]


@lru_cache(maxsize=20_000)
def read(text: str) -> Plan:
    """A stored plan. What a newer version added to it is passed over. Raises BadDefinition."""
    try:
        return msgspec.json.decode(text, type=Plan)
    except (ValueError, RecursionError) as exc:
        raise BadDefinition(f"the stored plan of this schedule can't be read: {exc}") from None


def written(plan: Plan) -> str:
    """The plan as it is stored: equal plans, equal texts."""
    return msgspec.json.encode(plan).decode()


@lru_cache(maxsize=2_000)  # 6 kB each, made anew in 40 us
def rule_of(plan: Plan) -> "Cron | Every":
    """The recurrence of a plan. Raises BadDefinition where there is none, or this machine doesn't know its zone."""
    from nextdue.cron import Cron
    from nextdue.every import Every

    if plan.cron is None and plan.period_ms is None and plan.months is None:
        raise BadDefinition("the stored plan of this schedule can't be read, or names no recurrence")

    if plan.cron is not None:
        return Cron(plan.cron, plan.tz or "UTC", day_and=plan.day_and)
    anchor = None if plan.anchor_ms is None else from_ms(plan.anchor_ms)
    if plan.months is not None:
        return Every(months=plan.months, anchor=anchor, tz=plan.tz)
    return Every(timedelta(milliseconds=plan.period_ms or 0), anchor=anchor)


@lru_cache(maxsize=20_000)
def _after(plan: Plan, slot: int) -> int | None:
    """The occurrence after this one: asked when it is claimed and when it ended, and of many schedules alike."""
    return rule_of(plan).next_ms(slot)


def from_end(plan: Plan) -> bool:
    """Whether the next occurrence counts from the end of the last attempt."""
    return plan.cron is None and plan.anchor_ms is None


def first(plan: Plan, now: int) -> int | None:
    """The slot of the first occurrence of a schedule that is made now; a period without an anchor begins at once."""
    rule = rule_of(plan)
    if from_end(plan):
        return _within(plan, max(now, plan.starting_ms or 0))
    return _within(plan, rule.next_ms(max(now, (plan.starting_ms or 0) - 1)))


def following(plan: Plan, slot: int, ended: int) -> int | None:
    """The slot of the occurrence after this one, whose last attempt ended at `ended`."""
    return _within(plan, rule_of(plan).next_ms(ended) if from_end(plan) else _after(plan, slot))


def retried_until(plan: Plan, slot: int, ended: int) -> int | None:
    """Until when a failed occurrence is tried again: then the next one takes its place. None: nothing does."""
    return None if plan.missed == "all" else following(plan, slot, ended)


def forward(plan: Plan, slot: int, now: int) -> Forward:
    """Which occurrence to run now that this one is due, by the plan's rule for what was missed."""
    rule = rule_of(plan)
    if from_end(plan):
        return Forward(_within(plan, slot), 0)
    until = now if plan.ending_ms is None else min(now, plan.ending_ms)
    next_one = _after(plan, slot)
    passed = 0 if next_one is None or next_one > until else rule_of(plan).count_ms(slot, until)
    window = None if plan.window_ms is None else plan.window_ms + plan.jitter_ms  # its jitter makes nothing too late
    if plan.missed == "skip":
        if not passed and now - slot <= (SKIP_AFTER_MS + plan.jitter_ms if window is None else window):
            return Forward(slot, 0)
        return Forward(following(plan, until if passed else slot, until), passed + 1)
    if plan.missed == "run_once":
        latest = _nth(plan, slot, until, passed)
        if window is not None and now - latest > window:
            return Forward(following(plan, latest, now), passed + 1)
        return Forward(latest, passed)
    given_up = max(0, passed + 1 - plan.limit)
    chosen = _nth(plan, slot, until, given_up)
    if window is not None and now - chosen > window:
        rule = rule_of(plan)
        later = _within(plan, rule.next_ms(now - window - 1))
        return Forward(later, passed + 1 if later is None else rule.count_ms(slot, later - 1) + 1)
    return Forward(chosen, given_up)


def jittered(plan: Plan, slot: int, random: Callable[[], float]) -> int:
    """When the occurrence of this slot is due: a little later, by the plan's jitter, and never earlier."""
    return min(slot + int(random() * plan.jitter_ms), MAX_MS)


def _within(plan: Plan, slot: int | None) -> int | None:
    return None if slot is None or (plan.ending_ms is not None and slot > plan.ending_ms) else slot


def _nth(plan: Plan, slot: int, until: int, n: int) -> int:
    """The n-th occurrence after `slot`, which is one itself (n = 0), by halving; there are so many up to `until`."""
    if n == 0:
        return slot
    rule = rule_of(plan)
    low, high = slot, until  # it is the n-th in (low, high]
    while high - low > 1:
        middle = (low + high) // 2
        before = rule.count_ms(low, middle)
        if before >= n:
            high = middle
        else:
            low, n = middle, n - before
    return high
