"""What a feed says of its own rhythm: ttl, skipHours, skipDays (RSS 2.0), sy:updatePeriod (RSS 1.0's syndication)."""

import re
from collections.abc import Mapping
from typing import Any

from signal_feeds.records import Hints

_PERIODS = {"hourly": 3_600, "daily": 86_400, "weekly": 604_800, "monthly": 2_592_000, "yearly": 31_536_000}
_LONGEST_S = 31_536_000
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_BLOCK = 4_000
"""Characters in which the hours or the days are looked for."""


def hints_of(feed: Mapping[str, Any], around: str) -> Hints:
    """The hints: `feed` is feedparser's, `around` the document without its entries (feedparser keeps one hour only).

    >>> hints_of({"ttl": "60", "sy_updateperiod": "daily", "sy_updatefrequency": "4"}, "<skipHours><hour>3</hour>")
    Hints(period_s=21600, skip_hours=(3,), skip_days=())
    """
    periods = [_ttl_s(feed.get("ttl")), _period_s(feed.get("sy_updateperiod"), feed.get("sy_updatefrequency"))]
    return Hints(
        period_s=min(max(periods), _LONGEST_S) or None,
        skip_hours=_skip_hours(around),
        skip_days=_skip_days(around),
    )


def _ttl_s(ttl: Any) -> int:
    return (_count(ttl) or 0) * 60


def _period_s(period: Any, frequency: Any) -> int:
    """The module's defaults: daily, once. 0 where neither is there or the period is a word of their own."""
    if period is None and frequency is None:
        return 0
    base = _PERIODS.get(period.strip().lower() if isinstance(period, str) else "daily", 0)
    return base // (_count(frequency) or 1)


def _count(text: Any) -> int | None:
    """A number as it stands, of nine digits at most; None where it is none."""
    found = re.fullmatch(r"\s*\+?(\d{1,9})(?:\.\d*)?\s*", text) if isinstance(text, str) else None
    return int(found.group(1)) if found else None


def _skip_hours(around: str) -> tuple[int, ...]:
    """Hours of GMT; 24 is midnight, as in RSS 0.91."""
    found = re.findall(r"<hour\b[^>]*>\s*(\d{1,2})\s*</hour", _block(around, "skipHours"), re.I)
    return tuple(sorted({int(hour) % 24 for hour in found if int(hour) <= 24}))


def _skip_days(around: str) -> tuple[int, ...]:
    found = re.findall(r"<day\b[^>]*>\s*([A-Za-z]{6,9})\s*</day", _block(around, "skipDays"), re.I)
    return tuple(sorted({_DAYS.index(day.lower()) for day in found if day.lower() in _DAYS}))


def _block(around: str, name: str) -> str:
    for spelling in (name, name.lower()):
        at = around.find(f"<{spelling}")
        if at >= 0:
            text = around[at : at + _BLOCK]
            end = text.find(f"</{spelling}")
            return text if end < 0 else text[:end]
    return ""
