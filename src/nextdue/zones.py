"""Time zones in whole seconds: what a wall clock shows at an instant, and at which instant it shows something.

A *wall* is a local time as seconds since 1970-01-01 00:00 on that clock, without an offset. Instants are UTC seconds.
The data is the system's or that of the `tzdata` package (IANA), read by `zoneinfo`.
"""

import difflib
import reprlib
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from nextdue.errors import BadDefinition

DAY = 86_400
LAST = 253_402_214_399
"""9999-12-30T23:59:59Z: what lies later can't be shown in every zone."""
_PROBE = 6 * 3600
"""Offsets are compared so far apart; no zone ever changed its clocks twice within that."""
_FIRST_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - walls have no zone

_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = 80
brief = _brief.repr
"""What a user gave, in a message: its repr, cut in the middle if it is long."""


def zone(name: str) -> tzinfo:
    """The zone of this IANA name. Raises BadDefinition for one that isn't known, with names that look like it."""
    if not isinstance(name, str):
        raise BadDefinition(f'a zone is a name such as "Europe/Berlin", not {brief(name)}')
    if name == "UTC":
        return UTC  # needs no data
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found; not a name; a directory of zones
        pass
    known = available_timezones()
    near = (
        difflib.get_close_matches(name, known, n=3, cutoff=0.6)
        or [k for k in sorted(known) if name and name.lower().replace(" ", "_") in k.lower()][:3]
    )
    if near:
        hint = "did you mean " + " or ".join(near) + "?"
    elif len(known) > 1:
        hint = 'names are like "Europe/Berlin" or "UTC"'
    else:
        hint = "this machine has no time-zone data: install the package tzdata (UTC works without)"
    raise BadDefinition(f"there is no time zone {brief(name)}; {hint}")


def offset(tz: tzinfo, at: int) -> int:
    """By how many seconds the wall clocks of a zone are ahead of UTC at an instant."""
    return _offset_of(datetime.fromtimestamp(at, tz))


def next_change(tz: tzinfo, after: int, until: int) -> int | None:
    """The first instant in (after, until] at which the offset is another one, if there is one."""
    before = offset(tz, after)
    low = after
    while low < until:
        high = min(low + _PROBE, until)
        if offset(tz, high) != before:
            while high - low > 1:
                middle = (low + high) // 2
                if offset(tz, middle) == before:
                    low = middle
                else:
                    high = middle
            return high
        low = high
    return None


def instant(tz: tzinfo, wall: int) -> int | None:
    """When something that happens at this wall time happens, once.

    In a repeated hour the first time; in a skipped one at its end. None if the zone skipped the whole date.
    """
    local = _EPOCH + timedelta(seconds=wall)
    first, second = (_offset_of(local.replace(tzinfo=tz, fold=fold)) for fold in (0, 1))
    if first >= second:
        return wall - first
    end = next_change(tz, wall - second - 1, wall - first)  # skipped: the clocks were put forward here
    assert end is not None
    day = wall - wall % DAY
    return None if end + first <= day and end + second >= day + DAY else end


def repeated_until(tz: tzinfo, wall: int) -> int | None:
    """If wall clocks show this twice: the wall time at which they were put back. Else None."""
    local = _EPOCH + timedelta(seconds=wall)
    first, second = (_offset_of(local.replace(tzinfo=tz, fold=fold)) for fold in (0, 1))
    if first <= second:
        return None
    back = next_change(tz, wall - first, wall - second)
    return None if back is None else back + first


def days_of(year: int, month: int, day: int) -> int:
    """A date as days since 1970-01-01."""
    return date(year, month, day).toordinal() - _FIRST_DAY


def _offset_of(local: datetime) -> int:
    shift = local.utcoffset()
    assert shift is not None
    return shift.days * DAY + shift.seconds
