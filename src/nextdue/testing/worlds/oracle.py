"""The slots of a schedule, found by going through every date: slow, and without a rule of nextdue's.

What a zone shows comes from `zoneinfo` alone, looked at each quarter of an hour; the fields of cron are read by
nextdue.testing.worlds.fields. What is to run of the slots that are due is told here a second time, too.
"""

import calendar
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from nextdue.schedule import Plan
from nextdue.testing.worlds.fields import DAY, EPOCH, Fields

QUARTER = 900
SECOND = timedelta(seconds=1)


@lru_cache(maxsize=64)
def stretches(zone: str, start: int, end: int) -> list[list[int]]:
    """[start, end) in UTC seconds as stretches of one offset: (from, to, offset)."""
    tz = ZoneInfo(zone)
    found: list[list[int]] = []
    for at in range(start - start % QUARTER, end, QUARTER):
        offset = (datetime.fromtimestamp(at, tz).utcoffset() or timedelta()) // SECOND
        if found and found[-1][2] == offset:
            found[-1][1] = at + QUARTER
        else:
            found.append([at, at + QUARTER, offset])
    return found


def instant(wall: int, parts: Sequence[Sequence[int]]) -> int | None:
    """When the clock of these stretches shows this first; the end of the gap that leaves it out; None if a date is."""
    shown = [wall - offset for begin, end, offset in parts if begin <= wall - offset < end]
    if shown:
        return min(shown)
    day = wall // DAY
    if not any((begin + offset) // DAY <= day <= (end - 1 + offset) // DAY for begin, end, offset in parts):
        return None
    for (_, end, before), (begin, _, after) in pairwise(parts):
        if end + before <= wall < begin + after:
            return begin
    return None


def _days(parts: Sequence[Sequence[int]]) -> range:
    return range((parts[0][0] + parts[0][2]) // DAY - 1, (parts[-1][1] + parts[-1][2]) // DAY + 2)


def cron_slots(expr: str, zone: str, start: int, end: int, day_and: bool | None = None) -> list[int]:
    """The occurrences of a cron expression in [start, end), in UTC seconds."""
    fields, parts = Fields(expr, day_and), stretches(zone, start - 3 * DAY, end + 3 * DAY)
    days = [day for day in _days(parts) if fields.day(date.fromordinal(EPOCH + day))]
    walls = [day * DAY + time for day in days for time in fields.times]
    if fields.fixed:
        found = {at for wall in walls if (at := instant(wall, parts)) is not None}
    else:
        found = set()
        for begin, until, offset in parts:
            low, high = bisect_left(walls, begin + offset), bisect_left(walls, until + offset)
            found.update(wall - offset for wall in walls[low:high])
    return sorted(at for at in found if start <= at < end)


def month_slots(months: int, anchor: int, zone: str, start: int, end: int) -> list[int]:
    """Every so many months from an anchor: its day, or the last one of a shorter month, at its time of the day."""
    parts = stretches(zone, start - 3 * DAY, end + 3 * DAY)
    first = datetime.fromtimestamp(anchor, ZoneInfo(zone)).replace(tzinfo=None)
    found: list[int] = []
    number = 0
    while True:
        year, month = divmod(first.year * 12 + first.month - 1 + number * months, 12)
        day = min(first.day, calendar.monthrange(year, month + 1)[1])
        at = first.replace(year=year, month=month + 1, day=day)
        wall = int(at.replace(tzinfo=UTC).timestamp())
        if wall > end + 3 * DAY:
            return found
        slot = instant(wall, parts) if wall > start - 2 * DAY else None
        if slot is not None and start <= slot < end and slot >= anchor:
            found.append(slot)
        number += 1


@lru_cache(maxsize=4096)
def slots(plan: Plan, start: int, end: int) -> list[int]:
    """All slots of a plan in [start, end), in ms; not of a period that counts from the end of attempts."""
    low, high, anchor = start // 1000, end // 1000, plan.anchor_ms or 0
    if plan.cron is not None:
        found = [at * 1000 for at in cron_slots(plan.cron, plan.tz or "UTC", low, high, plan.day_and)]
    elif plan.months is not None:
        seconds = month_slots(plan.months, anchor // 1000, plan.tz or "UTC", low, high)
        found = [at * 1000 + anchor % 1000 for at in seconds]
    else:
        period = plan.period_ms or 1
        skipped = max(0, -(-(start - anchor) // period))
        found = list(range(anchor + skipped * period, end, period))
    first, last = plan.starting_ms or 0, end if plan.ending_ms is None else plan.ending_ms
    return [at for at in found if first <= at <= last]


class Line:
    """The slots of a plan around some time, to be asked for what follows and what lies between."""

    def __init__(self, plan: Plan, start: int, end: int) -> None:
        self.plan, self.slots = plan, slots(plan, start, end)

    def after(self, at: int) -> int | None:
        """The first slot after an instant; None if there is none."""
        n = bisect_right(self.slots, at)
        return self.slots[n] if n < len(self.slots) else None

    def until(self, slot: int, now: int) -> list[int]:
        """This slot and those after it up to now."""
        return [slot, *self.slots[bisect_right(self.slots, slot) : bisect_right(self.slots, now)]]

    def chosen(self, slot: int, now: int) -> tuple[int | None, int]:
        """Which slot is to run now that this one is due (None: none is left), and how many are missed for good."""
        plan, due = self.plan, self.until(slot, now)
        window = None if plan.window_ms is None else plan.window_ms + plan.jitter_ms
        if plan.missed == "skip":
            kept = (
                due if len(due) == 1 and now - slot <= (60_000 + plan.jitter_ms if window is None else window) else []
            )
        else:
            latest = due[-plan.limit :] if plan.missed == "all" else due[-1:]
            kept = [at for at in latest if window is None or now - at <= window]
        if kept:
            return kept[0], len(due) - len(kept)
        return self.after(max(slot, now)), len(due)
