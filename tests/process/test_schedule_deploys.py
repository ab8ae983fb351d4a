"""Schedules between real processes of old and new code, and of machines that die or sleep."""

import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.process.harness import Place, cpu_s, switches, until
from tests.process.test_quiet import settled_down

NOW = "(julianday('now') - 2440587.5) * 86400000"
STARTED = """
from datetime import datetime, UTC
ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
def told(who, ctx):
    note(who, int(ctx.scheduled_for.timestamp()), os.getpid())
"""


def only(place: Place, columns: str) -> tuple[object, ...]:
    """Of the only row and the only schedule there is."""
    (row,) = place.rows(
        f"SELECT {columns} FROM nextdue_task t JOIN nextdue_schedule g ON g.name = t.name AND g.key = t.key"
    )
    assert place.one("SELECT count(*) FROM nextdue_task") == place.one("SELECT count(*) FROM nextdue_schedule") == 1
    return tuple(row)


@pytest.mark.beside
def test_a_deploy_with_another_schedule_while_old_workers_live(place: Place) -> None:
    """F021 F092: every 300 s, every second, hourly, each by a deploy: one row, at the new time only."""
    shop = STARTED + "\n@nd.{}\ndef sync(ctx):\n    told({!r}, ctx)\n"
    place.script(shop.format("every(300)", "v1"))
    workers = [place.worker()]
    place.noted("v1")
    until(lambda: only(place, f"g.plan, t.due - {NOW} BETWEEN 0 AND 300001") == ('{"period_ms":300000}', 1))
    place.script(shop.format("every(1)", "v2"))
    workers.append(place.worker())
    until(lambda: len(place.notes()) >= 4)  # by either of them: both know the task
    place.script(shop.format("cron('0 0 1 1 *')", "v3"))
    workers.append(place.worker())
    until(lambda: only(place, "t.token, g.plan ->> 'cron'") == (None, "0 0 1 1 *"))
    assert only(place, f"t.due - {NOW} > 1001") == (1,)
    seen = len(place.notes())
    time.sleep(1.5)
    assert len(place.notes()) == seen
    assert [worker.terminate() for worker in workers] == [0, 0, 0]
    place.checked()


def test_a_decorator_that_is_gone_and_comes_back(place: Place) -> None:
    """F022 F129: held, shown by the doctor, no run and no spin, and the others go on; declared again, it goes on."""
    beat = "@nd.every(1, anchor=ANCHOR)\ndef {0}(ctx):\n    told({0!r}, ctx)\n"
    both, one = STARTED + beat.format("gone") + beat.format("stays"), STARTED + beat.format("stays")
    place.script(both)
    old = place.worker()
    place.noted("gone")
    assert old.terminate() == 0
    place.script(one)
    new = place.worker()
    new.says("schedule gone is declared no more and is held")
    runs = Counter(note.split()[0] for note in place.notes())
    assert place.rows("SELECT rest, reason FROM nextdue_task WHERE name = 'gone'") == [("held", "orphaned")]
    shown = place.cli("doctor", str(place.db))
    shown.says("declared by no code any more, and held: gone")
    cpu = cpu_s(new.pid)
    place.noted("stays", runs["stays"] + 2)
    assert cpu_s(new.pid) - cpu <= 0.2
    assert Counter(note.split()[0] for note in place.notes())["gone"] == runs["gone"]
    assert new.terminate() == 0
    place.script(both)
    again = place.worker()
    place.noted("gone", runs["gone"] + 2)
    assert again.terminate() == 0
    slots = Counter(tuple(note.split()[:2]) for note in place.notes())
    assert set(slots.values()) == {1}
    place.checked()


@pytest.mark.beside
def test_half_of_the_modules_not_importable(place: Place) -> None:
    """F091: nothing of their schedules is deleted, held or changed, and they are shown; they run once they can."""
    part = (
        "from shop import *\nfor n in range(10):\n"
        "    nd.cron('* * * * * *', name=f'{who}{n}')(lambda who='{who}': note(who))\n"
    )
    for who in ("one", "two"):
        (place.folder / f"{who}.py").write_text(part.replace("{who}", who), "utf-8")
    place.script("")
    broken, whole = "try:\n    import one, no_such_library, two\nexcept ImportError:\n    pass\n", "import one, two\n"
    for name, imports in (("whole", whole), ("broken", broken)):
        (place.folder / f"{name}.py").write_text("from shop import nd\n" + imports, "utf-8")
    first = place.worker(module="whole")
    place.noted("two", 10)
    assert first.terminate() == 0
    before = place.rows("SELECT * FROM nextdue_task WHERE name LIKE 'two%'")
    assert len(before) == 10
    half = place.cli("worker", "broken:nd")
    half.says("unknown")
    assert "two0 (1)" in half.text
    ran = sum(note == "one" for note in place.notes())
    place.noted("one", ran + 20)
    assert place.rows("SELECT * FROM nextdue_task WHERE name LIKE 'two%'") == before
    assert place.one("SELECT count(*) FROM nextdue_schedule WHERE orphaned IS NULL AND paused IS NULL") == 20
    assert half.terminate() == 0
    ran = sum(note == "two" for note in place.notes())
    fixed = place.worker(module="whole")
    place.noted("two", ran + 10)
    assert fixed.terminate() == 0
    place.checked()


def test_a_new_schedule_beside_an_old_worker(place: Place) -> None:
    """F092: the old worker neither claims nor spins over a schedule that it doesn't know; the new one fires it."""
    known = STARTED + "@nd.task\ndef known(n: int) -> None:\n    note('known', n)\n"
    place.script(known)
    old = place.worker()
    place.script(known + "@nd.every(1, anchor=ANCHOR)\ndef b_only(ctx):\n    told('b_only', ctx)\n")
    new = place.worker()
    place.noted("b_only")
    settled_down(old.pid)
    cpu = cpu_s(old.pid)
    place.noted("b_only", 4)
    assert cpu_s(old.pid) - cpu < 0.2  # in steps of 0.01; spinning would be over 3
    assert new.terminate() == 0
    counted = switches(old.pid)
    time.sleep(1.2)  # overdue, and for nobody
    assert switches(old.pid) - counted <= 10
    ran = [note.split() for note in place.notes()]
    assert {pid for _, _, pid in ran} == {str(new.pid)}
    slots = [int(slot) for _, slot, _ in ran]
    assert slots == list(range(slots[0], slots[0] + len(slots)))
    assert old.terminate() == 0
    place.checked()


@pytest.mark.beside
def test_a_kill_right_after_the_claim(place: Place) -> None:
    """F040: kill -9 in the run of an occurrence: the same scheduled_for again; its end moves the schedule on."""
    place.script(
        STARTED
        + """
@nd.cron("* * * * * *")
def work(ctx):
    told("work", ctx)
    if ctx.crashes == 0:
        os.kill(os.getpid(), 9)
    nd.schedules.pause("work")
"""
    )
    first = place.worker()
    assert first.ends() == -signal.SIGKILL
    slot = only(place, "t.scheduled_for")
    second = place.worker()
    place.noted("work", 2)
    until(lambda: only(place, "t.token, t.rest") == (None, "held"))
    assert {(int(note.split()[1]) * 1000,) for note in place.notes()} == {slot}
    assert only(place, "g.fired, g.last, g.missed_ever") == (1, *slot, 0)
    assert second.terminate() == 0
    place.checked()


def test_what_is_due_in_eight_thousand_years(place: Place) -> None:
    """F105: the last instant there is, 400 years, and a schedule that begins then: the worker sleeps, and is woken."""
    place.script(
        STARTED
        + """
@nd.task
def far(n: int) -> None:
    note("far", n)

@nd.cron("0 0 29 2 1", day_and=True, starting=datetime(9900, 1, 1, tzinfo=UTC))
@nd.every(3600, key="late", starting=datetime(9999, 12, 30, tzinfo=UTC))
def rare(ctx):
    told("rare", ctx)
"""
    )
    place.does("""
import shop
from datetime import datetime, timedelta, UTC
shop.far.using(due=datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)).enqueue(1)
shop.far.using(delay=timedelta(days=400 * 365)).enqueue(2)
""")
    worker = place.worker()
    settled_down(worker.pid)
    assert place.one("SELECT max(due_ms) FROM nextdue_tasks") == 253_402_300_799_999
    assert place.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'waiting'") == 4
    counted, cpu = switches(worker.pid), cpu_s(worker.pid)
    time.sleep(1)
    assert switches(worker.pid) - counted <= 2
    assert cpu_s(worker.pid) - cpu <= 0.01
    place.does("import shop; shop.far.using(delay=0.1).enqueue(3)")
    place.noted("far 3", 1, 5)
    assert place.notes() == ["far 3"]
    assert worker.terminate() == 0
    assert "Traceback" not in worker.text
    place.checked()


def test_a_sleeping_worker_is_told_by_the_system_when_the_clock_is_set(place: Place) -> None:
    """F008 F007: it sleeps by the clock that goes on in a suspend, and a step of that ends its sleep."""
    place.script(STARTED + '@nd.cron("0 0 1 1 *")\ndef rare(ctx):\n    told("rare", ctx)\n')
    worker = place.worker()
    settled_down(worker.pid)
    timers = [info.read_text() for info in Path(f"/proc/{worker.pid}/fdinfo").iterdir() if info.exists()]
    (wall,) = [text for text in timers if "clockid: 0\n" in text]
    flags = re.search(r"settime flags: (\d+)", wall)
    assert flags is not None
    assert int(flags[1], 8) == 3, "TFD_TIMER_ABSTIME and TFD_TIMER_CANCEL_ON_SET (timerfd_create(2))"
    left = re.search(r"it_value: \((\d+),", wall)
    assert left is not None
    due = only(place, f"(t.due - {NOW}) / 1000")[0]
    assert isinstance(due, float)
    assert abs(int(left[1]) - due) < 5
    assert worker.terminate() == 0
