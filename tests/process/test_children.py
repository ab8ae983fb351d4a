"""Tasks in child processes, under real workers, signals and deaths."""

import contextlib
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from nextdue import BadDefinition, Nextdue
from tests.docs.pages import TOP, blocks
from tests.process.harness import Place, Program, children, cpu_s, over, switches, until

WORK = """
def work(size=2, grace_ms=20_000, once=False, said=()):
    import random, signal
    from nextdue.executors.process import ProcessExecutor
    from nextdue.sqlite.alarm import make_alarm
    from nextdue.worker import Worker, run

    store = nd.open_store()
    executor = ProcessExecutor(size, nd.definitions, lambda: alarm.call(), keep_open=store.lives.descriptors)
    worker = Worker(store, executor, {name: d.options for name, d in nd.definitions.items()}, slots={"thread": size},
                    random=random.random, grace_ms=grace_ms, once=once)
    alarm = make_alarm(nd.path, store.quiet, store.database.check_file)

    def stop(number, frame):
        worker.stop()
        alarm.call()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print("ready", worker.id, flush=True)
    run(worker, alarm)
    worker.close()
    alarm.close()
    print("worked", dict(worker.totals), flush=True)
"""
LONG = """
@nd.task
def long(n: int) -> None:
    note("begin", n, os.getpid())
    if not (HERE / "free").exists():
        time.sleep(60)
    note("end", n, os.getpid())
"""


def worker(place: Place, options: str = "") -> Program:
    program = place.python(f"import shop; shop.work({options})")
    program.says("ready")
    return program


def begun(place: Place, times: int = 1) -> list[int]:
    """The pids of the children whose tasks have begun."""
    place.noted("begin", times)
    return [int(line.split()[2]) for line in place.notes() if line.startswith("begin")]


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
    place.script(WORK + LONG)
    place.does("import shop; shop.long.enqueue_many([(1,), (2,)])")
    first = worker(place)
    pids = begun(place, 2)
    second = worker(place)
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


def test_a_child_that_can_not_listen_dies_with_its_worker(place: Place) -> None:
    """F034: kill -9 of the worker during an endless call into C in the child: the system ends it all the same."""
    place.script(
        WORK
        + """
@nd.task
def grips() -> None:
    note("begin", 0, os.getpid())
    sum(range(10**15))
"""
    )
    place.does("import shop; shop.grips.enqueue()")
    program = worker(place)
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
        WORK
        + """
@nd.task
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
    note("never")
"""
    )
    place.does("import shop; shop.stubborn.enqueue()")
    first = worker(place)
    (pid,) = begun(place)
    second = worker(place)
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
        WORK
        + """
@nd.task
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
    neighbour = worker(place)
    for turn in range(4):
        victim = worker(place)
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
    place.script(WORK + LONG)
    place.does("import shop; shop.long.enqueue(1)")
    first, second = worker(place), worker(place)
    (pid,) = begun(place)
    owner = first if pid in children(first.pid) else second
    place.stop_outside_a_commit(owner)
    time.sleep(0.5)
    assert len(place.notes()) == 1
    assert not over(pid)
    owner.send(signal.SIGCONT)
    owner.kill()


# the child dies


def test_a_task_that_kills_its_process_is_tried_and_then_dead(place: Place) -> None:
    """F037, F082: os._exit, a segfault and SIGKILL in the task: three claims, dead, nobody else is touched."""
    place.script(
        WORK
        + """
@nd.task
def poison(way: str) -> None:
    note("begin", way, os.getpid())
    if way == "exit": os._exit(1)
    if way == "kill": os.kill(os.getpid(), 9)
    import ctypes
    ctypes.string_at(0)

@nd.task
def good(n: int) -> None:
    note("good", n)
"""
    )
    place.does(
        "import shop; [shop.poison.enqueue(way) for way in ('exit', 'kill', 'segfault')]\n"
        "shop.good.enqueue_many([(n,) for n in range(50)])"
    )
    program = worker(place)
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
        WORK
        + f"""
@nd.task(time_limit=0.5, retry=Retry(base=0.1, jitter=0, limit=2))
def endless() -> None:
    note("begin", 0, os.getpid())
    {body}

@nd.task
def good() -> None:
    note("good")
"""
    )
    place.does("import shop; shop.endless.enqueue()")
    program = worker(place, "1")
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
        WORK
        + """
@nd.task(lease=1)
def grips() -> None:
    note("begin", 0, os.getpid())
    end = time.monotonic() + 3
    while time.monotonic() < end:
        sum(range(5 * 10**7))
"""
    )
    place.does("import shop; shop.grips.enqueue()")
    programs = [worker(place) for _ in range(2)]
    place.empties()
    assert len(place.notes()) == 1
    assert place.rows("SELECT outcome FROM nextdue_runs") == [("done",)]
    assert [p.terminate() for p in programs] == [0, 0]
    place.checked()


# stopping


def test_a_stop_lets_running_tasks_end(place: Place) -> None:
    """F077, law 9: SIGTERM and SIGINT to the worker and to every child: the task ends well, the worker with 0."""
    place.script(
        WORK
        + """
import subprocess
@nd.task
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
    program = worker(place)
    (pid,) = begun(place)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
        program.send(number)
    assert program.ends(10) == 0, program.text
    assert place.notes()[1:] == ["end 1 -15"]
    assert over(pid)
    assert place.rows("SELECT outcome FROM nextdue_runs") == [("done",)]
    assert "Traceback" not in program.text


def test_children_that_are_just_starting_survive_the_signals_of_a_stop(place: Place) -> None:
    """F077: Ctrl-C reaches whole groups; a child that can't handle it yet isn't ended by it, and no task fails."""
    place.script(WORK + LONG.replace("60", "0.05"))
    place.does("import shop; shop.long.enqueue_many([(n,) for n in range(6)])")
    program = worker(place)
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
        WORK
        + """
@nd.task
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
    first = worker(place, "2, grace_ms=300")
    (pid,) = begun(place)
    second = worker(place)
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


# finding the task, and the world it finds


def test_a_script_s_own_tasks_run_without_its_main_part(place: Place) -> None:
    """A task of `__main__`: the child loads the script under another name; argv, path and folder are the script's."""
    place.script(
        WORK
        + """
@nd.task
def own(n: int) -> None:
    note("own", n, __name__, *sys.argv[1:], os.getcwd() == str(HERE))
    if n:
        own.enqueue(n - 1)

if __name__ == "__main__":
    note("main")
    own.enqueue(2)
    work()
"""
    )
    program = place.start("shop.py", "an argument")
    place.noted("own 0")
    place.empties()
    assert program.terminate() == 0
    assert place.notes() == ["main"] + [f"own {n} __nextdue_main__ an argument True" for n in (2, 1, 0)]
    place.checked()


def test_a_module_started_by_name_is_found(place: Place) -> None:
    (place.folder / "pkg").mkdir()
    (place.folder / "pkg" / "__init__.py").write_text("")
    (place.folder / "pkg" / "words.py").write_text("WORD = 'relative'\n")
    place.script(
        WORK
        + """
from .words import WORD
@nd.task
def own() -> None:
    note(WORD, __name__)

if __name__ == "__main__":
    own.enqueue()
    work(once=True)
""",
        "pkg/shop.py",
    )
    program = place.start("-m", "pkg.shop")
    assert program.ends(20) == 0, program.text
    assert (place.folder / "pkg" / "notes").read_text() == "relative __nextdue_main__\n"


@pytest.mark.parametrize("line", ["nd.run()", "nd.working().run()", "nd.working().start()"])
def test_a_script_without_a_guard_does_not_multiply(place: Place, line: str) -> None:
    """A child that imports it would become a worker with children of its own; it is told what to write."""
    place.script(
        WORK
        + f"""
import nextdue.executors.declared as declared
@nd.task
def own() -> None: ...

if declared.in_child():
    {line}
"""
    )
    place.does("import shop; shop.own.enqueue()")
    program = worker(place)
    until(lambda: place.one("SELECT attempts FROM nextdue_tasks") == 1)
    assert 'if __name__ == "__main__"' in place.one("SELECT message FROM nextdue_tasks")
    assert len(children(program.pid)) == 1
    assert children(children(program.pid)[0]) == []
    assert program.terminate() == 0


def test_a_module_may_start_a_worker_when_it_is_imported(place: Place) -> None:
    """nd.start() at the top of a web server's module: in a child it does nothing."""
    place.script(
        WORK
        + """
@nd.task
def own() -> None:
    note("own", threading.active_count(), nd._service)

import nextdue.executors.declared as declared
if declared.in_child():
    nd.start()
"""
    )
    place.does("import shop; shop.own.enqueue()")
    program = worker(place)
    place.noted("own")
    assert place.notes() == ["own 2 None"]
    assert program.terminate() == 0


def test_what_tasks_print_comes_out_where_the_worker_s_output_goes(place: Place) -> None:
    """Each task's output as soon as it ends, although it is no terminal."""
    place.script(
        WORK
        + """
@nd.task
def talk(n: int) -> None:
    print("task", n)
    print("task error", n, file=sys.stderr)
    print("read", repr(sys.stdin.read()))
"""
    )
    place.does("import shop; shop.talk.enqueue_many([(n,) for n in range(3)])")
    program = place.python("import shop; shop.work()", PYTHONUNBUFFERED="")
    for n in range(3):
        program.says(f"task {n}")
        program.says(f"task error {n}")
    program.says("read ''")
    assert program.terminate() == 0


def test_tasks_may_fork_and_start_processes_of_their_own(place: Place) -> None:
    """F054: multiprocessing and subprocess inside a task work; its fork holds none of the worker's locks."""
    place.script(
        WORK
        + """
import multiprocessing, subprocess

def square(n):
    return n * n

@nd.task
def busy(method: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool:
        note(method, *pool.map(square, range(4)))
    other = multiprocessing.get_context(method).Process(target=time.sleep, args=(60,))
    other.start()
    other.terminate()
    other.join()
    note("terminated", method, other.exitcode)

@nd.task
def leaves() -> None:
    if not os.fork():
        os.setsid()
        note("left", os.getpid())
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
"""
    )
    place.does("import shop; shop.busy.enqueue('fork'); shop.busy.enqueue('spawn'); shop.leaves.enqueue()")
    first = worker(place, "3")
    for line in ("fork 0 1 4 9", "spawn 0 1 4 9", "terminated fork -15", "terminated spawn -15", "left"):
        place.noted(line)
    until(lambda: place.left() == 1)
    left = int(next(line for line in place.notes() if line.startswith("left")).split()[1])
    try:
        first.kill()
        worker(place)
        until(lambda: len([n for n in place.notes() if n.startswith("left")]) == 2, 5)
    finally:
        for line in place.notes():
            if line.startswith("left"):
                os.kill(int(line.split()[1]), signal.SIGKILL)
    until(lambda: over(left))


# how much it costs


def test_many_tasks_leave_no_memory_descriptor_or_zombie(place: Place) -> None:
    """F128: 20,000 tasks in some seconds; the worker's and the children's memory is flat after the first thousands."""
    place.script(
        WORK
        + """
@nd.task
def noop(n: int) -> None:
    if n % 1000 == 0:
        note("pid", os.getpid())
"""
    )
    program = worker(place)

    def sizes() -> tuple[int, int]:
        pages = [int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in [program.pid, *children(program.pid)]]
        return sum(pages) * 4 // 1024, len(os.listdir(f"/proc/{program.pid}/fd"))

    def run(count: int) -> float:
        place.does(f"import shop; shop.noop.enqueue_many([(n,) for n in range({count})])")
        begun = time.monotonic()
        until(lambda: place.left() == 0, 60)
        return time.monotonic() - begun

    run(5_000)
    before = sizes()
    took = run(20_000)
    after = sizes()
    assert after[0] - before[0] < 12, f"MB: {before[0]} {after[0]}"
    assert after[1] == before[1]
    assert len(children(program.pid)) == 2
    assert took < 20, "at least 1,000 tasks a second even on a machine that is busy with other things"
    assert program.terminate() == 0
    place.checked()


def test_idle_children_cost_nothing(place: Place) -> None:
    """Law 12, F128: after their work worker and children sleep without a wake-up."""
    place.script(WORK + "@nd.task\ndef noop(n: int) -> None: ...\n")
    program = worker(place)
    place.does("import shop; shop.noop.enqueue_many([(n,) for n in range(100)])")
    place.empties()
    time.sleep(1.2)
    pids = [program.pid, *children(program.pid)]
    before = [(switches(pid), cpu_s(pid)) for pid in pids]
    time.sleep(2)
    assert [(switches(pid), cpu_s(pid)) for pid in pids] == before
    assert program.terminate() == 0


def test_the_page_s_program_does_what_it_says(place: Place) -> None:
    """docs/processes.md: a script with a task of its own, as it is written there."""
    (block,) = (block for block in blocks(TOP / "docs" / "processes.md") if block.language == "py")
    (place.folder / "shop.py").write_text(block.code)
    program = place.start("shop.py")
    assert program.says("thumbnails") == "3 thumbnails, made by a child: True"
    place.empties()
    assert program.terminate() == 0


def test_a_service_s_children_hold_its_lock(place: Place) -> None:
    """Law 6: by nd.working(), as users start a worker: neighbours wait for the end of the children too."""
    place.script(LONG.replace("@nd.task", '@nd.task(run_in="process")'))
    place.does("import shop; shop.long.enqueue(1)")
    program = place.worker("processes=1")
    (pid,) = begun(place)
    number = program.says("ready").split()[1]
    held = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    assert str(place.folder / "shop.db-workers" / number) in held
    program.kill()
    until(lambda: over(pid), 2)
