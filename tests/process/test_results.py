"""Waiting for results between real processes: soon told, quiet meanwhile, and nothing is left behind."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nextdue import Nextdue, StoreError, StoreGone, TaskFailed
from nextdue.sqlite import waiting
from nextdue.sqlite.alarm import PlainAlarm
from nextdue.sqlite.files import beside
from tests.process.harness import Place, cpu_s, switches, until

SHOP = """
@nd.task(keep_result=True)
def double(n: int, seconds: float = 0) -> int:
    time.sleep(seconds)
    return 2 * n

@nd.task(keep_result=True, retry=Retry(base=0.05, jitter=0, limit=3))
def fails(ctx: Context, times: int) -> int:
    if ctx.attempt <= times:
        raise ValueError("not yet")
    return ctx.attempt

@nd.task(keep_result=True)
def dies_once(ctx: Context) -> int:
    note("began", os.getpid())
    if ctx.crashes == 0:
        time.sleep(60)
    return ctx.crashes
"""


@pytest.fixture
def shop(place: Place) -> Iterator[Nextdue]:
    """The same application in this process, without a worker."""
    place.script(SHOP)
    nd = Nextdue(place.db)

    @nd.task(keep_result=True)
    def double(n: int, seconds: float = 0) -> int:
        return n

    @nd.task(keep_result=True)
    def fails(times: int) -> int:
        return times

    @nd.task(keep_result=True)
    def dies_once() -> int:
        return 0

    nd.find()  # opens the file, which is no part of waiting
    yield nd
    nd.close()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def waiters() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "nextdue-waits"]


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """No thread and no more open files than before, a little after the block.

    Except for one: SQLite keeps a closed descriptor for its next connection while another one has locks.
    """
    before = open_files()
    yield
    until(lambda: not waiters(), 5, "the end of the thread that waits")
    until(lambda: open_files() <= before + 1, 5, lambda: f"{open_files()} open files, {before} before")


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LINGER_MS", 200)


def test_a_result_of_another_process(place: Place, shop: Nextdue) -> None:
    place.worker()
    task = shop.tasks["double"]
    handle = task.enqueue(21, 0.1)
    assert handle.result(10) == 42
    assert handle.result() == 42
    assert [task.enqueue(n).result(10) for n in range(50)] == [2 * n for n in range(50)]


def test_a_worker_logs_the_result_that_it_could_not_keep(place: Place) -> None:
    place.script("@nd.task(keep_result=True)\ndef pair() -> None:\n    return (1, 2)\n")
    place.does("import shop; shop.pair.enqueue()")
    worker = place.worker()
    worker.says("pair #1 done: result: BadArguments: pair: the result is a tuple: JSON would not bring it back")


def test_retries_are_waited_for(place: Place, shop: Nextdue) -> None:
    place.worker()
    assert shop.tasks["fails"].enqueue(2).result(10) == 3
    with pytest.raises(TaskFailed, match="is dead: ValueError: not yet") as caught:
        shop.tasks["fails"].enqueue(3).result(10)
    assert (caught.value.state, caught.value.reason) == ("dead", "ValueError")


def test_a_killed_worker_s_task_is_waited_for(place: Place, shop: Nextdue) -> None:
    first, handle = place.worker(), shop.tasks["dies_once"].enqueue()
    place.noted("began")
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(handle.result(20)))
    thread.start()
    until(waiters)
    first.kill()
    place.worker()
    thread.join(20)
    assert found == [1]


@contextlib.contextmanager
def commits_of_others(place: Place, every_s: float | None) -> Iterator[None]:
    """Somebody else's, in a thread."""
    stop = threading.Event()

    def commit() -> None:
        with contextlib.closing(sqlite3.connect(place.db, timeout=10, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=OFF")
            db.execute("CREATE TABLE theirs(x)")
            while not stop.wait(every_s):
                db.execute("INSERT INTO theirs VALUES (1)")

    if every_s is None:
        yield
        return
    thread = threading.Thread(target=commit)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.mark.parametrize(("commits_s", "limit_ms"), [(None, 2), (0.003, 5)], ids=["quiet", "busy"])
def test_the_end_is_told_soon(place: Place, shop: Nextdue, commits_s: float | None, limit_ms: int) -> None:
    """From the settle, as the worker's hook sees it, to the return in another process: the median of 40."""
    place.script(SHOP)
    worker = place.python(
        "import shop, time\n"
        "def hook(settlements):\n"
        "    now = time.time_ns()\n"
        "    for s in settlements: shop.note(s.id, now)\n"
        "service = shop.nd.working(hook=hook)\n"
        "print('ready', service.open().id, flush=True)\n"
        "service.run()\n"
    )
    worker.says("ready")
    medians: list[float] = []
    with commits_of_others(place, commits_s):
        while not medians or medians[-1] >= limit_ms:
            assert len(medians) < 3, f"medians of {medians} ms; the machine is allowed to be busy twice"
            returned = {}
            for n in range(40):
                handle = shop.tasks["double"].enqueue(n, 0.03)
                handle.result(10)
                returned[handle.id] = time.time_ns()
            until(lambda: len(place.notes()) % 40 == 0)
            settled = {int(id): int(at) for id, at in (line.split() for line in place.notes())}
            medians.append(statistics.median(at - settled[id] for id, at in returned.items()) / 1e6)


def test_waiting_costs_nothing(place: Place) -> None:
    """Law 12 for those who wait: no CPU and next to no switches, threads and coroutines alike."""
    place.script(SHOP)
    waiting = place.python(
        "import shop, asyncio, threading\n"
        "handles = [shop.double.using(delay=3600).enqueue(n) for n in range(50)]\n"
        "for handle in handles: threading.Thread(target=handle.result, daemon=True).start()\n"
        "async def main():\n"
        "    tasks = [asyncio.create_task(handle.aresult()) for handle in handles]\n"
        "    await asyncio.sleep(0.5)\n"
        "    print('waiting', flush=True)\n"
        "    await asyncio.gather(*tasks)\n"
        "asyncio.run(main())\n"
    )
    waiting.says("waiting")
    counted, cpu = switches(waiting.pid), cpu_s(waiting.pid)
    time.sleep(3)
    assert switches(waiting.pid) - counted <= 3
    assert cpu_s(waiting.pid) - cpu <= 0.01


def test_many_threads_share_one_watch(place: Place, shop: Nextdue) -> None:
    place.worker()
    handles = shop.tasks["double"].enqueue_many([(n, 0.002) for n in range(300)])
    found: dict[int, int] = {}

    def wait(n: int) -> None:
        found[n] = handles[n].result(20)

    threads = [threading.Thread(target=wait, args=(n,)) for n in range(300)]
    with nothing_left():
        for thread in threads:
            thread.start()
        assert len(waiters()) <= 1
        for thread in threads:
            thread.join(20)
    assert found == {n: 2 * n for n in range(300)}


def test_where_files_can_not_be_watched(place: Place, shop: Nextdue, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: a look every second, and those who come are seen at once."""
    monkeypatch.setattr(waiting, "make_alarm", lambda path, quiet, check_file, pause_s: PlainAlarm(check_file))
    place.worker()
    task = shop.tasks["double"]
    other = task.using(delay=3600).enqueue(1)
    with nothing_left():
        thread = threading.Thread(target=lambda: other.wait(2.5))
        thread.start()
        begun = time.monotonic()
        assert task.enqueue(4, 0.2).result(10) == 8
        assert time.monotonic() - begun < 2
        done = task.enqueue(5)
        until(lambda: done.state == "done")
        begun = time.monotonic()
        assert shop.caller.waits.ended(done.id, 5) is not None
        assert time.monotonic() - begun < 0.5
        thread.join()


def test_two_may_wait_for_one_task(place: Place, shop: Nextdue) -> None:
    place.worker()
    handle = shop.tasks["double"].enqueue(1, 0.2)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(handle.result(20))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == [2] * 5


def test_coroutines_wait_without_threads_of_their_own(place: Place, shop: Nextdue) -> None:
    place.worker()
    task = shop.tasks["double"]

    async def main() -> list[int]:
        handles = [await task.using(delay=1).aenqueue(n) for n in range(100)]  # so that they are waited for
        waits = [asyncio.ensure_future(handle.aresult(20)) for handle in handles]
        results = await asyncio.gather(*waits)
        assert await handles[0] == 0
        assert len(waiters()) == 1
        return list(results)

    with nothing_left():
        assert asyncio.run(main()) == [2 * n for n in range(100)]


def test_a_coroutine_s_timeout(shop: Nextdue) -> None:
    async def main() -> None:
        handle = await shop.tasks["double"].using(delay=3600).aenqueue(1)
        for timeout in (0, 0.05):
            with pytest.raises(TimeoutError, match="is still waiting, due"):
                await handle.aresult(timeout)
        with pytest.raises(TimeoutError):  # the caller's own
            async with asyncio.timeout(0.05):
                await handle

    with nothing_left():
        asyncio.run(main())


def test_cancelled_coroutines_leave_nothing_behind(shop: Nextdue) -> None:
    async def main() -> None:
        handles = [await shop.tasks["double"].using(delay=3600).aenqueue(n) for n in range(50)]
        waits = [asyncio.create_task(handle.aresult()) for handle in handles]
        await asyncio.sleep(0.1)
        for wait in waits:
            wait.cancel()
        assert all(isinstance(e, asyncio.CancelledError) for e in await asyncio.gather(*waits, return_exceptions=True))
        assert shop.caller.waits._waiters == {}

    with nothing_left():
        asyncio.run(main())


def test_timeouts_leave_nothing_behind(shop: Nextdue) -> None:
    handle = shop.tasks["double"].using(delay=3600).enqueue(1)
    for _ in range(3):
        with nothing_left(), pytest.raises(TimeoutError):
            handle.result(0.05)


def test_a_loop_that_is_gone_harms_nobody(place: Place, shop: Nextdue) -> None:
    """Its coroutine was never awaited to the end; others are told all the same."""
    task = shop.tasks["double"]
    first, second = task.using(delay=0.5).enqueue(1), task.using(delay=0.7).enqueue(2)
    loop = asyncio.new_event_loop()
    lost = loop.create_task(first.aresult())
    loop.run_until_complete(asyncio.sleep(0.2))
    loop.stop()
    loop.close()
    place.worker()
    assert second.result(10) == 4
    lost._log_destroy_pending = False  # type: ignore[attr-defined]
    lost.get_coro().close()


def test_an_interrupted_wait_leaves_nothing_behind(place: Place) -> None:
    """Ctrl-C in result(): KeyboardInterrupt at once, and the program goes on as before."""
    place.script(SHOP)
    program = place.python("""
import shop, signal, threading
def files(): return len(os.listdir("/proc/self/fd"))
import os, time
handle = shop.double.using(delay=3600).enqueue(1)
before = files()
for n in range(3):
    try:
        print("waiting", n, flush=True)
        handle.result()
    except KeyboardInterrupt:
        print("interrupted", n, flush=True)
end = time.monotonic() + 5
while len(threading.enumerate()) > 1 or files() > before + 1:
    if time.monotonic() > end: raise SystemExit(f"{threading.enumerate()} {files()} {before}")
    time.sleep(0.01)
print("clean", flush=True)
""")
    for n in range(3):
        program.says(f"waiting {n}")
        time.sleep(0.1)
        begun = time.monotonic()
        program.send(signal.SIGINT)
        program.says(f"interrupted {n}", 5)
        assert time.monotonic() - begun < 1
    program.says("clean", 10)
    assert program.ends() == 0


def test_a_program_may_end_while_its_threads_wait(place: Place) -> None:
    place.script(SHOP)
    begun = time.monotonic()
    said = place.does(
        "import shop, threading\n"
        "handle = shop.double.using(delay=3600).enqueue(1)\n"
        "threading.Thread(target=handle.result, daemon=True).start()\n"
        "import time; time.sleep(0.2); print('bye')\n"
    )
    assert said == "bye"
    assert time.monotonic() - begun < 10
    said = place.does("import shop; shop.nd.start(); print(shop.double.enqueue(4, 0.2).result(10))")
    assert said == "8"
    assert not beside(place.db, "-wal").exists(), "the last connection was closed"


def test_a_forked_child_waits_for_its_own(place: Place) -> None:
    """F054: the parent's thread and connection are not the child's."""
    place.script(SHOP)
    place.worker()
    said = place.does("""
import os, shop, threading
late = shop.double.using(delay=0.5).enqueue(1)
found = []
thread = threading.Thread(target=lambda: found.append(late.result(20)))
thread.start()
import time; time.sleep(0.1)
child = os.fork()
if child == 0:
    begun = time.monotonic()
    ok = shop.double.enqueue(5).result(10) == 10 and late.result(10) == 2
    os._exit(0 if ok and time.monotonic() - begun < 5 else 1)
_, status = os.waitpid(child, 0)
thread.join()
print(os.waitstatus_to_exitcode(status), found)
""")
    assert said.splitlines()[-1] == "0 [2]"
    place.checked()


def test_closing_the_application_interrupts_nobody_s_wait(place: Place, shop: Nextdue) -> None:
    handle = shop.tasks["double"].using(delay=0.5).enqueue(3)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(handle.result(20)))
    thread.start()
    until(waiters)
    shop.close()
    place.worker()
    thread.join(20)
    assert found == [6]


@pytest.mark.parametrize("end", ["delete", "replace"])
def test_a_file_that_is_gone_is_told_to_those_who_wait(shop: Nextdue, tmp_path: Path, end: str) -> None:
    """F066: never a silent wait for a file that nobody else sees."""
    handle = shop.tasks["double"].using(delay=3600).enqueue(1)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            handle.result(20)
        except StoreError as exc:
            raised.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: shop.caller.waits._alarm is not None)
    time.sleep(0.1)
    begun = time.monotonic()
    if end == "delete":
        shop.path.unlink()
    else:
        (tmp_path / "other").write_bytes(b"")
        os.replace(tmp_path / "other", shop.path)
    thread.join(10)
    assert time.monotonic() - begun < 2
    assert [type(exc) for exc in raised] == [StoreGone]
    assert not waiters()


@pytest.mark.parametrize("missing", ["files", "threads"])
def test_what_the_system_refuses_is_told_to_those_who_wait(
    shop: Nextdue, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Not a wait for ever in front of a thread that isn't there."""
    handle = shop.tasks["double"].using(delay=3600).enqueue(1)

    def refuse(*args: object) -> None:
        raise OSError(24, "Too many open files") if missing == "files" else RuntimeError("can't start new thread")

    if missing == "files":
        monkeypatch.setattr("nextdue.sqlite.linux.Inotify", refuse)
    else:
        monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(StoreError, match="fs.inotify" if missing == "files" else "no thread could be started"):
        handle.result(20)
    monkeypatch.undo()
    with pytest.raises(TimeoutError):
        handle.result(0.05)


def test_who_comes_while_others_wait_is_seen(place: Place, shop: Nextdue) -> None:
    """A task that ended before the watch heard of its waiter, without any commit after that."""
    other = shop.tasks["double"].using(delay=3600).enqueue(1)
    thread = threading.Thread(target=lambda: other.wait(1.5))
    thread.start()
    until(lambda: shop.caller.waits._alarm is not None)
    worker = place.worker()
    handle = shop.tasks["double"].enqueue(2)
    until(lambda: handle.state == "done")
    assert worker.terminate() == 0
    begun = time.monotonic()
    # Past the first look of result(), as if the task had ended just after it.
    found = shop.caller.waits.ended(handle.id, 5)
    assert found is not None
    assert found.result == "4"
    assert time.monotonic() - begun < 1
    thread.join()
