"""The worker from the shell and inside somebody's own service: once, exclusive, queues, exit codes, asyncio."""

import logging
import signal
import time
from pathlib import Path

import pytest

from nextdue import Nextdue
from tests.process.harness import Place

SHOP = """
@nd.task
def work(n: int) -> None:
    note("work", n)

@nd.task(queue="mail")
def letter(n: int) -> None:
    note("letter", n)
"""


def test_a_script_and_a_module_are_one_program(place: Place) -> None:
    """Enqueued by `python shop.py`, run by `nextdue worker shop:nd`: a name is without its module."""
    place.script(SHOP + "\nif __name__ == '__main__':\n    print(work.enqueue(1), letter.enqueue(2))\n")
    script = place.start("shop.py")
    assert script.ends() == 0, script.text
    worker = place.cli("worker", "shop:nd")
    place.noted("work 1")
    place.noted("letter 2")
    assert worker.terminate() == 0, worker.text
    assert "2 done" in worker.text
    place.checked()


def test_once_runs_what_was_due_and_leaves_the_rest(place: Place) -> None:
    """--once: due at its start only; it waits for them; retries and tasks put meanwhile stay."""
    place.script("""
@nd.task
def slow(n: int) -> None:
    note("begin", n)
    slow.enqueue(n + 100)
    time.sleep(0.5)
    note("end", n)

@nd.task(retry=Retry(base=0, jitter=0, limit=5))
def fails(n: int) -> None:
    note("fails", n)
    raise ValueError(n)
""")
    place.does("""
import shop
shop.slow.enqueue_many([(1,), (2,), (3,)])
shop.slow.using(delay=0.3).enqueue(4)
shop.fails.enqueue(1)
""")
    worker = place.cli("worker", "shop:nd", "--once", "-c", "2")
    assert worker.ends(20) == 0, worker.text
    ended = sorted(line for line in place.notes() if line.startswith("end"))
    assert ended in (["end 1", "end 2", "end 3"], ["end 1", "end 2", "end 3", "end 4"]), "4 may be due before it starts"
    assert place.notes().count("fails 1") == 1
    waiting = place.rows(
        "SELECT name, args FROM nextdue_tasks WHERE state = 'waiting' AND json_extract(args, '$[0]') <> 4"
    )
    assert ("fails", "[1]") in waiting
    assert {("slow", f"[{n}]") for n in (101, 102, 103)} <= set(waiting)
    assert place.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'running'") == 0
    place.checked()


def test_once_with_nothing_due_ends_at_once(place: Place) -> None:
    """--once: an empty file, then one task an hour ahead: nothing runs, exit 0."""
    place.script(SHOP)
    assert place.cli("worker", "shop:nd", "--once").ends(10) == 0
    place.does("import shop; shop.work.using(delay=3600).enqueue(1)")
    assert place.cli("worker", "shop:nd", "--once").ends(10) == 0
    assert place.notes() == []
    assert place.left() == 1


def test_once_takes_what_a_dead_worker_left(place: Place) -> None:
    """--once after a kill -9: the rows of the dead worker were due at its start."""
    place.script("""
@nd.task
def work(n: int) -> None:
    note("begin", n)
    if not (HERE / "free").exists():
        time.sleep(60)
""")
    place.does("import shop; shop.work.enqueue(1)")
    first = place.worker()
    place.noted("begin 1")
    first.kill()
    (place.folder / "free").touch()
    worker = place.cli("worker", "shop:nd", "--once")
    assert worker.ends(10) == 0
    assert place.notes() == ["begin 1", "begin 1"]
    assert place.left() == 0
    assert "recovered" in worker.text
    place.checked()


def test_an_exclusive_worker_refuses_a_second_one(place: Place) -> None:
    """--exclusive: exit 3, saying who holds it; free again when that one ended or was killed."""
    place.script(SHOP)
    first = place.cli("worker", "shop:nd", "--exclusive")
    first.says("serves")
    second = place.cli("worker", "shop:nd", "--exclusive")
    assert second.ends(10) == 3
    assert f"pid {first.pid}" in second.text
    assert "Traceback" not in second.text
    plain = place.cli("worker", "shop:nd")
    plain.says("serves")
    assert plain.terminate() == 0
    first.kill()
    third = place.cli("worker", "shop:nd", "--exclusive")
    third.says("serves")
    place.does("import shop; shop.work.enqueue(1)")
    place.noted("work 1")
    assert third.terminate() == 0
    fourth = place.cli("worker", "shop:nd", "--exclusive", "--once")
    assert fourth.ends(10) == 0


def test_queues_and_concurrency(place: Place) -> None:
    """-q takes only these queues, -c bounds how many run at once."""
    place.script("""
@nd.task
def work(n: int) -> None:
    note("work", n)

@nd.task(queue="mail")
def letter(n: int) -> None:
    note("+")
    time.sleep(0.1)
    note("-")
""")
    place.does("import shop; shop.work.enqueue(1); shop.letter.enqueue_many([(n,) for n in range(8)])")
    worker = place.cli("worker", "shop:nd", "-q", "mail", "-c", "2", "--once")
    assert worker.ends(10) == 0, worker.text
    running = deepest = 0
    for line in place.notes():
        running += {"+": 1, "-": -1}[line]
        deepest = max(deepest, running)
    assert deepest == 2
    assert place.notes().count("-") == 8
    assert place.rows("SELECT name, state FROM nextdue_tasks") == [("work", "waiting")]


WRONG = (
    "worker shop:nothing",
    "worker nowhere:nd",
    "worker broken:nd",
    "worker shop:nd -c 0",
    "worker shop:nd -q unheard-of",
    "worker garbage:nd",
    "worker",
)


def test_wrong_usage_is_exit_code_2(place: Place) -> None:
    """A user's mistake: one sentence, no traceback of ours, exit code 2."""
    place.script(SHOP)
    place.script("nd = Nextdue(HERE / 'garbage.db')\n", "garbage.py")
    (place.folder / "garbage.db").write_bytes(b"this is no database" * 1000)
    (place.folder / "broken.py").write_text("import no_such_module_at_all\n")
    programs = [place.cli(*words.split(), NEXTDUE="") for words in WRONG]
    for words, program in zip(WRONG, programs, strict=True):
        assert program.ends(20) == 2, (words, program.text)
        assert "nextdue" in program.text, words
        assert "/nextdue/cli/" not in program.text, words


def test_failed_tasks_do_not_change_the_exit_code(place: Place) -> None:
    """Exit code 0 although tasks failed: that is the tasks' business, and shown."""
    place.script("@nd.task(retry=Retry(limit=1))\ndef fails(n: int) -> None:\n    raise ValueError(n)\n")
    place.does("import shop; shop.fails.enqueue(1)")
    worker = place.cli("worker", "shop:nd", "--once")
    assert worker.ends(10) == 0
    assert "ValueError" in worker.text
    assert "1 dead" in worker.text


def test_start_and_stop_in_a_service(place: Place) -> None:
    """nd.start(), nd.stop(), and with nd.working(): in threads, twice over, with no signal handler touched."""
    place.script(
        SHOP
        + """
if __name__ == "__main__":
    import signal
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    for n in range(3):
        nd.start()
        nd.start()
        assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before
        handle = work.enqueue(n)
        until(lambda: handle.state == "done")
        nd.stop()
        nd.stop()
    with nd.working(2, grace=1) as service:
        assert service.alive()
        handle = letter.enqueue(4)
        until(lambda: handle.state == "done")
    assert not service.alive()
    work.enqueue(5)
    assert nd.find()[0].state == "waiting"
    assert threading.active_count() < 4 or until(lambda: threading.active_count() < 4, 5) is None
    nd.close()
"""
    )
    program = place.start("shop.py")
    assert program.ends(20) == 0, program.text
    assert place.notes() == ["work 0", "work 1", "work 2", "letter 4"]
    assert list((place.folder / "shop.db-workers").iterdir()) == []
    place.checked()


def test_working_inside_asyncio(place: Place) -> None:
    """async with nd.working(), and aenqueue: the loop isn't blocked while the worker starts, works and stops."""
    place.script("""
import asyncio
@nd.task
def work(n: int) -> None:
    time.sleep(0.2)
    note("work", n)

async def main():
    longest, over = 0.0, False
    async def beat():
        nonlocal longest
        while not over:
            begun = time.monotonic()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - begun)
    beating = asyncio.create_task(beat())
    async with nd.working():
        handles = await asyncio.gather(*(work.aenqueue(n) for n in range(20)))
        while len((HERE / "notes").read_text().splitlines() if (HERE / "notes").exists() else ()) < 20:
            await asyncio.sleep(0.01)
    over = True
    await beating
    assert longest < 0.15, longest
    assert len({handle.id for handle in handles}) == 20

if __name__ == "__main__":
    asyncio.run(main())
""")
    program = place.start("shop.py")
    assert program.ends(20) == 0, program.text
    place.checked()


@pytest.mark.parametrize("end", ["pass", "raise ValueError('mine')", "os.kill(os.getpid(), 2)", "os._exit(0)"])
def test_a_process_that_exits_without_stop(place: Place, end: str) -> None:
    """Law 9: the worker thread of a process that just ends gives its rows back; os._exit is a death, and noticed."""
    place.script(
        f"""
@nd.task
def long(n: int) -> None:
    note("long", n)
    time.sleep(60)

if __name__ == "__main__":
    nd.start(grace=0.2)
    long.enqueue(1)
    until(lambda: (HERE / "notes").exists())
    {end}
"""
    )
    program = place.start("shop.py")
    begun = time.monotonic()
    program.ends(10)
    assert time.monotonic() - begun < 5
    state, crashes = place.rows("SELECT state, crashes FROM nextdue_tasks")[0]
    assert (state, crashes) == (("running", 0) if "_exit" in end else ("waiting", 0))
    place.checked()


def test_a_worker_that_breaks_exits_with_1(place: Place) -> None:
    """If a part of the worker dies, the process ends and says so: no exit code 0, no hanging half-worker."""
    place.script(SHOP)
    worker = place.cli("worker", "shop:nd")
    worker.says("serves")
    place.rows("DROP VIEW nextdue_tasks")
    place.rows("ALTER TABLE nextdue_task RENAME TO nextdue_moved")
    (place.folder / "shop.db-wake").write_bytes(b"\n")
    assert worker.ends(10) != 0
    assert "Traceback" not in worker.text, worker.text
    worker.says("nextdue:")


def test_ctrl_c_on_the_command_line(place: Place) -> None:
    """SIGINT right after the start and later: a graceful end with a summary, exit code 0."""
    place.script(SHOP)
    worker = place.cli("worker", "shop:nd")
    worker.says("next due")
    worker.send(signal.SIGINT)
    assert worker.ends(5) == 0
    assert "Traceback" not in worker.text
    assert "worked" in worker.text


def test_a_task_that_is_declared_too_late_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "nextdue")
    nd, other = Nextdue(tmp_path / "shop.db"), Nextdue(tmp_path / "other.db")
    nd.task(name="first")(lambda: None)
    with nd.working():
        other.task(name="elsewhere")(lambda: None)
        assert caplog.text == ""
        nd.task(name="late")(lambda: None)
        nd.task(name="later")(lambda: None)
    assert [record.getMessage()[:12] for record in caplog.records] == ["task late is"]
    nd.task(name="again")(lambda: None)
    with nd.working():
        pass
    assert len(caplog.records) == 1
    nd.close()
    other.close()
