"""`python -m bench.roles NAME SIDE OPTIONS`: says `ready`, waits for a line, answers by a line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from bench.roles import Playing, effects, feeds, kinds, neighbours, putting, sampling, scale, schedules

ROLES: dict[str, Callable[..., Playing]] = {
    "prime": putting.prime,
    "enqueue": putting.enqueue,
    "enqueue-many": putting.enqueue_many,
    "kill-feed": putting.work_feed,
    "drain-feed": putting.drain_feed,
    "stamped-drain-feed": putting.stamped_drain_feed,
    "drain-raw": putting.drain_raw,
    "pickup": sampling.pickup,
    "raw-sql": sampling.raw_sql,
    "dues": sampling.dues,
    "notify": sampling.notify,
    "listen": sampling.listen,
    "sleeper": sampling.sleeper,
    "application": neighbours.application,
    "spinner": neighbours.spinner,
    "drain-beside": scale.drain_beside,
    "long-reader": scale.long_reader,
    "drain-kind": kinds.drain_kind,
    "enqueue-kind": kinds.enqueue_kind,
    "commits": kinds.commits,
    "chain": effects.chain,
    "fan-in": effects.fan_in,
    "wait-many": effects.wait_many,
    "schedules-ahead": schedules.schedules_ahead,
    "schedules-at-once": schedules.schedules_at_once,
    "due-again-raw": schedules.due_again_raw,
    "day": schedules.day,
    "collect": feeds.collect,
    "sources-ahead": feeds.sources_ahead,
}


def main(name: str, side: str, options: str) -> None:
    playing = ROLES[name](side, **json.loads(options))
    next(playing)
    print("ready", flush=True)
    if not sys.stdin.readline():
        return  # the bench is gone
    try:
        next(playing)
    except StopIteration as end:
        print(json.dumps(end.value), flush=True)


main(*sys.argv[1:])
