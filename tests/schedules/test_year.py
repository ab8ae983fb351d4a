"""A year of 200 mixed schedules in 20 zones, through the real store and three workers, as the oracle says it."""

from collections import defaultdict
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from nextdue import schedule
from nextdue.clock import to_ms
from nextdue.records import Declared, Ending
from nextdue.schedule import Plan
from nextdue.sqlite import schedules
from nextdue.sqlite.store import SqliteStore
from nextdue.task import Options
from nextdue.testing import FakeClock
from nextdue.testing.worlds.oracle import slots
from nextdue.worker import Worker

START, END = to_ms(datetime(2026, 1, 1, tzinfo=UTC)), to_ms(datetime(2027, 1, 1, tzinfo=UTC))
DAY = 86_400_000
ZONES = (
    "UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Chisinau", "America/New_York", "America/St_Johns",
    "America/Santiago", "America/Asuncion", "America/Havana", "Africa/Casablanca", "Africa/Cairo", "Asia/Kathmandu",
    "Asia/Kolkata", "Asia/Beirut", "Asia/Gaza", "Australia/Lord_Howe", "Australia/Adelaide", "Pacific/Chatham",
    "Pacific/Apia",
)  # fmt: skip
"""Where clocks are changed by half an hour, at midnight, for Ramadan, in the south, or never; and odd offsets."""
DAILY = ("30 2 * * *", "0 0 * * *", "15 1 * * 0,6", "45 23 * * 2", "0 3 1,15 * 5", "30 0 L * *")
OFTEN = ("0 */6 * * 3", "*/30 1-3 * * 0", "30 * * * 6")
NAMES = ("mail", "report")


def plans():
    """Ten for each zone: seven by cron, one by months, two by a period with an anchor."""
    random = Random(2026)
    found = []
    for zone in ZONES:
        rules = [*DAILY, random.choice(OFTEN)]
        found += [Plan(cron=rule, tz=zone, jitter_ms=random.choice((0, 0, 600_000))) for rule in rules]
        anchor = START - random.randrange(300 * DAY)
        found.append(Plan(months=random.choice((1, 2, 3)), anchor_ms=anchor - anchor % 1000, tz=zone))
        found += [Plan(period_ms=hours * 3_600_000, anchor_ms=anchor) for hours in (random.randrange(15, 40), 100)]
    return found


class AtOnce:
    """An executor whose tasks take no time; some fail at first."""

    def __init__(self, ran):
        self.ran, self.ended = ran, []

    def start(self, claim):
        fails = claim.attempts == 0 and claim.scheduled_for // 60_000 % 37 == 0
        if not fails:
            self.ran[claim.args].append(claim.scheduled_for)
        self.ended.append(Ending(claim, "failed" if fails else "done", ran_ms=0, delay_ms=1_000 if fails else None))

    def finished(self):
        ended, self.ended = self.ended, []
        return ended

    def waiting(self, kind=None):
        return 0

    def progress(self):
        return ()

    def limit_ms(self):
        return None

    def settled(self, claim):
        return False

    def close(self):
        pass


def worker(path, clock, names, ran):
    store = SqliteStore(path, now=clock.now, monotonic_ms=clock.monotonic_ms, keep_rows=0)
    write = store.database.write
    vars(store.database).update(write=lambda name, params, durable=True: write(name, params, durable=False))
    options = {name: Options(name=name) for name in names}
    executor: Any = AtOnce(ran)
    return Worker(store, executor, options, slots={"thread": 50}, random=Random(1).random)


def live(clock, workers):
    """Who wakes first ticks until it would sleep again, until the year is over. Nobody is rung awake: each sees to it
    that nothing is late of what it saw, and what it didn't see, another one did."""
    wakes = [clock.now()] * len(workers)
    while min(wakes) < END + DAY:  # of the last day the failed ones are tried again, too
        at = min(wakes)
        clock.advance(max(0, at - clock.now()))
        which = wakes.index(at)
        each, wait = workers[which], 0
        while wait <= 0:
            limit = each.tick()
            wait = 0 if limit == 0 else each.look_ms()
        wakes[which] = clock.now() + wait


@pytest.mark.timeout(600)
def test_a_year_of_200_schedules_in_20_zones_is_what_the_oracle_says(tmp_path):
    clock, path = FakeClock(START - 1), tmp_path / "year.db"
    ran: defaultdict[str, list[int]] = defaultdict(list)
    workers = [worker(path, clock, names, ran) for names in (NAMES, ("mail",), ("report",))]
    store, random = workers[0].store, Random(7)
    every = [(number, plan) for number, plan in enumerate(plans())]
    assert len(every) == 200
    pairs = [
        (
            Declared(
                NAMES[n % 2], f"{schedule.MARK}k{n}", "default", 0, f"[{n}]", schedule.written(p), "shop", None, None
            ),
            p,
        )
        for n, p in every
    ]
    schedules.declare(store, pairs, random.random, lambda module: True)
    live(clock, workers)
    for number, plan in every:
        expected = slots(plan, START, END)
        got = [at for at in ran[f"[{number}]"] if at < END]
        assert got == expected, f"{plan}: {sorted(set(got) ^ set(expected))[:5]}"
    assert sum(len(found) for found in ran.values()) > 20_000
    assert {view.missed_ever for view in schedules.listed(store)} == {0}
    for each in workers:
        each.close()
