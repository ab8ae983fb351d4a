"""What a calendar means, by looking at every minute: slow, and without a line of nextdue.

The fields are read here anew (crontab(5) with L, LW, #n, nL), and `zoneinfo` says what a wall clock shows.
"""

import calendar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

DAY = 86_400
SECOND, ZERO = timedelta(seconds=1), timedelta(0)
EPOCH = date(1970, 1, 1).toordinal()
MARGIN = DAY + DAY // 4
"""What is looked at around a stretch of time, to see which times are shown first and which never."""
RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def _number(text: str, field: int) -> int:
    if field == 4 and text in MONTHS:
        return MONTHS.index(text) + 1
    if field == 5 and text in WEEKDAYS:
        return WEEKDAYS.index(text)
    return int(text)


def _values(text: str, field: int) -> set:
    low, high = RANGES[field]
    found: set = set()
    for term in text.split(","):
        body, _, step = term.partition("/")
        if body in ("L", "LW"):
            found.add(body)
        elif field == 5 and body.endswith("L"):
            found.add((int(body[:-1]) % 7, "L"))
        elif field == 5 and "#" in body:
            weekday, _, nth = body.partition("#")
            found.add((_number(weekday, field) % 7, int(nth)))
        else:
            if body == "*":
                first, last = low, high
            elif "-" in body:
                first, last = (_number(end, field) for end in body.split("-"))
            else:
                first = _number(body, field)
                last = high if step else first
            found.update(range(first, last + 1, int(step or 1)))
    return {value % 7 if isinstance(value, int) else value for value in found} if field == 5 else found


@dataclass(frozen=True)
class Fields:
    """A cron expression of five or six fields."""

    expr: str
    day_and: bool | None = None

    @cached_property
    def texts(self) -> list[str]:
        texts = self.expr.upper().split()
        return texts if len(texts) == 6 else ["0", *texts]

    @cached_property
    def values(self) -> list[set]:
        return [_values(text, field) for field, text in enumerate(self.texts)]

    @property
    def fixed(self) -> bool:
        return not self.texts[1].startswith("*") and not self.texts[2].startswith("*")

    @property
    def both(self) -> bool:
        if self.day_and is not None:
            return self.day_and
        return self.texts[3].startswith("*") or self.texts[5].startswith("*")

    @cached_property
    def times(self) -> list[int]:
        """The seconds of a day that match."""
        seconds, minutes, hours = self.values[:3]
        return sorted(h * 3600 + m * 60 + s for h in hours for m in minutes for s in seconds)

    def day(self, at: date) -> bool:
        """Whether a date matches."""
        last = calendar.monthrange(at.year, at.month)[1]
        weekday = at.isoweekday() % 7
        days, months, weekdays = self.values[3:]
        if at.month not in months:
            return False
        last_work = max(d for d in range(last - 2, last + 1) if date(at.year, at.month, d).weekday() < 5)
        by_month = at.day in days or ("L" in days and at.day == last) or ("LW" in days and at.day == last_work)
        by_week = (
            weekday in weekdays
            or (weekday, (at.day + 6) // 7) in weekdays
            or ((weekday, "L") in weekdays and at.day + 7 > last)
        )
        return by_month and by_week if self.both else by_month or by_week


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
