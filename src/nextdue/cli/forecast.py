"""`nextdue forecast`: what will run until tomorrow, as a table and drawn over time."""

import argparse
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from nextdue import schedule
from nextdue.cli import render, target, timeline
from nextdue.cli.rules import besides, in_short, near
from nextdue.cli.schedules import Line, look
from nextdue.cli.times import local_zone, relative, shown, utc
from nextdue.clock import from_ms, to_ms
from nextdue.errors import BadTime, StoreMissing
from nextdue.sqlite import inspect, pauses
from nextdue.sqlite.store import SqliteStore
from nextdue.zones import next_change, offset, zone

MOST_HOURS = 24 * 366 * 10
TIMES = 100
"""So many instants of each are given to a program."""
ROWS, DRAWN = 40, 20
"""The most lines of the table and of the drawing."""
CHANGES = 8
"""The most changes of clocks that are named."""
WIDTH = 80


class Coming(NamedTuple):
    """What will run of one schedule, or of the deferred tasks of one name."""

    name: str
    key: str | None
    rule: str
    """In words; "deferred" for tasks that run once."""
    total: int
    times: list[int]
    """When, UTC ms; the first 100 of them."""
    about: bool
    """Each comes after the end of the one before, which nobody knows."""
    plan: schedule.Plan | None = None
    counts: dict[int, int] | None = None
    """Of deferred tasks: how many in which column of the drawing."""


class Change(NamedTuple):
    """Clocks are put forward or back."""

    at: int
    zone: str
    by_ms: int


def forecast(args: argparse.Namespace) -> int:
    """Tell."""
    where = target.find(args.target)
    tz = _zone(args.tz)
    now, lines = look(where)
    until = _until(args, now, tz)
    scale = timeline.scale(now, until, tz)
    found = [coming for line in lines if (coming := _of_schedule(line, now, until)) is not None and coming.total]
    tasks, paused = _deferred(where, now, until, scale)
    found = sorted([*found, *tasks], key=lambda coming: (coming.times[0], coming.name, coming.key or ""))
    changes = _changes(lines, args.tz or local_zone(), now, until)
    resting = [line for line in lines if line.state == "paused" or line.kept]
    if args.json:
        render.document(_data(found, changes, resting, paused, now, until))
        return 0
    print(f"From now to {near(until, now, tz)}, {relative(until, now)}; times of {args.tz or _here(tz, now)}.")
    if not found:
        print("Nothing will run.")
    else:
        _table(found, now, tz)
    for change in changes[:CHANGES]:
        print(_told(change, now, tz))
    said = [line.view.label for line in resting] + [f"{name} ({count})" for name, count in paused.items()]
    if said:
        more = f" and {len(said) - 10} more" if len(said) > 10 else ""
        print(f"Paused, so not among them: {render.clean(', '.join(said[:10]), 300)}{more}.")
    broken = [line.view.label for line in lines if line.trouble is not None]
    if broken:
        print(f"Broken, so not among them: {render.clean(', '.join(broken), 300)}; `nextdue schedules` says why.")
    if found:
        print()
        rows = [(_label(coming), _columns(coming, scale, now)) for coming in found[:DRAWN]]
        timeline.draw(scale, rows, [change.at for change in changes], tz)
    return 0


# what will run


def _of_schedule(line: Line, now: int, until: int) -> Coming | None:
    view, plan = line.view, line.view.plan
    if line.state not in ("waiting", "running", "new") or line.kept is not None or line.trouble is not None:
        return None
    end = until if plan.ending_ms is None else min(until, plan.ending_ms)
    left = None if plan.count is None else plan.count - view.fired - (line.state == "running")
    count, times = _from_end(line, now, end) if schedule.from_end(plan) else _by_calendar(line, now, end)
    if left is not None:
        count, times = min(count, left), times[: max(0, left)]
    rule = "; ".join([in_short(plan), *besides(plan)])
    return Coming(view.name, view.key, rule, max(0, count), times, schedule.from_end(plan), plan)


def _from_end(line: Line, now: int, end: int) -> tuple[int, list[int]]:
    period = line.view.plan.period_ms or 1
    first = now + period if line.next is None else max(line.next, now)
    count = 0 if first > end else 1 + (end - first) // period
    return count, [first + n * period for n in range(min(count, TIMES))]


def _by_calendar(line: Line, now: int, end: int) -> tuple[int, list[int]]:
    """The present occurrence at its due, which jitter or a retry may have moved; all others at their slots."""
    plan, rule = line.view.plan, schedule.rule_of(line.view.plan)
    times: list[int] = []
    slot = max(now, line.view.slot or now)
    if line.state != "running":
        if line.next is None:
            return 0, []
        slot = line.next if line.view.slot is None else line.view.slot
        if slot <= now and not line.view.attempts:  # what it stands for, after a downtime
            chosen = schedule.forward(plan, slot, now).slot_ms
            if chosen is None:
                return 0, []
            times, slot = [max(now, chosen)], chosen if plan.missed == "all" else max(now, chosen)
        else:
            times = [max(now, line.next)]
    count = sum(at <= end for at in times) + (rule.count_ms(slot, end) if end > slot else 0)
    while len(times) < TIMES and (following := rule.next_ms(slot)) is not None and following <= end:
        slot = following
        times.append(max(now, slot))
    return count, [at for at in times if at <= end]


def _deferred(where: target.Target, now: int, until: int, scale: timeline.Scale) -> tuple[list[Coming], dict[str, int]]:
    """The tasks of the file that are due until then, by name; and how many of which names are paused."""
    try:
        store = where.open()
    except StoreMissing:
        return [], {}
    try:
        return _of_names(store, now, until, scale)
    finally:
        store.close()


def _of_names(store: SqliteStore, now: int, until: int, scale: timeline.Scale) -> tuple[list[Coming], dict[str, int]]:
    resting = {(found.kind, found.word) for found in pauses.paused(store.database)}
    params = {"now": now, "until": until, "start": scale.start, "width": scale.width}
    found: dict[str, dict[int, int]] = {}
    firsts: dict[str, tuple[int, str | None]] = {}
    paused: dict[str, int] = {}
    for name, queue, column, count, first, key in inspect.rows(store.database, "coming", params):
        if ("name", name) in resting or ("queue", queue) in resting:
            paused[name] = paused.get(name, 0) + count
            continue
        columns = found.setdefault(name, {})
        columns[column] = columns.get(column, 0) + count
        firsts[name] = min(firsts.get(name, (first, key)), (first, key), key=lambda pair: pair[0])
    tasks = [
        Coming(
            name, firsts[name][1] if total == 1 else None, "deferred", total, [firsts[name][0]], False, None, columns
        )
        for name, columns in found.items()
        if (total := sum(columns.values()))
    ]
    return tasks, paused


def _columns(coming: Coming, scale: timeline.Scale, now: int) -> list[int]:
    """How many in each column of the drawing."""
    if coming.counts is not None:
        return [coming.counts.get(n, 0) for n in range(scale.columns)]
    counts = [0] * scale.columns
    for at in coming.times:
        counts[min(scale.columns - 1, (at - scale.start) // scale.width)] += 1
    if coming.total == len(coming.times) or coming.plan is None:
        return counts
    last = coming.times[-1]  # more than are listed: counted column by column
    if coming.about:
        first, period = coming.times[0], coming.plan.period_ms or 1
        for n in range((last - scale.start) // scale.width, scale.columns):
            low, high = scale.start + n * scale.width, min(scale.start + (n + 1) * scale.width, scale.until + 1)
            counts[n] = max(0, (high - 1 - first) // period - (max(low, first) - 1 - first) // period)
        return counts
    rule = schedule.rule_of(coming.plan)
    for n in range((last - scale.start) // scale.width, scale.columns):
        low, high = (
            max(now, scale.start + n * scale.width - 1),
            min(scale.start + (n + 1) * scale.width - 1, scale.until),
        )
        counts[n] = max(counts[n], rule.count_ms(low, high))
    return counts


def _changes(lines: Iterable[Line], here: str | None, now: int, until: int) -> list[Change]:
    """When clocks are changed in the zones of these schedules and in the one that is shown."""
    names = {line.view.plan.tz for line in lines if line.view.plan.tz and line.trouble is None}
    names |= {here} if here else set()
    found: list[Change] = []
    for name in names:
        tz, at = zone(name), now // 1000
        while (change := next_change(tz, at, until // 1000)) is not None and len(found) < 100:
            found.append(Change(change * 1000, name, (offset(tz, change) - offset(tz, change - 1)) * 1000))
            at = change
    return sorted(found)


# telling it


def _table(found: list[Coming], now: int, tz: tzinfo | None) -> None:
    rows = []
    for coming in found[:ROWS]:
        first = "now" if coming.times[0] <= now else near(coming.times[0], now, tz)
        times = f"about {coming.total:,}" if coming.about and coming.total > 1 else f"{coming.total:,}"
        rows.append((first, times, _label(coming)))
    room = max(16, WIDTH - sum(max(len(row[i]) for row in rows) + 2 for i in range(3)))
    rules = [render.clean(coming.rule, room) for coming in found]
    render.table(("FIRST", "TIMES", "TASK", "RULE"), [(*row, rule) for row, rule in zip(rows, rules, strict=False)])
    if len(found) > ROWS:
        print(f"... and {len(found) - ROWS} more, from {near(found[ROWS].times[0], now, tz)} on; --json has them all")


def _label(coming: Coming) -> str:
    key = "" if coming.key is None or coming.key == coming.name else f" {coming.key}"
    return render.clean(coming.name + key, 24)


def _told(change: Change, now: int, tz: tzinfo | None) -> str:
    minutes = abs(change.by_ms) // 60_000
    by = f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"
    return (
        f"Clocks of {change.zone} go {'forward' if change.by_ms > 0 else 'back'} by {by} at {near(change.at, now, tz)}."
    )


def _here(tz: tzinfo | None, now: int) -> str:
    return local_zone() or from_ms(now).astimezone(tz).tzname() or "this machine"


def _data(
    found: list[Coming], changes: list[Change], resting: list[Line], paused: dict[str, int], now: int, until: int
) -> dict[str, Any]:
    """All of it for a program."""
    return {
        **{"from": utc(now), "from_ms": now, "until": utc(until), "until_ms": until},
        "coming": [
            {
                "task": coming.name,
                "key": coming.key,
                "kind": "deferred" if coming.plan is None else "schedule",
                "rule": coming.rule,
                "count": coming.total,
                "about": coming.about,
                "first": utc(coming.times[0]),
                "times_ms": coming.times,
            }
            for coming in found
        ],
        "clock_changes": [{"at": utc(c.at), "at_ms": c.at, "zone": c.zone, "by_ms": c.by_ms} for c in changes],
        "paused": [{"task": line.view.name, "key": line.view.key} for line in resting]
        + [{"task": name, "deferred": count} for name, count in paused.items()],
    }


# what is asked for


def _zone(name: str | None) -> tzinfo | None:
    """The zone that is shown; None: this machine's, for which Python asks the system."""
    if name is not None:
        return zone(name)
    here = local_zone()
    return None if here is None else zone(here)


def _until(args: argparse.Namespace, now: int, tz: tzinfo | None) -> int:
    """Raises BadTime."""
    if args.hours is not None and args.until is not None:
        raise BadTime("give --hours or --until, not both")
    if args.until is None:
        hours = 24.0 if args.hours is None else args.hours
        if not 0 < hours <= MOST_HOURS:
            raise BadTime(f"--hours must be over 0 and at most {MOST_HOURS} (ten years), not {args.hours}")
        return now + int(hours * 3_600_000)
    until = to_ms(_instant(args.until, now, tz))
    if not now < until <= now + MOST_HOURS * 3_600_000:
        raise BadTime(f"--until {args.until} is {shown(until)}: it must be to come, within ten years")
    return until


def _instant(text: str, now: int, tz: tzinfo | None) -> datetime:
    """A time of the clocks that are shown, or one with an offset."""
    here = from_ms(now).astimezone(tz)
    if re.fullmatch(r"\d\d?:\d\d", text.strip()):
        hour, minute = map(int, text.split(":"))
        if hour < 24 and minute < 60:
            at = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return at if at > here else at + timedelta(days=1)
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadTime(f'--until: can\'t read {text!r}; write it like "07:00" or "2026-12-24 18:00"') from None
    return at if at.tzinfo is not None else at.replace(tzinfo=tz) if tz is not None else at.astimezone()
