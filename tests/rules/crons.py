"""How the tests of Cron ask for its occurrences, and write instants."""

from datetime import UTC, datetime

from nextdue import Cron
from nextdue.clock import to_ms


def at(text: str) -> datetime:
    """An instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def between(cron: Cron, after: str, until: str, limit: int = 10_000) -> list[datetime]:
    """Its occurrences in (after, until]; each one later than the last, or this ends at once."""
    found: list[datetime] = []
    now, end = at(after), at(until)
    while (following := cron.next(now)) is not None and following <= end:
        assert following > now, f"{following} doesn't come after {now}"
        assert following.tzinfo is UTC
        found.append(following)
        assert len(found) <= limit
        now = following
    assert cron.count_ms(to_ms(at(after)), to_ms(end)) == len(found)
    return found


def texts(found: list[datetime]) -> list[str]:
    return [f"{one:%Y-%m-%dT%H:%M:%S}".removesuffix(":00") for one in found]


def coming(cron: Cron, after: str) -> str:
    """The next one."""
    found = cron.next(at(after))
    assert found is not None
    return texts([found])[0]
