"""`nextdue explain`: a cron expression in words, its next occurrences, and what the clocks do to it."""

import argparse
from datetime import UTC, datetime
from textwrap import fill
from typing import Any

from nextdue.cli import render
from nextdue.cli.times import utc
from nextdue.clock import from_ms, to_ms
from nextdue.cron import Cron
from nextdue.errors import BadDefinition, BadTime
from nextdue.zones import DAY, LAST, instant, next_change, offset, repeated_until, zone

_YEAR = 366 * DAY
_MOST = 1000
_WIDTH = 80
_FIELDS = 6


def explain(args: argparse.Namespace) -> int:
    """Say what it means."""
    if not 1 <= args.count <= _MOST:
        raise BadDefinition(f"--count must be from 1 to {_MOST}, not {args.count}")
    if len(args.words) > _FIELDS:
        raise BadDefinition("the shell has put names of files in the place of a star; write the expression in quotes")
    cron = Cron(" ".join(args.words), args.tz, day_and=True if args.day_and else None)
    after = to_ms(_start(args.start, args.tz))
    following = _following(cron, after, args.count)
    nights = [_night(cron, change) for change in _changes(cron, after // 1000)]
    if args.json:
        said = {"expr": cron.expr, "tz": cron.tz, "words": cron.words, "rules": cron.rules}
        render.document(said | {"next": [_data(cron, ms) for ms in following], "changes": nights})
        return 0
    print(fill(f"{cron.words} ({cron.tz}).", _WIDTH))
    for rule in cron.rules:
        print(fill(rule, _WIDTH))
    print()
    rows = [(_local(cron, ms), f"{from_ms(ms):%Y-%m-%d %H:%M:%S}", _note(cron, ms) or "") for ms in following]
    if not rows:
        print("No further occurrence.")
    elif cron.tz == "UTC":  # not the same twice
        render.table(("UTC",), [row[:1] for row in rows])
    else:
        render.table((cron.tz, "UTC", ""), rows)
    for night in nights:
        print()
        print(fill(f"{night['says']}: {night['then']}", _WIDTH))
    return 0


def _start(text: str | None, tz: str) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadTime(
            f'--from: can\'t read {render.clean(text, 80)!r}; write it like 2026-10-24 or "2026-10-24 12:00", '
            "in the zone of --tz unless it has an offset"
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=zone(tz))


def _following(cron: Cron, after: int, count: int) -> list[int]:
    found: list[int] = []
    at = cron.next_ms(after)
    while at is not None and len(found) < count:
        found.append(at)
        at = cron.next_ms(at)
    return found


def _changes(cron: Cron, after: int) -> list[int]:
    """The next two changes of clocks, in a year."""
    tz, end = zone(cron.tz), min(after + _YEAR, LAST)
    first = next_change(tz, after, end)
    second = None if first is None else next_change(tz, first, end)
    return [change for change in (first, second) if change is not None]


def _local(cron: Cron, ms: int) -> str:
    return f"{from_ms(ms).astimezone(zone(cron.tz)):%a %Y-%m-%d %H:%M:%S %Z}"


def _data(cron: Cron, ms: int) -> dict[str, Any]:
    local = from_ms(ms).astimezone(zone(cron.tz)).isoformat()
    return {"due": utc(ms), "due_ms": ms, "local": local, "note": _note(cron, ms)}


def _note(cron: Cron, ms: int) -> str | None:
    """What the clocks do to this occurrence."""
    tz, at = zone(cron.tz), ms // 1000
    shift = offset(tz, at)
    before = offset(tz, at - 1)
    if cron.fixed and before < shift and cron.matching(at + before, at + shift):
        return "end of the skipped time"
    local = from_ms(ms).astimezone(tz)
    if local.fold:
        return "second pass"
    return "first pass" if repeated_until(tz, at + shift) is not None else None


def _night(cron: Cron, change: int) -> dict[str, Any]:
    """A change of clocks and what it does."""
    tz = zone(cron.tz)
    before, after = offset(tz, change - 1), offset(tz, change)
    low, high = change + min(before, after), change + max(before, after)
    here, day = cron.matching(low, high), f"On {from_ms(low * 1000):%Y-%m-%d}"
    if after > before:
        says = f"{day} the clocks skip {_stretch(low, high)}"
        then = _skipped(cron, low, here)
    else:
        says = f"{day} the clocks show {_stretch(low, high)} twice"
        then = _repeated(cron, here)
    return {"at": utc(change * 1000), "at_ms": change * 1000, "says": says, "then": then}


def _skipped(cron: Cron, low: int, here: int) -> str:
    if not here:
        return "it has no time in there."
    if not cron.fixed:
        return f"it is left out there ({render.counted(here, 'time')})."
    at = instant(zone(cron.tz), low)
    if at is None:
        return "that date doesn't exist, and nothing happens on it."
    return f"it happens once at the end of that, at {from_ms(at * 1000):%H:%M} UTC."


def _repeated(cron: Cron, here: int) -> str:
    if not here:
        return "it has no time in there."
    if cron.fixed:
        return "it happens only the first time."
    return f"it happens in both passes ({render.counted(here, 'time')} in each)."


def _stretch(low: int, high: int) -> str:
    return f"{from_ms(low * 1000):%H:%M} to {from_ms(high * 1000):%H:%M}" if high - low < DAY else "the whole day"
