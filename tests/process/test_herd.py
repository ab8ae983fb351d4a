"""Herds: what is overdue after a downtime starts spread out. Clocks that jump, as a worker and the doctor tell it."""

import json
import logging
from itertools import pairwise

import pytest

from nextdue import BadDefinition, BadTime, Cron, Nextdue
from nextdue.cli import doctor
from nextdue.records import Put, Serving
from nextdue.sqlite import herd
from nextdue.sqlite.inspect import check
from nextdue.sqlite.store import SqliteStore
from nextdue.statements import load

pytestmark = pytest.mark.beside

NOW = 1_796_126_400_000
HOUR = 3_600_000
TEN_MINUTES = 600_000


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "shop.db", now=lambda: NOW)
    store.enlist()
    yield store
    assert check(store.database) == []
    store.close()


def put(store, name, *dues, **more):
    for due in dues:
        store.put([Put(name, "default", 0, "[]", due_ms=due, **more)])


def rows(store, name=None):
    text = "SELECT name, due, scheduled_for FROM nextdue_task WHERE coalesce(?, name) = name ORDER BY id"
    return store.database.connection.execute(text, (name,)).fetchall()


def spread(store, names, **more):
    store.serve({name: Serving(300_000) for name in names}, None)
    return herd.spread(store, "herd_open", TEN_MINUTES, herd.LATE_MS, **more)


@pytest.mark.parametrize("piece", [1, 7, 5000])
def test_the_most_overdue_are_first_and_all_lie_in_the_window(store, piece):
    overdue = [NOW - HOUR - n * 61_000 % 50_000 - n for n in range(40)]
    put(store, "letter", *overdue[::2])
    put(store, "bill", *overdue[1::2])
    assert spread(store, ["letter", "bill"], piece=piece) == 40
    found = rows(store)
    assert all(NOW < due <= NOW + TEN_MINUTES for _, due, _ in found)
    assert [old for *_, old in sorted(found, key=lambda row: row[1])] == sorted(overdue)
    dues = sorted(due for _, due, _ in found)
    assert {b - a for a, b in pairwise(dues)} == {TEN_MINUTES // 40}
    assert spread(store, ["letter", "bill"]) == 0


def test_all_else_keeps_its_due(store):
    put(store, "letter", NOW - 30_000, NOW + HOUR)
    put(store, "stranger", NOW - HOUR)
    put(store, "letter", NOW - HOUR, expires_ms=NOW + 60_000)
    before = rows(store)
    assert spread(store, ["letter"]) == 0
    assert rows(store) == before


def test_what_expires_after_the_window_is_spread(store):
    put(store, "letter", NOW - HOUR, expires_ms=NOW + HOUR)
    assert spread(store, ["letter"]) == 1


def test_a_piece_is_sought_lane_by_lane(store):
    """By the index: 300,000 overdue rows of three names are moved in some seconds, whatever else is in the file."""
    plan = store.database.connection.execute(
        "EXPLAIN QUERY PLAN " + (load("nextdue.sqlite", herd.PAGE)["herd_piece"]),
        dict.fromkeys(("lanes", "until", "now", "window", "done", "size", "piece")) | {"lanes": "[]"},
    ).fetchall()
    lines = [line for *_, line in plan]
    assert any("SEARCH t USING INDEX nextdue_task_due (lane=? AND due<?)" in line for line in lines), lines
    assert not any(line.startswith("SCAN t") or line.startswith("SCAN nextdue_task") for line in lines), lines


def test_a_worker_spreads_at_its_start_and_not_again(tmp_path):
    nd = Nextdue(tmp_path / "shop.db")
    seen = []

    @nd.task
    def letter(n: int) -> None:
        seen.append(n)

    letter.enqueue_many([(n,) for n in range(20)])
    nd.schedules.put(letter, Cron("0 * * * *"), args=(99,))
    with nd.caller.use() as store:
        store.database.connection.execute("UPDATE nextdue_task SET due = due - 86400000")
        slot = store.database.connection.execute(
            "SELECT scheduled_for FROM nextdue_task WHERE key IS NOT NULL"
        ).fetchone()
        now = store.now_ms()
    service = nd.working(spread="2h")
    service.open()
    assert service.spread == 21
    with nd.caller.use() as store:
        dues = [due for _, due, _ in rows(store)]
        assert all(now < due <= now + 2 * HOUR + 60_000 for due in dues)
        key = "SELECT scheduled_for FROM nextdue_task WHERE key IS NOT NULL"
        assert store.database.connection.execute(key).fetchone() == slot
    service.ask_to_stop()
    service.loop()
    again = nd.working(spread="2h")
    again.open()
    assert again.spread == 0
    again.ask_to_stop()
    again.loop()
    assert set(seen) <= {0, 99}
    nd.close()


@pytest.mark.parametrize(
    ("options", "error"),
    [({"spread": "31d"}, BadDefinition), ({"spread": "1h", "once": True}, BadDefinition), ({"spread": -1}, BadTime)],
)
def test_what_can_not_be_meant_is_refused(tmp_path, options, error):
    with pytest.raises(error):
        Nextdue(tmp_path / "shop.db").working(**options)


class Clocks:
    wall, monotonic = NOW, 0

    def pass_(self, ms):
        self.wall += ms
        self.monotonic += ms


def test_f007_f008_a_jump_of_the_clock_is_told_once(tmp_path, caplog):
    """F007 F008: the clock is set while a worker waits: by how much and in which direction is said once."""
    clocks = Clocks()
    steps: list[int] = []
    store = SqliteStore(tmp_path / "shop.db", now=lambda: clocks.wall, monotonic_ms=lambda: clocks.monotonic)
    worker = store.enlist()
    store.serve({"letter": Serving(300_000)}, None)
    store.on_step = steps.append
    store.look(worker)
    clocks.pass_(5_000)
    store.look(worker)
    assert steps == []
    assert inspect_step(store) is None
    clocks.wall += 2 * HOUR
    for _ in range(3):
        store.look(worker)
        clocks.pass_(1_000)
    assert steps == [2 * HOUR]
    clocks.wall -= HOUR
    store.look(worker)
    assert steps == [2 * HOUR, -HOUR]
    assert inspect_step(store) == [clocks.wall, -HOUR]
    texts = [finding.text for finding in doctor._clock(store)]
    assert any("a worker saw it go back by 1 h" in text for text in texts), texts
    store.close()


def inspect_step(store):
    row = store.database.connection.execute("SELECT value FROM nextdue_meta WHERE name = 'clock_step'").fetchone()
    return None if row is None else json.loads(row[0])


def test_the_log_says_it(tmp_path, caplog):
    nd = Nextdue(tmp_path / "shop.db")
    nd.task(name="letter")(lambda: None)
    service = nd.working()
    service.open()
    with caplog.at_level(logging.WARNING, "nextdue"):
        service.store.on_step(-90_500)
        service.store.on_step(7_200_000)
    assert [record.getMessage() for record in caplog.records] == [
        "the clock was set back by 90.5 s",
        "the clock went forward by 7200.0 s: it was set, or this machine was asleep",
    ]
    service.ask_to_stop()
    service.loop()
    nd.close()
