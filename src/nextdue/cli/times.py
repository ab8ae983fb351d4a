"""Instants as a person writes and reads them: local time and UTC."""

import os
import re
from datetime import datetime, timedelta, timezone, tzinfo

from nextdue.clock import MAX_MS, from_ms, span, utc_text
from nextdue.errors import BadTime

_DAY_MS, _YEAR_MS = 84_600_000, 300 * 86_400_000
"""From 23.5 h on a date says more than a time, from 300 days on a year."""


def shown(ms: int | None) -> str:
    """An instant in local time and UTC.

    >>> shown(None), shown(9 * 10**18)
    ('-', '9999-12-31 23:59:59 UTC')
    """
    if ms is None:
        return "-"
    utc, local = _utc(ms), _local(ms)
    if not local.utcoffset():
        return f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    form = "%H:%M:%S" if local.date() == utc.date() else "%Y-%m-%d %H:%M:%S"
    return f"{local:%Y-%m-%d %H:%M:%S %Z} ({utc.strftime(form)} UTC)"


def _utc(ms: int) -> datetime:
    """What was written by hand may lie beyond the calendar; looking at it must not fail."""
    return from_ms(min(max(ms, 0), MAX_MS))


def _local(ms: int) -> datetime:
    utc = _utc(ms)
    try:
        return utc.astimezone()
    except (OverflowError, ValueError, OSError):  # the last day of year 9999 in a zone ahead of UTC
        return utc


def zone() -> str:
    """The short name of the local zone, for the head of a column of times."""
    return datetime.now().astimezone().tzname() or "local"


def local(ms: int) -> str:
    """An instant in local time, for a column whose head names the zone."""
    return f"{_local(ms):%Y-%m-%d %H:%M:%S}"


def brief(ms: int, now_ms: int) -> str:
    """An instant in local time in 16 characters, and how far it is from now.

    >>> brief(30_000, 0)
    'in 30 s'
    """
    gap = abs(ms - now_ms)
    if gap >= _YEAR_MS:
        return f"{_local(ms):%Y-%m-%d}"
    far = f"in {span(gap, 1)}" if ms > now_ms else f"{span(gap, 1)} ago"
    if gap < 60_000:
        return far
    return f"{_local(ms):{'%H:%M' if gap < _DAY_MS else '%m-%d'}}, {far}"


def relative(ms: int, now_ms: int) -> str:
    """How far an instant is from now.

    >>> relative(5_000, 0), relative(0, 65_000)
    ('in 5 s', '1 min 5 s ago')
    """
    return f"in {span(ms - now_ms)}" if ms > now_ms else f"{span(now_ms - ms)} ago"


def times(count: int) -> str:
    """How often something happened.

    >>> times(0), times(1), times(2), times(12)
    ('never', 'once', 'twice', '12 times')
    """
    return ("never", "once", "twice")[count] if 0 <= count < 3 else f"{count} times"


def instant(text: str, zone: str | None) -> datetime:
    """`--at`: an ISO 8601 time with an offset, or a wall time with a zone. Never guesses.

    Raises BadTime: no offset and no zone, both of them, an unknown zone, a wall time that the zone skips or has
    twice.
    """
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadTime(
            f'--at: can\'t read {text!r}; write it like "2026-12-01 09:00" with --tz, or with an offset'
        ) from None
    if at.tzinfo is not None:
        if zone is not None:
            raise BadTime(f"--at {text!r} has an offset already; leave out --tz {zone}")
        return at
    if zone is None:
        offset = at.astimezone().strftime("%z")
        raise BadTime(
            f"--at {text!r} is another instant in every time zone; write "
            f'--at "{_wall(at)}{offset[:3]}:{offset[3:5]}" or --at "{_wall(at)}" --tz {local_zone() or "Europe/Moscow"}'
        )
    return _in_zone(at, _zone(zone))


def local_zone() -> str | None:
    """The name of this machine's zone, if it has one in the IANA data."""
    from zoneinfo import available_timezones

    name = os.environ.get("TZ", "").lstrip(":") or None
    if name is None:
        try:
            name = re.sub(r"^.*zoneinfo/(posix/|right/)?", "", os.path.realpath("/etc/localtime"))
        except OSError:
            return None
    return name if name in available_timezones() else None


def _zone(name: str) -> tzinfo:
    import difflib
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zones = available_timezones()
        by_lower = {z.lower(): z for z in zones} | {z.rpartition("/")[2].lower(): z for z in sorted(zones)}
        close = difflib.get_close_matches(name.lower().replace(" ", "_"), by_lower, 4, 0.6)
        hint = " or ".join(dict.fromkeys(by_lower[z] for z in close)) or "Europe/Moscow, America/New_York, UTC"
        raise BadTime(f"--tz: there is no time zone {name!r}; did you mean {hint}?") from None


def _in_zone(at: datetime, zone: tzinfo) -> datetime:
    """A wall time in a zone, if it exists there exactly once."""
    first, second = at.replace(tzinfo=zone, fold=0), at.replace(tzinfo=zone, fold=1)
    before, after = first.utcoffset(), second.utcoffset()
    if before == after or before is None or after is None:
        return first
    choices = " or ".join(f'--at "{_with_offset(at, offset)}"' for offset in (before, after))
    # In a gap the two offsets name two instants that the zone shows as other wall times.
    if before < after:
        raise BadTime(f"{_wall(at)} doesn't exist in {zone} (the clocks go forward over it); write {choices}")
    raise BadTime(f"{_wall(at)} comes twice in {zone} (the clocks go back over it); write {choices}")


def _with_offset(at: datetime, offset: timedelta) -> str:
    return at.replace(tzinfo=timezone(offset)).isoformat(" ", "seconds" if at.second else "minutes")


def _wall(at: datetime) -> str:
    return at.isoformat(" ", "seconds" if at.second else "minutes")


def utc(ms: int | None) -> str | None:
    """An instant for a program: ISO 8601 in UTC."""
    return None if ms is None else utc_text(min(max(ms, 0), MAX_MS))
