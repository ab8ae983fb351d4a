"""Cron expressions in a time zone, with a stated answer for every night on which the clocks are changed.

The fields are parsed by `cronsim` (the rules of Debian's cron; crontab(5)). What an expression means is decided here:

. Occurrences are instants in UTC, each later than the one before.
. Minute and hour both without a star at their beginning (`30 2 * * *`): a fixed time of the wall clock. It happens once
  on every date that matches: in a repeated hour the first time, in a skipped one at the end of the gap, however many of
  its times were skipped. A date that a zone left out altogether has none.
. Otherwise (`*/5 * * * *`, `0 * * * *`) real time: each instant at which the wall clock matches. So it happens in both
  passes of a repeated hour, and not in a skipped one.
. Day of month and day of week: if one of them begins with a star, a day must match both; if neither does, one of them
  is enough (`0 0 13 * 5`: every 13th and every Friday). `day_and=True` asks for both.
"""

from bisect import bisect_left
from calendar import monthrange
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any

from cronsim.cronsim import FIELD_NAMES, CronSim, CronSimError, Field
from cronsim.explain import Expression

from nextdue.clock import from_ms, to_ms
from nextdue.errors import BadDefinition
from nextdue.zones import DAY, LAST, brief, instant, next_change, offset, repeated_until, zone

NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_START = datetime(2000, 1, 1)  # noqa: DTZ001 - a place for the parser to begin
_FIRST_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = date(9999, 12, 31).toordinal() - _FIRST_DAY
_ALLOWED = {
    Field.SECOND: "0-59",
    Field.MINUTE: "0-59",
    Field.HOUR: "0-23",
    Field.DAY: "1-31, L (the last day) or LW (the last Monday to Friday)",
    Field.MONTH: "1-12 or JAN-DEC",
    Field.DOW: "0-7 or SUN-SAT (0 and 7 are Sunday), 5#2 (the second Friday) or 5L (the last one)",
}
_WINDOW = 26 * 3600
"""Longer than any change of clocks: a match of another offset lies at most so far from this one's."""
_KINDS_OF_YEARS = (2001, 2002, 2003, 2009, 2010, 2005, 2006, 2000, 2004, 2008, 2012, 2016, 2020, 2024)
"""Common years and leap years beginning on each day of the week: what matches in none of them never does."""


class Cron:
    """A cron expression in a time zone.

    expr: five fields (minute, hour, day of month, month, day of week), six with seconds before them, or one of
    @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually. tz: an IANA name. day_and: whether a day must
    match both of its fields (True) or either (False); without it, crontab's rule as above.

    Raises BadDefinition (a ValueError) that names the field and what is wrong with it; also for dates that never come.

    >>> from datetime import UTC
    >>> Cron("0 3 * * *", tz="Europe/Berlin").next(datetime(2026, 12, 1, 12, tzinfo=UTC)).isoformat()
    '2026-12-02T02:00:00+00:00'
    """

    def __init__(self, expr: str, tz: str = "UTC", *, day_and: bool | None = None) -> None:
        if not isinstance(expr, str):
            raise BadDefinition(f'a cron expression is a text such as "0 3 * * *", not {brief(expr)}')
        if day_and is not None and type(day_and) is not bool:
            raise BadDefinition(f"cron: day_and is True (both fields), False (either) or None, not {brief(day_and)}")
        self.expr, self.tz, self.asked_day_and = " ".join(expr.split()), tz, day_and
        self._zone = zone(tz)
        self._fields = _parsed(self.expr)
        parts = self._fields.parts
        if day_and is not None:
            self._fields.day_and = day_and
        self.day_and: bool = self._fields.day_and
        """Whether a day must match the day of the month and the day of the week, or one of them."""
        self.fixed = not parts[1].startswith("*") and not parts[2].startswith("*")
        """Whether it is a fixed time of the wall clock, once a date; else it follows real time."""
        self._seconds, self._minutes, self._hours, self._months = map(
            sorted, (self._fields.seconds, self._fields.minutes, self._fields.hours, self._fields.months)
        )
        self._first = self._hours[0] * 3600 + self._minutes[0] * 60 + self._seconds[0]
        if not self._possible():
            raise BadDefinition(
                f"cron {brief(self.expr)}: day-of-month, month, day-of-week: there is no such date, ever"
            )

    def next(self, after: datetime) -> datetime | None:
        """The first occurrence after an aware datetime, as aware UTC; None if none comes before the year 9999.

        Raises BadTime for a naive datetime.
        """
        ms = self.next_ms(to_ms(after))
        return None if ms is None else from_ms(ms)

    def next_ms(self, after: int) -> int | None:
        """The same in UTC milliseconds."""
        seconds = after // 1000
        if seconds >= LAST:
            return None
        at = self._next_fixed(seconds) if self.fixed else self._next_real(seconds + 1)
        return None if at is None or at > LAST else at * 1000

    def count_ms(self, after: int, until: int) -> int:
        """How many occurrences there are in (after, until], in UTC milliseconds; by days, not one by one."""
        at, end, found = after // 1000, min(until // 1000, LAST), 0
        while at < end:
            change = next_change(self._zone, at, end)
            shift = offset(self._zone, at)
            last = end if change is None else change - 1
            low = self._still_to_come(at) if self.fixed else at + shift + 1
            found += self.matching(low, last + shift + 1)
            if change is not None:
                found += self._at_change(change, shift, offset(self._zone, change))
            at = end if change is None else change
        return found

    @cached_property
    def words(self) -> str:
        """What it says, in words."""
        parts = list(self._fields.parts)
        said = Expression(parts)
        if not self.day_and and (said.day.star or said.dow.star):  # one is enough, and that one fits every day
            said = Expression([*parts[:3], "*", parts[4], "*"])
        said.day_and = self.day_and
        return said.explain().replace(f"{said.day} and {said.dow}", f"{said.day} or {said.dow}")

    @property
    def rules(self) -> list[str]:
        """How it is to be understood, where one may be in doubt, in sentences."""
        _, _, _, day, _, weekday = self._fields.parts
        said = []
        if "*" not in (day, weekday) or self.asked_day_and is False:
            if not self.day_and:
                said.append("One of both day fields is enough: the day of the month or the day of the week.")
            elif self.asked_day_and:
                said.append("A day must match both its fields: the day of the month and the day of the week.")
            else:
                said.append("A day must match both its fields, since one of them begins with a star.")
        if self.fixed:
            said.append(
                "A fixed time of the wall clock: once on each date, where the clocks repeat it the first time, "
                "where they skip it at the end of the gap."
            )
        else:
            said.append(
                "Real time: whenever the wall clock matches, so in both passes of a repeated hour "
                "and not in a skipped one."
            )
        return said

    def stored(self) -> dict[str, Any]:
        """The fields of a schedule.Plan that say it."""
        return {"cron": self.expr, "tz": self.tz, "day_and": self.asked_day_and}

    def __repr__(self) -> str:
        rule = "" if self.asked_day_and is None else f", day_and={self.asked_day_and}"
        return f"Cron({self.expr!r}, tz={self.tz!r}{rule})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cron) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        return self.expr, self.tz, self.asked_day_and

    # two ways in which walls become instants

    def _next_fixed(self, after: int) -> int | None:
        wall: int | None = self._still_to_come(after)
        while wall is not None:
            wall = self._match(wall)
            if wall is None:
                return None
            at = instant(self._zone, wall)
            if at is not None and at > after:
                return at
            wall = wall + 1 if at is not None else wall - wall % DAY + DAY  # the date that never was
        return None

    def _still_to_come(self, after: int) -> int:
        """The first wall after an instant that was not shown before it: behind what is being repeated."""
        wall = after + offset(self._zone, after)
        end = repeated_until(self._zone, wall)
        return wall + 1 if end is None or instant(self._zone, wall) == after else end

    def _next_real(self, at: int) -> int | None:
        while at <= LAST:
            shift = offset(self._zone, at)
            wall = self._match(at + shift)
            if wall is None:
                return None
            found, end = wall - shift, min(at + _WINDOW, LAST)
            change = next_change(self._zone, at, end)
            if found < (end if change is None else change):
                return found
            at = change if change is not None else max(end, found - _WINDOW)
            if end == LAST and change is None:
                return None
        return None

    def _at_change(self, change: int, before: int, after: int) -> int:
        """How many occurrences there are at the very instant of a change of clocks."""
        if not self.fixed:
            return self.matching(change + after, change + after + 1)
        low, high = change + before, change + after + 1
        wall = self._match(low)
        while wall is not None and wall < high:
            at = instant(self._zone, wall)
            if at is not None:
                return int(at == change)
            wall = self._match(wall - wall % DAY + DAY)  # a date that never was
        return 0

    # walls that match

    def matching(self, low: int, high: int) -> int:
        """How many walls in [low, high) match (see zones)."""
        first, last, found = low // DAY, high // DAY, 0
        day = self._day(first)
        while day is not None and day <= last:
            begin = self._times(low % DAY) if day == first else 0
            end = self._times(high % DAY) if day == last else self._times(DAY)
            found += max(0, end - begin)
            day = self._day(day + 1)
        return found

    def _times(self, second: int) -> int:
        """How many matching seconds a day has before this one."""
        hour, rest = divmod(second, 3600)
        minute, rest = divmod(rest, 60)
        seconds, minutes = len(self._seconds), len(self._minutes)
        h, m = bisect_left(self._hours, hour), bisect_left(self._minutes, minute)
        found = h * minutes * seconds
        if h < len(self._hours) and self._hours[h] == hour:
            found += m * seconds
            if m < minutes and self._minutes[m] == minute:
                found += bisect_left(self._seconds, rest)
        return found

    def _match(self, wall: int) -> int | None:
        """The first wall at or after this one that all fields match; None if the calendar ends before."""
        day, second = divmod(wall, DAY)
        matching = self._day(day)
        if matching is None:
            return None
        if matching == day:
            time = self._time(second)
            if time is not None:
                return day * DAY + time
            matching = self._day(day + 1)
        return None if matching is None else matching * DAY + self._first

    def _time(self, second: int) -> int | None:
        """The first matching second of a day at or after this one."""
        hour, rest = divmod(second, 3600)
        minute, second = divmod(rest, 60)
        h = bisect_left(self._hours, hour)
        if h == len(self._hours):
            return None
        if self._hours[h] > hour:
            return self._hours[h] * 3600 + self._minutes[0] * 60 + self._seconds[0]
        m = bisect_left(self._minutes, minute)
        if m < len(self._minutes) and self._minutes[m] == minute:
            s = bisect_left(self._seconds, second)
            if s < len(self._seconds):
                return hour * 3600 + minute * 60 + self._seconds[s]
            m += 1
        if m < len(self._minutes):
            return hour * 3600 + self._minutes[m] * 60 + self._seconds[0]
        if h + 1 < len(self._hours):
            return self._hours[h + 1] * 3600 + self._minutes[0] * 60 + self._seconds[0]
        return None

    def _day(self, day: int) -> int | None:
        """The first matching date at or after this one, as days since 1970-01-01."""
        if day > _LAST_DAY:
            return None
        at = date.fromordinal(day + _FIRST_DAY)
        months, matches, step = self._fields.months, self._fields.match_day, timedelta(days=1)
        try:
            while True:
                if at.month not in months:
                    m = bisect_left(self._months, at.month)
                    at = date(at.year + (m == len(self._months)), self._months[m % len(self._months)], 1)
                if matches(at):
                    return at.toordinal() - _FIRST_DAY
                at += step
        except (OverflowError, ValueError):  # past the year 9999
            return None

    def _possible(self) -> bool:
        return any(
            self._fields.match_day(date(year, month, day))
            for year in _KINDS_OF_YEARS
            for month in self._months
            for day in range(1, monthrange(year, month)[1] + 1)
        )


def _parsed(expr: str) -> CronSim:
    text = NICKNAMES.get(expr.lower(), expr)
    if text.lower() == "@reboot":
        raise BadDefinition(
            "cron '@reboot': that is no time, but an event that a schedule in a file can't see; "
            "what is to be done when your program starts, call there"
        )
    if text.startswith("@"):
        raise BadDefinition(f"cron {brief(expr)}: there is no such nickname; there are {', '.join(NICKNAMES)}")
    parts = text.upper().split()
    if len(parts) not in (5, 6):
        raise BadDefinition(
            f"cron {brief(expr)}: it has {len(parts)} fields; it needs five (minute, hour, day-of-month, month, "
            "day-of-week), or six with seconds before them"
        )
    for place, field in enumerate(list(Field)[-len(parts) :]):
        part = parts[place]
        try:
            field.parse(part)
            parts[place] = ",".join(_without_idle_step(field, term) for term in part.split(","))
        except (CronSimError, AssertionError, ValueError, RecursionError, TypeError):
            raise BadDefinition(
                f"cron {brief(expr)}: {FIELD_NAMES[field]}: can't read {brief(part)}{_hint(part)}; "
                f"it takes *, {_ALLOWED[field]}, lists 1,2, ranges 1-5 and steps */5"
            ) from None
    try:
        return CronSim(" ".join(parts), _START)
    except CronSimError:
        raise BadDefinition(
            f"cron {brief(expr)}: day-of-month: none of these months has that day, so it would never happen"
        ) from None


def _without_idle_step(field: Field, term: str) -> str:
    """`5-5/2` as `5`: the parser would read it as `5/2`, which goes on to the end of the field."""
    span, step, _ = term.partition("/")
    return span if step and "-" in span and len(field.parse(span)) == 1 else term


def _hint(part: str) -> str:
    first, dash, last = part.partition("-")
    if dash and first.isdigit() and last.isdigit() and int(first) > int(last):
        return f" (the range {part} ends before it begins; for one over midnight or the new year write two)"
    if part.endswith("/0"):
        return " (a step of 0 never gets anywhere)"
    return ""
