"""What a calendar means, by looking at every minute: slow, and without a rule of nextdue.

The fields are read by nextdue.testing.worlds.fields, which knows no rule of nextdue's, and `zoneinfo` says what a wall
clock shows.
"""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from nextdue.testing.worlds.fields import DAY, EPOCH, Fields

SECOND, ZERO = timedelta(seconds=1), timedelta(0)
MARGIN = DAY + DAY // 4
"""What is looked at around a stretch of time, to see which times are shown first and which never."""


class Shown:
    """What wall clocks of a zone show at each step of [start, end) in UTC seconds, as seconds without a zone."""

    def __init__(self, zone: str, start: int, end: int, step: int) -> None:
        tz = ZoneInfo(zone)
        self.instants = range(start, end, step)
        self.walls = [at + (datetime.fromtimestamp(at, tz).utcoffset() or ZERO) // SECOND for at in self.instants]
        assert step == 1 or all(wall % 60 == 0 for wall in self.walls), f"{zone} isn't in whole minutes there"
        self.first: dict[int, int] = {}
        self.gaps = []
        before = self.walls[0]
        for at, wall in zip(self.instants, self.walls, strict=True):
            self.first.setdefault(wall, at)
            if wall - before > step:
                self.gaps.append((before, wall, at))
            before = wall
        self.days = {wall // DAY for wall in self.walls}


_shown = lru_cache(maxsize=8)(Shown)


def occurrences(expr: str, zone: str, start: int, end: int, *, day_and: bool | None = None, step: int = 60) -> list:
    """The occurrences in [start, end), whole minutes of UTC, in UTC seconds. Expressions with seconds: step=1."""
    fields, shown = Fields(expr, day_and), _shown(zone, start - MARGIN, end + MARGIN, step)
    times, found = set(fields.times), set()
    days = {day for day in shown.days if fields.day(date.fromordinal(EPOCH + day))}
    if fields.fixed:
        for wall in (day * DAY + time for day in days for time in times):
            if wall in shown.first:
                found.add(shown.first[wall])
            else:
                found.update(at for before, after, at in shown.gaps if before < wall < after)
    else:
        pairs = zip(shown.instants, shown.walls, strict=True)
        found.update(at for at, wall in pairs if wall % DAY in times and wall // DAY in days)
    return sorted(at for at in found if start <= at < end)


@lru_cache(maxsize=4096)
def changes(zone: str, year: int) -> list[int]:
    """Instants within a day of which the clocks of a zone are changed in a year."""
    tz = ZoneInfo(zone)
    start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    days = [start + day * 86_400 for day in range(367)]
    offsets = [datetime.fromtimestamp(at, tz).utcoffset() for at in days]
    return [days[n] for n in range(1, len(days)) if offsets[n] != offsets[n - 1]]


def utc(text: str) -> int:
    """An instant in UTC, like "2026-10-25T01:00", as seconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
