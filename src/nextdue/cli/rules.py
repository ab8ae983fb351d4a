"""Schedules in words: the rule in short, and times as a wall clock shows them."""

from datetime import tzinfo

from nextdue.cli.times import shown
from nextdue.clock import from_ms, span
from nextdue.schedule import CATCH_UP, Plan, from_end

WEEK_MS = 6 * 86_400_000
"""Within so long the name of a day says which one is meant."""


def in_short(plan: Plan) -> str:
    """The recurrence of a plan.

    >>> in_short(Plan(cron="30 2 * * *", tz="Europe/Berlin")), in_short(Plan(period_ms=1_800_000))
    ('30 2 * * * Europe/Berlin', 'every 30 min after its end')
    """
    if plan.cron is not None:
        return f"{plan.cron} {plan.tz}"
    if plan.months is not None:
        return f"every {'month' if plan.months == 1 else f'{plan.months} months'} {plan.tz}"
    if plan.period_ms is None:
        return "a plan that can't be read"
    return f"every {span(plan.period_ms)}" + (" after its end" if from_end(plan) else "")


def besides(plan: Plan) -> list[str]:
    """What else the plan says, a few words each.

    >>> besides(Plan(period_ms=1000, anchor_ms=0, jitter_ms=60_000, missed="skip", count=3))
    ['jitter 1 min', '3 times', 'missed: skip']
    """
    said = [f"jitter {span(plan.jitter_ms)}"] if plan.jitter_ms else []
    said += [f"from {shown(plan.starting_ms)}"] if plan.starting_ms is not None else []
    said += [f"until {shown(plan.ending_ms)}"] if plan.ending_ms is not None else []
    said += [f"{plan.count} times"] if plan.count is not None else []
    if plan.missed != "run_once" or plan.limit != CATCH_UP:
        said.append(f"missed: {plan.missed}" + (f", at most {plan.limit}" if plan.missed == "all" else ""))
    return said + ([f"never over {span(plan.window_ms)} late"] if plan.window_ms is not None else [])


def near(ms: int, now: int, tz: tzinfo | None = None) -> str:
    """An instant as the clocks of a zone (None: this machine's) show it, with its day if that isn't today's.

    >>> from datetime import UTC
    >>> near(1796126400000, 1796100000000, UTC), near(1796126430000, 1796040000000, UTC), near(0, 1796040000000, UTC)
    ('12:00', 'Tue 12:00:30', '1970-01-01 00:00')
    """
    try:
        at, today = from_ms(ms).astimezone(tz), from_ms(now).astimezone(tz)
    except (OverflowError, ValueError, OSError):  # the last day of year 9999 in a zone ahead of UTC
        return shown(ms)
    clock = f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"
    if at.date() == today.date():
        return clock
    return f"{at:%a} {clock}" if abs(ms - now) < WEEK_MS else f"{at:%Y-%m-%d} {clock}"
