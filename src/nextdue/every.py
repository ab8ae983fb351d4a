"""Periods: so long after each end, or at fixed distances from an instant, also in months."""

from calendar import monthrange
from datetime import datetime
from typing import Any

from nextdue.clock import MAX_MS, Duration, duration_ms, from_ms, to_ms
from nextdue.errors import BadDefinition, BadTime
from nextdue.zones import DAY, LAST, days_of, instant, offset, zone

LEAST_MS = 1_000
MOST_MS = 100 * 366 * 86_400_000


class Every:
    """A period.

    period: a timedelta, seconds or a text like "30m"; from one second to a hundred years. Alone it counts from the END
    of each attempt, so that a slow task never overlaps itself nor catches up. anchor: an aware datetime; then
    occurrences are at the anchor and at whole periods from it, however long an attempt takes. months: instead of a
    period, so many months from the anchor at its time of the day in the zone `tz`; where a month is too short, on its
    last day, without drifting (31 January, 28 February, 31 March). In a skipped hour at its end, in a repeated one the
    first time.

    Raises BadDefinition (a ValueError).

    >>> from datetime import UTC
    >>> Every("30m", anchor=datetime(2026, 12, 1, tzinfo=UTC)).next(datetime(2026, 12, 1, 9, 1, tzinfo=UTC)).isoformat()
    '2026-12-01T09:30:00+00:00'
    """

    def __init__(
        self,
        period: Duration | None = None,
        *,
        months: int | None = None,
        anchor: datetime | None = None,
        tz: str | None = None,
    ) -> None:
        if (period is None) == (months is None):
            raise BadDefinition('Every needs a period, as in Every("30m"), or months=; one of them')
        if months is not None and (type(months) is not int or not 1 <= months <= 1200):
            raise BadDefinition(f"Every: months must be a whole number from 1 to 1200, not {months!r}")
        if months is not None and anchor is None:
            raise BadDefinition("Every: months= needs anchor=, the first occurrence, which gives the day and the time")
        if tz is not None and months is None:
            raise BadDefinition("Every: tz= goes with months=; a period is as long in every zone")
        try:
            self.period_ms = None if period is None else duration_ms(period, "a period")
            self.anchor_ms = None if anchor is None else to_ms(anchor)
        except BadTime as exc:
            raise BadDefinition(f"Every: {exc}") from None
        if self.period_ms is not None and not LEAST_MS <= self.period_ms <= MOST_MS:
            raise BadDefinition(f"Every: a period is from one second to a hundred years, not {period!r}")
        self.months, self.tz = months, ("UTC" if tz is None else tz) if months is not None else None
        self._zone = zone(self.tz) if self.tz is not None else None

    @property
    def from_end(self) -> bool:
        """Whether it counts from the end of an attempt."""
        return self.anchor_ms is None

    def next(self, after: datetime) -> datetime | None:
        """The first occurrence after an aware datetime, as aware UTC; None if none comes before the year 9999.

        Raises BadTime for a naive datetime.
        """
        ms = self.next_ms(to_ms(after))
        return None if ms is None else from_ms(ms)

    def next_ms(self, after: int) -> int | None:
        """The same in UTC milliseconds."""
        at: int | None
        if self.months is not None:
            at = self._next_month(after)
        elif self.anchor_ms is None:
            at = after + (self.period_ms or 0)
        elif after < self.anchor_ms:
            at = self.anchor_ms
        else:
            at = after + (self.period_ms or 0) - (after - self.anchor_ms) % (self.period_ms or 1)
        return None if at is None or at > MAX_MS else at

    def count_ms(self, after: int, until: int) -> int:
        """How many occurrences there are in (after, until], in UTC milliseconds, if it has an anchor."""
        if self.months is None:
            period, anchor = self.period_ms or 1, self.anchor_ms or 0
            low = max(after, anchor - 1)
            return max(0, (until - anchor) // period - (low - anchor) // period)
        found, at = 0, self.next_ms(after)
        while at is not None and at <= until:
            found, at = found + 1, self.next_ms(at)
        return found

    def _next_month(self, after: int) -> int | None:
        assert self.months is not None
        assert self.anchor_ms is not None
        assert self._zone is not None
        anchor, part = divmod(self.anchor_ms, 1000)
        wall = anchor + offset(self._zone, anchor)
        first = from_ms(wall * 1000)
        now = from_ms(min(after // 1000 + offset(self._zone, min(after // 1000, LAST)), LAST) * 1000)
        passed = (now.year - first.year) * 12 + now.month - first.month
        step = max(0, passed // self.months - 1)
        while True:
            year, month = divmod(first.year * 12 + first.month - 1 + step * self.months, 12)
            if year > 9999:
                return None
            day = min(first.day, monthrange(year, month + 1)[1])
            # The anchor itself is the first one, also in the second pass of a repeated hour.
            at = instant(self._zone, days_of(year, month + 1, day) * DAY + wall % DAY) if step else anchor
            if at is not None and at * 1000 + part > after:
                return at * 1000 + part
            step += 1

    def stored(self) -> dict[str, Any]:
        """The fields of a schedule.Plan that say it."""
        return {"period_ms": self.period_ms, "months": self.months, "anchor_ms": self.anchor_ms, "tz": self.tz}

    def __repr__(self) -> str:
        parts = [f"months={self.months}"]
        if self.period_ms is not None:
            parts = [repr(self.period_ms / 1000).removesuffix(".0")]
        if self.anchor_ms is not None:
            parts.append(f"anchor={from_ms(self.anchor_ms)!r}")
        if self.tz is not None:
            parts.append(f"tz={self.tz!r}")
        return f"Every({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Every) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        return self.period_ms, self.months, self.anchor_ms, self.tz
