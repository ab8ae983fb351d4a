"""os.fork: connections, locks and workers are the process's own."""

import time

import pytest

from tests.process.harness import Place, until

SHOP = """
@nd.task
def work(n: int) -> None:
    note("work", n, os.getpid())
"""


def test_parent_and_child_put_at_the_same_time(place: Place) -> None:
    """F054: an open file, os.fork(), 1,000 tasks put by each: 2,000 rows."""
    place.script(
        SHOP
        + """
if __name__ == "__main__":
    work.enqueue(-1)
    child = os.fork()
    for n in range(1000):
        work.enqueue(n)
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    )
    program = place.start("shop.py")
    assert program.ends(30) == 0, program.text
    assert place.one("SELECT count(*) FROM nextdue_tasks") == 2001
    place.checked()


@pytest.mark.parametrize("before", [0, 1])
def test_a_child_outlives_its_parent_s_connection(place: Place, before: int) -> None:
    """F054, law 1: a daemon whose parent had the file open and closes it goes on putting beside other programs.

    Without locks of its own the child writes a WAL that was deleted, others a new one: rows vanish, the file breaks.
    """
    place.script(
        SHOP
        + f"""
if __name__ == "__main__":
    work.enqueue(-1)
    if os.fork():
        until(lambda: (HERE / "notes").exists())
        nd.close()      # the last connection that the system would know of
        note("closed")
        os._exit(0)
    for n in range({before}):
        work.enqueue(n)
    note("forked")
    until(lambda: "closed" in (HERE / "notes").read_text())
    import subprocess
    other = subprocess.Popen([sys.executable, "-c", "import shop; [shop.work.enqueue(n) for n in range(100)]"])
    for n in range(200):
        work.enqueue(n)
    assert other.wait() == 0
    print("all put", flush=True)
"""
    )
    program = place.start("shop.py")
    program.says("all put", 10)
    assert place.one("SELECT count(*) FROM nextdue_tasks") == 301 + before
    place.checked()


def test_a_child_that_could_not_take_over_the_locks_refuses(place: Place) -> None:
    """F054, law 1: better an error than a file with two writers that don't see each other."""
    place.script(
        SHOP
        + """
if __name__ == "__main__":
    from nextdue.sqlite import forks
    forks._take_over = lambda path, then: False
    work.enqueue(-1)
    child = os.fork()
    if not child:
        try:
            work.enqueue(0)
        except StoreGone:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    work.enqueue(1)
"""
    )
    program = place.start("shop.py")
    assert program.ends() == 0, program.text
    assert place.one("SELECT count(*) FROM nextdue_tasks") == 2


def test_a_fork_waits_for_the_statements_of_other_threads(place: Place) -> None:
    """F054: forking while a worker's thread is busy in SQLite leaves no mutex locked in the child for ever."""
    place.script("""
@nd.task
def work(n: int) -> None: ...

if __name__ == "__main__":
    import signal
    work.enqueue_many([(n,) for n in range(20_000)])
    store = nd.open_store()
    def look():
        while True:
            store.quiet()       # as a worker does before each sleep
    threading.Thread(target=look, daemon=True).start()
    with nd.working():
        for turn in range(40):
            child = os.fork()
            if not child:
                signal.alarm(4)     # a child that hangs or finds the lock taken is killed: its code isn't 0
                work.enqueue(turn)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, turn
    os._exit(0)
""")
    program = place.start("shop.py")
    assert program.ends(40) == 0, program.text
    place.checked()


def test_a_child_s_rows_survive_another_process_s_visit(place: Place) -> None:
    """F054, F055: the parent is killed, somebody opens and closes the file, the child goes on: nothing vanishes."""
    place.script(
        SHOP
        + """
if __name__ == "__main__":
    work.enqueue(-1)
    if os.fork():
        until(lambda: (HERE / "notes").exists())
        os._exit(0)
    work.enqueue(0)
    note("put")
    until(lambda: (HERE / "visited").exists())
    for n in range(1, 100):
        try:
            work.enqueue(n)
        except StoreGone as gone:
            note("refused", n)
        else:
            note("accepted", n)
    print("all put", flush=True)
"""
    )
    program = place.start("shop.py")
    assert program.ends(10) == 0  # the parent
    assert place.one("SELECT count(*) FROM nextdue_tasks") == 2
    (place.folder / "visited").touch()
    program.says("all put", 5)
    accepted = sum(line.startswith("accepted") for line in place.notes())
    assert accepted == 99, place.notes()[-3:]
    assert place.one("SELECT count(*) FROM nextdue_tasks") == 101
    place.checked()


def test_preloaded_children_each_work(place: Place) -> None:
    """F049, F054: as gunicorn --preload does: the app used in the parent, and a worker in each of 4 children."""
    place.script(
        SHOP
        + """
if __name__ == "__main__":
    work.enqueue(-1)
    nd.start()           # even the parent works, and forks while it does
    until(lambda: (HERE / "notes").exists())
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            nd.start(concurrency=2)
            nd.start()   # again: nothing happens
            note("started", os.getpid())
            for n in range(50):
                work.enqueue(n)
            until(lambda: not nd.find(state="waiting") and not nd.find(state="running"))
            until(lambda: (HERE / "stop").exists())
            nd.stop()
            note("stopped", os.getpid())
            os._exit(0)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    nd.stop()
    assert codes == [0, 0, 0, 0], codes
"""
    )
    program = place.start("shop.py")
    place.noted("started", 4)
    until(lambda: len(place.notes()) == 4 + 201, 20, place.said)
    place.empties()
    workers = {line.split()[2] for line in place.notes() if line.startswith("work")}
    assert len(workers) > 1, "the children shared the work"
    (place.folder / "stop").touch()
    assert program.ends(20) == 0, program.text
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'done'") == 201
    assert place.one("SELECT count(*) FROM nextdue_runs") == 201
    assert list((place.folder / "shop.db-workers").iterdir()) == []
    place.checked()


def test_a_forked_child_does_not_keep_a_dead_worker_alive(place: Place) -> None:
    """F032, law 6: neither a child forked by a task nor a program that it started holds its worker's lock."""
    place.script("""
import subprocess
@nd.task
def forks(n: int) -> None:
    note("begin", os.getpid())
    if len((HERE / "notes").read_text().splitlines()) > 1:
        note("end", os.getpid())
        return
    subprocess.Popen(["sleep", "60"])
    if not os.fork():
        note("child", os.getpid())
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
""")
    place.does("import shop; shop.forks.enqueue(1)")
    first = place.worker()
    place.noted("child")
    second = place.worker()
    killed = time.monotonic()
    first.kill()
    place.noted(f"end {second.pid}", 1, 5)
    assert time.monotonic() - killed < 1.0
    place.empties()
    assert second.terminate() == 0
    place.checked()
