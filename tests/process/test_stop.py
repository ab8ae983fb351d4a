"""Stopping costs nothing; and what a task raises never ends its worker."""

import signal
import time

import pytest

from tests.process.harness import Place, until

LONG = """
@nd.task(retry=Retry(limit=3))
def long(n: int) -> None:
    note("begin", n, os.getpid())
    time.sleep(60)
"""


@pytest.mark.beside
def test_thirty_stops_charge_no_attempt(place: Place) -> None:
    """F077, law 9: SIGTERM during a long task, thirty times over, with Retry(limit=3): it is alive and unharmed."""
    place.script(
        LONG
        + """
if __name__ == "__main__":
    # All in one process, or thirty starts of Python would be most of this test.
    def begun():
        return (HERE / "notes").read_text().count("begin")

    def stop(turn):
        until(lambda: begun() == turn)
        os.kill(os.getpid(), 15)

    for turn in range(1, 31):
        threading.Thread(target=stop, args=(turn,)).start()
        nd.run(grace=0.05)
        note("stopped")
        view = nd.find()[0].view()
        assert (view.state, view.attempts, view.crashes) == ("waiting", 0, 0), view
    os._exit(0)
"""
    )
    (place.folder / "notes").touch()
    place.does("import shop; shop.long.enqueue(1)")
    program = place.start("shop.py")
    assert program.ends(20) == 0, program.text
    assert place.notes().count("stopped") == 30
    assert place.rows("SELECT outcome, count(*) FROM nextdue_runs GROUP BY outcome") == [("released", 30)]
    place.checked()


def test_a_stop_gives_the_grace_and_then_gives_back(place: Place) -> None:
    """F077, law 9: grace 1 s: what ends within it is done, the rest is due at once, nothing is charged, exit 0."""
    place.script(
        LONG
        + """
@nd.task
def short(n: int) -> None:
    note("short", n)
    time.sleep(0.5)
"""
    )
    place.does("import shop; shop.long.enqueue(1); shop.short.enqueue_many([(n,) for n in range(3)])")
    worker = place.worker("2, grace=1")
    place.noted("begin")
    place.noted("short")
    begun = time.monotonic()
    assert worker.terminate(5) == 0
    assert 0.95 < time.monotonic() - begun < 2
    assert place.rows("SELECT name, state, attempts, crashes, due_ms <= 1000 * unixepoch('now') + 1000"
                      " FROM nextdue_tasks ORDER BY id") == [
        ("long", "waiting", 0, 0, 1),
        ("short", "waiting", 0, 0, 1),
        ("short", "waiting", 0, 0, 1),
    ]  # fmt: skip
    assert place.rows("SELECT name, outcome FROM nextdue_runs ORDER BY ended_ms") == [
        ("short", "done"),
        ("long", "released"),
    ]
    place.checked()


def test_an_idle_worker_stops_at_once(place: Place) -> None:
    """Law 9: SIGTERM and SIGINT end an idle worker at once, with exit code 0."""
    place.script(LONG)
    for number in (signal.SIGTERM, signal.SIGINT):
        worker = place.worker()
        time.sleep(0.05)
        begun = time.monotonic()
        worker.send(number)
        assert worker.ends(5) == 0
        assert time.monotonic() - begun < 0.5
        assert worker.lines[1:] == []


def test_a_second_signal_ends_the_grace(place: Place) -> None:
    """Law 9: grace 20 s, a second SIGINT: given back now, nothing charged."""
    place.script(LONG)
    place.does("import shop; shop.long.enqueue(1)")
    worker = place.worker()
    place.noted("begin")
    begun = time.monotonic()
    worker.send(signal.SIGINT)
    time.sleep(0.2)
    assert worker.alive()
    worker.send(signal.SIGINT)
    assert worker.ends(5) == 0
    assert time.monotonic() - begun < 1.5
    assert place.rows("SELECT state, attempts, crashes FROM nextdue_tasks") == [("waiting", 0, 0)]


@pytest.mark.beside
def test_base_exceptions_are_failures_of_their_task(place: Place) -> None:
    """F076: each one is a counted, recorded failure; the worker and the other tasks go on."""
    place.script("""
import asyncio
class Own(BaseException): ...
KINDS = [SystemExit(0), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Own("mine")]

@nd.task(retry=Retry(base=60, jitter=0, limit=3))
def raises(kind: int) -> None:
    raise KINDS[kind]

@nd.task
def good(n: int) -> None:
    note("good", n)
""")
    place.does("""
import shop
shop.raises.enqueue_many([(n,) for n in range(6)])
shop.good.enqueue_many([(n,) for n in range(6)])
""")
    worker = place.worker("2")
    until(lambda: place.one("SELECT count(*) FROM nextdue_runs") == 12)
    assert worker.alive()
    place.does("import shop; shop.good.enqueue(7)")
    place.noted("good 7")
    assert worker.terminate() == 0
    reasons = ["SystemExit", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "Own"]
    assert place.rows("SELECT state, attempts, crashes, reason FROM nextdue_tasks ORDER BY id") == [
        ("waiting", 1, 0, reason) for reason in reasons
    ]
    assert len(place.notes()) == 7
    place.checked()


HOSTILE = """
class Two(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)
        self.lock = threading.Lock()

class Mute(Exception):
    def __str__(self): raise SystemExit("no text")

class Wrong(Exception):
    def __str__(self): return 5

class Odd(str):
    def __getitem__(self, key): raise ValueError("no slices")
    def __len__(self): raise ValueError("no length")

class Sly(Exception):
    def __str__(self): return Odd("odd text")

class Unpicklable(Exception):
    def __reduce__(self): raise RuntimeError("can't be reduced")
    def __repr__(self): raise RuntimeError("can't be shown")

class Liar(Exception):
    @property
    def __class__(self): raise RuntimeError("no class")

class Meta(type):
    @property
    def __name__(cls): raise RuntimeError("no name")

class Nameless(Exception, metaclass=Meta): ...

KINDS = [
    lambda: Two(1, 2), Mute, Wrong, Sly, Unpicklable, Liar, Nameless,
    lambda: Exception("\\ud800 surrogate"), lambda: Exception("a\\x00b"), lambda: Exception(b"\\xff"),
    lambda: Exception("x" * 50_000_000), lambda: type("N" * 100_000, (Exception,), {})("long name"),
    lambda: UnicodeDecodeError("utf-8", b"\\xff", 0, 1, "odd"),
    lambda: ExceptionGroup("several", [ValueError(1)]),
]

@nd.task(retry=Retry(base=60, jitter=0, limit=3))
def raises(kind: int) -> None:
    raise KINDS[kind]()

@nd.task
def good(n: int) -> None:
    note("good", n)
"""


@pytest.mark.beside
def test_exceptions_that_can_not_be_shown_are_recorded(place: Place) -> None:
    """F083, F084: hostile exceptions, a text of 50 MB: stored bounded and safe, back-off applied, worker alive."""
    place.script(HOSTILE)
    count = int(
        place.does("import shop; print(len(shop.KINDS)); [shop.raises.enqueue(n) for n in range(len(shop.KINDS))]")
    )
    worker = place.worker("4")
    until(
        lambda: place.one("SELECT count(*) FROM nextdue_runs") == count,
        10,
        lambda: f"{place.rows('SELECT id, state, message FROM nextdue_tasks WHERE attempts = 0')}\n{place.said()}",
    )
    place.does("import shop; shop.good.enqueue(1)")
    place.noted("good 1")
    assert worker.terminate() == 0
    rows = place.rows("SELECT state, attempts, length(message), due_ms > created_ms + 59000, reason FROM nextdue_tasks")
    assert len(rows) == count
    for state, attempts, length, backed_off, reason in rows:
        assert (state, attempts, backed_off) == ("waiting", 1, 1)
        assert 1 <= length <= 2300
        assert 1 <= len(reason) <= 200
    messages = [message for (message,) in place.rows("SELECT message FROM nextdue_tasks ORDER BY id")]
    messages = [message.rpartition(" (shop.py:")[0] for message in messages]
    assert messages[0] == "Two: (1, 2)"
    assert messages[7] == r"Exception: \ud800 surrogate"
    assert messages[8] == r"Exception: a\x00b"
    assert "characters" in messages[10]
    assert [line[:300] for line in worker.lines if len(line) >= 3000] == []
    place.checked()


@pytest.mark.beside
@pytest.mark.parametrize("loud", ["print", "logging"])
def test_a_broken_standard_output_does_not_end_the_worker(place: Place, loud: str) -> None:
    """F076: a task's print to a closed pipe fails the task; the worker's own log to it changes nothing."""
    place.script("""
import logging
@nd.task(retry=Retry(limit=1))
def loud(how: str) -> None:
    note("loud", how)
    if how == "print":
        print("x" * 100, flush=True)
    logging.getLogger("shop").warning("x" * 100)
""")
    code = "import shop, logging; logging.basicConfig(); shop.nd.run()"
    reader = place.python(
        "import subprocess, sys, os\n"
        f"p = subprocess.Popen([sys.executable, '-c', {code!r}], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)\n"
        "p.stdout.close()\nprint('pid', p.pid, flush=True)\nprint('code', p.wait(), flush=True)"
    )
    pid = int(reader.says("pid").split()[1])
    place.does(f"import shop; shop.loud.enqueue({loud!r})")
    place.noted("loud")
    place.empties()
    place.does("import shop, os; shop.loud.enqueue('again')")
    place.noted("loud again")
    place.empties()
    place.does(f"import os; os.kill({pid}, 15)")
    assert reader.ends() == 0
    assert "code 0" in reader.text or "code 120" in reader.text  # 120: Python itself could not flush
