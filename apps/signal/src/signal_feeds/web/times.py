"""Instants and spans in words. Instants are UTC ms."""

from datetime import UTC, datetime

from signal_feeds import texts
from signal_feeds.texts import Language, say

MINUTE, DAY = 60_000, 86_400_000


def span(ms: int, lang: Language) -> str:
    """A span without seconds, which would be over before they are read.

    >>> span(59_999, "en"), span(779_000, "en"), span(3 * 3_600_000 + 60_000, "ru")
    ('less than a minute', '12 min', '3 ч 1 мин')
    """
    return texts.span(lang, ms // MINUTE * MINUTE) if ms >= MINUTE else say(lang, "web.time.moment")


def ago(then: int, now: int, lang: Language) -> str:
    """How long ago; what lies ahead of the clock was now."""
    return say(lang, "time.ago", span=span(max(0, now - then), lang))


def ahead(then: int, now: int, lang: Language) -> str:
    """In how long, or by how much it is overdue.

    >>> ahead(719_500, 0, "en"), ahead(0, 720_000, "en"), ahead(0, 5_000, "en")
    ('in 12 min', 'overdue by 12 min', 'now')
    """
    if then > now:
        return say(lang, "time.in", span=span(-(-(then - now) // MINUTE) * MINUTE, lang))
    if now - then < MINUTE:
        return say(lang, "time.now")
    return say(lang, "web.time.overdue", span=span(now - then, lang))


def took(ms: int, lang: Language) -> str:
    """How long something took.

    >>> took(1_250, "en"), took(1_250, "ru")[:3]
    ('1.2 s', '1,2')
    """
    count = f"{ms / 1000:.1f}"
    return say(lang, "web.attempt.seconds", count=count.replace(".", ",") if lang == "ru" else count)


def iso(ms: int) -> str:
    """As `datetime` of the element `time`; a feed can name any year.

    >>> iso(1_500), iso(-10**18)
    ('1970-01-01T00:00:01Z', '')
    """
    try:
        return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""


def date(ms: int) -> str:
    """As people read it, in UTC like everything on the pages."""
    return iso(ms)[:16].replace("T", " ")
