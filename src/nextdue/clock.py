"""Instants and durations as integers: UTC milliseconds since 1970, and milliseconds.

Nothing here reads a clock; the store tells the time. Callers bring aware datetimes and durations.
"""

import math
import re
from datetime import UTC, datetime, timedelta

from nextdue.errors import BadTime

MAX_MS = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z, the last instant that Python's datetime and SQLite's date functions can show."""

_TEN_YEARS_S = 10 * 366 * 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_WORDS = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w"}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")

Duration = timedelta | int | float | str
"""A timedelta, seconds as a number, or a text such as "90s", "5m", "1h30m", "2 days"."""


def to_ms(instant: datetime) -> int:
    """An aware datetime as UTC milliseconds, cut (not rounded) to whole ones.

    Raises BadTime for a naive datetime and for instants outside 1970..9999.

    >>> to_ms(datetime(2026, 12, 1, 12, tzinfo=UTC))
    1796126400000
    """
    if not isinstance(instant, datetime):
        raise BadTime(
            f"an instant must be an aware datetime, not {type(instant).__name__} {instant!r}; "
            "for an epoch in seconds write datetime.fromtimestamp(seconds, timezone.utc)"
        )
    offset = instant.utcoffset()
    if offset is None:
        raise BadTime(
            f"{instant!r} is naive: it names a different instant on every machine; "
            'add a zone, as in datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Europe/Berlin"))'
        )
    # Subtracting as naive values can't overflow where astimezone() near year 9999 would.
    ms = (instant.replace(tzinfo=None) - _EPOCH.replace(tzinfo=None) - offset) // _MS
    if not 0 <= ms <= MAX_MS:
        raise BadTime(f"{instant!r} is outside 1970-01-01 .. 9999-12-31 in UTC")
    return ms


def from_ms(ms: int) -> datetime:
    """UTC milliseconds as an aware datetime in UTC.

    >>> from_ms(1796126400000).isoformat()
    '2026-12-01T12:00:00+00:00'
    """
    return _EPOCH + ms * _MS


def utc_text(ms: int) -> str:
    """UTC milliseconds as the text the public views show.

    >>> utc_text(1796126400000)
    '2026-12-01T12:00:00.000Z'
    """
    return from_ms(ms).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


_SPAN_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span(ms: int) -> str:
    """A length of time in its two largest units.

    >>> span(90_061_000), span(59_999), span(250)
    ('1 d 1 h', '59 s', '250 ms')
    """
    if ms < 1000:
        return f"{ms} ms"
    left = ms // 1000
    parts: list[str] = []
    for unit, seconds in _SPAN_UNITS:
        count, left = divmod(left, seconds)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def duration_ms(duration: Duration, what: str = "a duration") -> int:
    """A duration as whole milliseconds, rounded up so that nothing is ever early.

    Takes a timedelta, seconds, or a text in ms, s, m, h, d, w. Raises BadTime for negative, not finite or
    unreadable ones, and for a bare number over ten years, which is probably in milliseconds.

    >>> duration_ms("1h30m"), duration_ms(0.25), duration_ms(timedelta(minutes=5))
    (5400000, 250, 300000)
    """
    negative = False
    if isinstance(duration, timedelta):
        whole, rest = divmod(duration, _MS)
        negative, ms = duration < timedelta(0), whole + bool(rest)
    elif isinstance(duration, str):
        ms = _text_ms(duration, what)
    elif isinstance(duration, bool) or not isinstance(duration, int | float):
        raise BadTime(f'{what} must be a timedelta, seconds or a text like "5m", not {duration!r}')
    elif isinstance(duration, float) and not math.isfinite(duration):
        raise BadTime(f"{what} must be finite, not {duration!r}")
    elif duration > _TEN_YEARS_S:
        raise BadTime(
            f"{what} of {duration!r} seconds is over ten years, so it is probably in milliseconds; "
            "if it is meant, write timedelta(seconds=...)"
        )
    else:
        negative = duration < 0
        ms = 0 if negative else math.ceil(duration * 1000)
    if negative:
        raise BadTime(f"{what} must not be negative, got {duration!r}")
    return min(ms, MAX_MS)


def _text_ms(text: str, what: str) -> int:
    total, at, lowered = 0.0, 0, text.lower()
    while at < len(lowered):
        part = _PART.match(lowered, at)
        unit = part and _unit(part.group(2))
        if part is None or unit is None:
            break
        total += float(part.group(1)) * _UNITS_MS[unit]
        at = part.end()
    if not text.strip() or at < len(lowered):
        raise BadTime(f'{what}: can\'t read {text!r}; write it like "90s", "5m", "1h30m" or "2 days"')
    return math.ceil(total) if math.isfinite(total) else MAX_MS


def _unit(word: str) -> str | None:
    if word in _UNITS_MS:
        return word
    return _WORDS.get(word.removesuffix("s"))
