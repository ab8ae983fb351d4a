"""The fields of a cron expression, read by looking at every date: slow, and without a line of nextdue.cron.

They are read here anew (crontab(5) with L, LW, #n, nL).
"""

import calendar
from dataclasses import dataclass
from datetime import date
from functools import cached_property

DAY = 86_400
EPOCH = date(1970, 1, 1).toordinal()
RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

Value = int | str | tuple[int, int | str]
"""What a field names: a number, L, LW, the last or the nth weekday."""


def _number(text: str, field: int) -> int:
    if field == 4 and text in MONTHS:
        return MONTHS.index(text) + 1
    if field == 5 and text in WEEKDAYS:
        return WEEKDAYS.index(text)
    return int(text)


def _values(text: str, field: int) -> set[Value]:
    low, high = RANGES[field]
    found: set[Value] = set()
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
    def values(self) -> list[set[Value]]:
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
        seconds, minutes, hours = ([at for at in field if isinstance(at, int)] for field in self.values[:3])
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
