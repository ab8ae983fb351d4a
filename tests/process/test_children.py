"""Tasks in child processes, under real workers, signals and deaths."""

import contextlib
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from nextdue import BadDefinition, Nextdue
from tests.process.harness import Place, children, over, until

LONG = """
@nd.task(run_in="process")
def long(n: int) -> None:
    note("begin", n, os.getpid())
    if not (HERE / "free").exists():
        time.sleep(60)
    note("end", n, os.getpid())
"""


TWO = "processes=2"


def begun(place: Place, times: int = 1) -> list[int]:
    """The pids of the children whose tasks have begun."""
    place.noted("begin", times)
    return [int(line.split()[2]) for line in place.notes() if line.startswith("begin")]


@pytest.mark.beside
def test_children_are_replaced_after_so_many_tasks(place: Place) -> None:
    """`tasks_per_process` in a program and on the command line; what is no number is refused where it is written."""
    place.script("@nd.task(run_in='process')\ndef which(n: int) -> None:\n    note('pid', os.getpid())\n")
    place.does("import shop; shop.which.enqueue_many([(n,) for n in range(5)])")
    place.does("import shop; shop.nd.run(once=True, processes=1, tasks_per_process=2)")
    assert sorted(Counter(place.notes()).values()) == [1, 2, 2]
    place.does("import shop; shop.which.enqueue_many([(n,) for n in range(4)])")
    program = place.cli("worker", "shop:nd", "--once", "--processes", "1", "--tasks-per-process", "1")
    assert program.ends(20) == 0, program.text
    assert sorted(Counter(place.notes()).values()) == [1, 1, 1, 1, 1, 2, 2]
    for share in (0, -1, 1.5, True, "3"):
        with pytest.raises(BadDefinition, match="tasks_per_process must be a whole number from 1"):
            Nextdue(place.db).working(tasks_per_process=share)  # type: ignore[arg-type]
    place.checked()


# the worker dies


def test_children_die_with_their_worker_and_their_tasks_are_taken_at_once(place: Place) -> None:
    """F029, F034, law 6: kill -9 of the worker: no child is left, and a neighbour has its tasks within a second."""
    place.script(LONG)
    place.does("import shop; shop.long.enqueue_many([(1,), (2,)])")
    first = place.worker(TWO)
    pids = begun(place, 2)
    second = place.worker(TWO)
    (place.folder / "free").touch()
    first.kill()
    killed = time.monotonic()
    place.noted("end", 2, 5)
    assert time.monotonic() - killed < 2.0, "the back-off of 250 ms and the start of a child included"
    assert all(map(over, pids))
    place.empties()
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'done'") == 2
    assert second.terminate() == 0
    place.checked()


@pytest.mark.beside
def test_a_child_that_can_not_listen_dies_with_its_worker(place: Place) -> None:
    """F034: kill -9 of the worker during an endless call into C in the child: the system ends it all the same."""
    place.script(
        """
@nd.task(run_in="process")
def grips() -> None:
    note("begin", 0, os.getpid())
    sum(range(10**15))
"""
    )
    place.does("import shop; shop.grips.enqueue()")
    program = place.worker(TWO)
    (pid,) = begun(place)
    program.kill()
    try:
        until(lambda: over(pid), 1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_no_task_is_retaken_before_its_child_has_ended(place: Place) -> None:
    """F028, law 6: a child that outlives its dead worker keeps the claim: neighbours wait for its end, then act."""
    place.script(
        """
@nd.task(run_in="process")
def stubborn() -> None:
    import ctypes
    ctypes.CDLL(None).prctl(1, 0)  # not to be killed with its worker
    note("begin", 1, os.getpid())
    if (HERE / "free").exists():
        return
    end = time.monotonic() + 2
    while time.monotonic() < end:
        sum(range(10**6))
    note("left")
    sum(range(2 * 10**8))  # holds the interpreter, so that the end of the connection isn't heard
    time.sleep(5)  # now it is
    note("never")
"""
    )
    place.does("import shop; shop.stubborn.enqueue()")
    first = place.worker(TWO)
    (pid,) = begun(place)
    second = place.worker(TWO)
    (place.folder / "free").touch()
    place.noted("left")
    first.kill()
    killed = time.monotonic()
    while not over(pid):
        assert place.notes() == [f"begin 1 {pid}", "left"]
        time.sleep(0.01)
    assert time.monotonic() - killed > 0.2, "it has outlived its worker"
    ended = time.monotonic()
    place.noted("begin", 2)
    assert time.monotonic() - ended < 2.0
    place.empties()
    assert "never" not in place.notes()
    assert second.terminate() == 0
    place.checked()


def test_a_task_that_kills_its_worker_takes_its_siblings_children_too(place: Place) -> None:
    """F034, F133: any kill at any moment: every task is done in the end, and none runs beside itself."""
    place.script(
        """
@nd.task(run_in="process")
def work_on(n: int) -> None:
    lock = HERE / f"{n}.lock"
    import fcntl
    fd = os.open(lock, os.O_CREAT | os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if this task runs twice at a time
    time.sleep(0.01)
    note("done", n)
"""
    )
    place.does("import shop; shop.work_on.enqueue_many([(n,) for n in range(200)])")
    neighbour = place.worker(TWO)
    for turn in range(4):
        victim = place.worker(TWO)
        place.noted("done", 20 * turn + 5)
        victim.kill()
    place.empties()
    assert {line.split()[1] for line in place.notes()} == {str(n) for n in range(200)}
    assert place.rows("SELECT outcome, count(*) FROM nextdue_runs WHERE outcome NOT IN ('done', 'crashed') GROUP BY 1"
                      ) == []  # fmt: skip
    assert neighbour.terminate() == 0
    place.checked()


def test_a_stopped_worker_is_not_dead(place: Place) -> None:
    """F027: SIGSTOP of the worker for a while: its child goes on, nobody takes the task, one run."""
    place.script(LONG)
    place.does("import shop; shop.long.enqueue(1)")
    first, second = place.worker(TWO), place.worker(TWO)
    (pid,) = begun(place)
    owner = first if pid in children(first.pid) else second
    place.stop_outside_a_commit(owner)
    time.sleep(0.5)
    assert len(place.notes()) == 1
    assert not over(pid)
    owner.send(signal.SIGCONT)
    owner.kill()


@pytest.mark.beside
def test_a_service_s_children_hold_its_lock(place: Place) -> None:
    """Law 6: by nd.working(), as users start a worker: neighbours wait for the end of the children too."""
    place.script(LONG)
    place.does("import shop; shop.long.enqueue(1)")
    program = place.worker("processes=1")
    (pid,) = begun(place)
    number = program.says("ready").split()[1]
    held = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    assert str(place.folder / "shop.db-workers" / number) in held
    program.kill()
    until(lambda: over(pid), 2)


# the child dies


@pytest.mark.beside
def test_a_task_that_kills_its_process_is_tried_and_then_dead(place: Place) -> None:
    """F037, F082: os._exit, a segfault and SIGKILL in the task: three claims, dead, nobody else is touched."""
    place.script(
        """
@nd.task(run_in="process")
def poison(way: str) -> None:
    note("begin", way, os.getpid())
    if way == "exit": os._exit(1)
    if way == "kill": os.kill(os.getpid(), 9)
    import ctypes
    ctypes.string_at(0)

@nd.task(run_in="process")
def good(n: int) -> None:
    note("good", n)
"""
    )
    place.does(
        "import shop; [shop.poison.enqueue(way) for way in ('exit', 'kill', 'segfault')]\n"
        "shop.good.enqueue_many([(n,) for n in range(50)])"
    )
    program = place.worker(TWO)
    until(lambda: place.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'dead'") == 3, 30)
    assert sorted(n for n in place.notes() if n.startswith("good")) == sorted(f"good {n}" for n in range(50))
    assert sorted(line.split()[1] for line in place.notes() if line.startswith("begin")) == sorted(
        ["exit", "kill", "segfault"] * 3
    )
    told = dict(place.rows("SELECT args, message FROM nextdue_tasks WHERE state = 'dead'"))
    assert "exited with code 1" in told['["exit"]']
    assert "SIGKILL" in told['["kill"]']
    assert "SIGSEGV" in told['["segfault"]']
    assert place.one("SELECT sum(attempts) FROM nextdue_tasks") == 0
    assert program.alive()
    assert program.terminate() == 0
    assert len(place.rows("SELECT 1 FROM nextdue_runs WHERE outcome = 'done'")) == 50
    place.checked()


@pytest.mark.parametrize("body", ["while True: pass", "sum(range(10**15))"])
def test_a_time_limit_frees_the_slot_and_its_cpu(place: Place, body: str) -> None:
    """F028: failed at its limit and really over; the retry and everybody else go on."""
    place.script(
        f"""
@nd.task(run_in="process", time_limit=0.5, retry=Retry(base=0.1, jitter=0, limit=2))
def endless() -> None:
    note("begin", 0, os.getpid())
    {body}

@nd.task(run_in="process")
def good() -> None:
    note("good")
"""
    )
    place.does("import shop; shop.endless.enqueue()")
    program = place.worker("processes=1")
    first = begun(place)[0]
    place.does("import shop; shop.good.enqueue()")
    place.noted("good")
    assert over(first)
    until(lambda: place.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'dead'") == 1)
    assert all(map(over, begun(place, 2)))
    assert place.rows("SELECT reason, attempts FROM nextdue_tasks WHERE name = 'endless'") == [("time_limit", 2)]
    assert program.terminate() == 0
    place.checked()


def test_a_lease_is_kept_while_a_task_holds_its_interpreter(place: Place) -> None:
    """F024, law 7: lease 1 s, 3 s in a call into C that never lets go: one run, where a thread would make two."""
    place.script(
        """
@nd.task(run_in="process", lease=1)
def grips() -> None:
    note("begin", 0, os.getpid())
    end = time.monotonic() + 3
    while time.monotonic() < end:
        sum(range(5 * 10**7))
"""
    )
    place.does("import shop; shop.grips.enqueue()")
    programs = [place.worker(TWO) for _ in range(2)]
    place.empties()
    assert len(place.notes()) == 1
    assert place.rows("SELECT outcome FROM nextdue_runs") == [("done",)]
    assert [p.terminate() for p in programs] == [0, 0]
    place.checked()


# stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_lets_running_tasks_end(place: Place, number: signal.Signals) -> None:
    """F077, law 9: a signal to the worker, and both to every child: the task ends well, the worker with 0."""
    place.script(
        """
import subprocess
@nd.task(run_in="process")
def long(n: int) -> None:
    note("begin", n, os.getpid())
    time.sleep(1)
    # What a task starts ends by these signals as usual.
    other = subprocess.Popen(["sleep", "60"])
    other.terminate()
    note("end", n, other.wait())
"""
    )
    place.does("import shop; shop.long.enqueue(1)")
    program = place.worker(TWO)
    (pid,) = begun(place)
    for other in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, other)
    program.send(number)
    assert program.ends(10) == 0, program.text
    assert place.notes()[1:] == ["end 1 -15"]
    assert over(pid)
    assert place.rows("SELECT outcome FROM nextdue_runs") == [("done",)]
    assert "Traceback" not in program.text


def test_children_that_are_just_starting_survive_the_signals_of_a_stop(place: Place) -> None:
    """F077: Ctrl-C reaches whole groups; a child that can't handle it yet isn't ended by it, and no task fails."""
    place.script(LONG.replace("60", "0.05"))
    place.does("import shop; shop.long.enqueue_many([(n,) for n in range(6)])")
    program = place.worker(TWO)
    until(lambda: children(program.pid))
    for pid in children(program.pid):
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
    place.empties()
    assert place.rows("SELECT DISTINCT outcome FROM nextdue_runs") == [("done",)]
    assert program.terminate() == 0


def test_after_the_grace_they_are_killed_before_others_may_run_them(place: Place) -> None:
    """F077, law 9: given back uncharged, and over before a neighbour begins."""
    place.script(
        """
@nd.task(run_in="process")
def long(n: int) -> None:
    note("begin", n, os.getpid())
    try:
        while not (HERE / "free").exists():
            note("alive", os.getpid())
            time.sleep(0.001)
    except BaseException:
        note("raised")
"""
    )
    place.does("import shop; shop.long.enqueue(1)")
    first = place.worker("processes=2, grace=0.3")
    (pid,) = begun(place)
    second = place.worker(TWO)
    sent = time.monotonic()
    assert first.terminate() == 0
    assert 0.3 <= time.monotonic() - sent < 3
    place.noted("begin", 2)
    assert over(pid)
    notes = [line for line in place.notes() if line.startswith(("begin", "alive"))]
    turn = next(at for at, line in enumerate(notes) if line.startswith("begin") and at > 0)
    assert f"alive {pid}" not in notes[turn:]
    (place.folder / "free").touch()
    place.empties()
    assert place.rows("SELECT outcome FROM nextdue_runs ORDER BY ended_ms") == [("released",), ("done",)]
    assert second.terminate() == 0
    place.checked()
