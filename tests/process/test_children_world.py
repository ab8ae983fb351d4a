"""What a task finds in a child process, what it may do there, and what children cost."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.docs.pages import TOP, blocks
from tests.process.harness import Place, children, cpu_s, over, switches, until

TWO = "processes=2"


# finding the task, and the world it finds


def test_a_script_s_own_tasks_run_without_its_main_part(place: Place) -> None:
    """A task of `__main__`: the child loads the script under another name; argv, path and folder are the script's."""
    place.script(
        """
@nd.task(run_in="process")
def own(n: int) -> None:
    note("own", n, __name__, *sys.argv[1:], os.getcwd() == str(HERE))
    if n:
        own.enqueue(n - 1)

if __name__ == "__main__":
    note("main")
    own.enqueue(2)
    nd.run(processes=2)
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
        """
from .words import WORD
@nd.task(run_in="process")
def own() -> None:
    note(WORD, __name__)

if __name__ == "__main__":
    own.enqueue()
    nd.run(processes=2, once=True)
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
        f"""
import nextdue.executors.declared as declared
@nd.task(run_in="process")
def own() -> None: ...

if declared.in_child():
    {line}
"""
    )
    place.does("import shop; shop.own.enqueue()")
    program = place.worker(TWO)
    until(lambda: place.one("SELECT attempts FROM nextdue_tasks") == 1)
    assert 'if __name__ == "__main__"' in place.one("SELECT message FROM nextdue_tasks")
    assert len(children(program.pid)) == 1
    assert children(children(program.pid)[0]) == []
    assert program.terminate() == 0


def test_a_module_may_start_a_worker_when_it_is_imported(place: Place) -> None:
    """nd.start() at the top of a web server's module: in a child it does nothing."""
    place.script(
        """
@nd.task(run_in="process")
def own() -> None:
    note("own", threading.active_count(), nd._service)

import nextdue.executors.declared as declared
if declared.in_child():
    nd.start()
"""
    )
    place.does("import shop; shop.own.enqueue()")
    program = place.worker(TWO)
    place.noted("own")
    assert place.notes() == ["own 2 None"]
    assert program.terminate() == 0


def test_what_tasks_print_comes_out_where_the_worker_s_output_goes(place: Place) -> None:
    """Each task's output as soon as it ends, although it is no terminal."""
    place.script(
        """
@nd.task(run_in="process")
def talk(n: int) -> None:
    print("task", n)
    print("task error", n, file=sys.stderr)
    print("read", repr(sys.stdin.read()))
"""
    )
    place.does("import shop; shop.talk.enqueue_many([(n,) for n in range(3)])")
    program = place.python("import shop; shop.nd.run(processes=2)", PYTHONUNBUFFERED="")
    for n in range(3):
        program.says(f"task {n}")
        program.says(f"task error {n}")
    program.says("read ''")
    assert program.terminate() == 0


def test_tasks_may_fork_and_start_processes_of_their_own(place: Place) -> None:
    """F054: multiprocessing and subprocess inside a task work; its fork holds none of the worker's locks."""
    place.script(
        """
import multiprocessing, subprocess

def square(n):
    return n * n

@nd.task(run_in="process")
def busy(method: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool:
        note(method, *pool.map(square, range(4)))
    other = multiprocessing.get_context(method).Process(target=time.sleep, args=(60,))
    other.start()
    other.terminate()
    other.join()
    note("terminated", method, other.exitcode)

@nd.task(run_in="process")
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
    first = place.worker("processes=3")
    for line in ("fork 0 1 4 9", "spawn 0 1 4 9", "terminated fork -15", "terminated spawn -15", "left"):
        place.noted(line)
    until(lambda: place.left() == 1)
    left = int(next(line for line in place.notes() if line.startswith("left")).split()[1])
    try:
        first.kill()
        place.worker(TWO)
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
        """
@nd.task(run_in="process")
def noop(n: int) -> None:
    if n % 1000 == 0:
        note("pid", os.getpid())
"""
    )
    program = place.worker(TWO)

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
    place.script('@nd.task(run_in="process")\ndef noop(n: int) -> None: ...\n')
    program = place.worker(TWO)
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
