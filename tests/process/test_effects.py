"""Steps, waits and chains under real workers: kill -9 in their middle, a worker that was stopped past its lease."""

import signal
import time
from collections import Counter
from functools import partial

import pytest

from tests.process.harness import Place, until

KINDS = ["thread", "loop", "process"]
WORKER = {"thread": "4", "loop": "4", "process": "processes=2"}
SLOTS = {"thread": 4, "loop": 40, "process": 2}

STEPS = """
TASKS, LABELS = 40, ("a", "b", "c")

def send(n, label):
    note("effect", n, label)
    time.sleep(0.004)  # between the effect and its mark
    return label

async def asend(n, label):
    return send(n, label)

def work(ctx: Context, n: int) -> list[str]:
    return [ctx.step(label, send, n, label, in_doubt=DOUBT) for label in LABELS]

async def awork(ctx: Context, n: int) -> list[str]:
    return [await ctx.step(label, asend, n, label, in_doubt=DOUBT) for label in LABELS]

RUN_IN, DOUBT = {how}
fn = awork if RUN_IN == "loop" else work
task = nd.task(name="work", run_in=RUN_IN, keep_result=True)(fn)
globals()[fn.__name__] = task
"""


def effects(place: Place) -> Counter[str]:
    return Counter(line for line in place.notes() if line.startswith("effect"))


@pytest.mark.beside
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_doubt", ["repeat", "skip", "hold"])
def test_a_worker_killed_in_the_middle_of_steps(place: Place, kind: str, in_doubt: str) -> None:
    """Law 14: an effect is never lost (repeat) or never doubled (skip, hold), and who is in doubt says so."""
    place.script(STEPS.format(how=(kind, in_doubt)))
    place.does("import shop; shop.task.enqueue_many([(n,) for n in range(shop.TASKS)])")
    for wanted in (10, 50):  # a third death in the same task would be the task's own
        worker = place.worker(WORKER[kind])
        until(partial(lambda least: sum(effects(place).values()) >= least or place.left() == 0, wanted))
        worker.kill()
    last = place.worker(WORKER[kind])
    place.empties(60)
    assert last.terminate() == 0
    found = effects(place)
    states = Counter(dict(place.rows("SELECT outcome, count(*) FROM nextdue_runs GROUP BY outcome")))
    held = place.rows("SELECT id, reason, message FROM nextdue_tasks WHERE state = 'held'")
    assert states["done"] + len(held) == 40
    assert sum(found.values()) > 0
    if in_doubt == "repeat":
        assert len(found) == 120
        assert held == []
        assert sum(found.values()) - 120 <= 2 * SLOTS[kind]
    else:
        assert set(found.values()) == {1}
    if in_doubt == "hold":
        assert all(reason == "in_doubt" and " was begun" in message for _, reason, message in held)
        doubts = place.rows("SELECT task FROM nextdue_mark WHERE done IS NULL ORDER BY task")
        assert doubts == [(id,) for id, _, _ in held]
        assert 40 - len(held) <= sum(found.values()) // 3
    if in_doubt == "skip":
        assert held == []
    marks = place.one("SELECT count(*) FROM nextdue_mark WHERE task NOT IN (SELECT id FROM nextdue_task)")
    assert marks == 0
    place.checked()


STOPPED = """
def send():
    note("effect", os.getpid())
    until(lambda: (HERE / f"free{os.getpid()}").exists())
    return os.getpid()

@nd.task(lease=1, keep_result=True)
def work(ctx: Context) -> int:
    try:
        return ctx.step("mail", send, in_doubt="%s") or 0
    except LeaseLost:
        note("lost", os.getpid())
        raise
"""


@pytest.mark.beside
@pytest.mark.parametrize(("in_doubt", "times"), [("repeat", 2), ("skip", 1), ("hold", 1)])
def test_a_worker_stopped_past_its_lease_in_a_step(place: Place, in_doubt: str, times: int) -> None:
    """F027, law 5: the late end of its step is refused, and changes neither mark nor task."""
    place.script(STOPPED % in_doubt)
    place.does("import shop; shop.work.enqueue()")
    first = place.worker()
    place.noted("effect", 1)
    place.stop_outside_a_commit(first)
    second = place.worker()
    if in_doubt == "repeat":
        place.noted("effect", 2)
    else:
        until(lambda: place.left() == 0, 20, "the end of the second one")
    before = place.rows("SELECT * FROM nextdue_mark")
    (place.folder / f"free{first.pid}").touch()
    first.send(signal.SIGCONT)
    place.noted(f"lost {first.pid}")
    assert place.rows("SELECT * FROM nextdue_mark") == before
    (place.folder / f"free{second.pid}").touch()
    place.empties()
    assert sum(effects(place).values()) == times
    done = place.rows("SELECT result FROM nextdue_runs WHERE outcome = 'done'")
    assert done == {"repeat": [(str(second.pid),)], "skip": [("0",)], "hold": []}[in_doubt]
    if in_doubt == "hold":
        assert place.rows("SELECT state, reason FROM nextdue_tasks") == [("held", "in_doubt")]
    assert first.terminate() == 0
    assert second.terminate() == 0
    place.checked()


CHAIN = """
@nd.task(queue="a", run_in="{kind}", keep_result=True)
def parent(ctx: Context, finishes: bool) -> int:
    if finishes:
        with ctx.finish(result=5):
            note("parent", time.time())
    note("parent", time.time())
    return 5

@nd.task(queue="b")
def child(ctx: Context) -> None:
    note("child", time.time(), ctx.results)

@nd.task(queue="b")
def waits(ctx: Context) -> None:
    note("came", time.time(), ctx.wait_for("go", "1h"))

@nd.task(queue="b")
def never(ctx: Context) -> None:
    note("child", time.time(), "was to be cancelled")
"""


def at(place: Place, word: str) -> float:
    return float(next(line.split()[1] for line in place.notes() if line.startswith(word)))


@pytest.mark.parametrize("kind", ["thread", "process"])
@pytest.mark.parametrize("finishes", [True, False])
def test_the_worker_that_serves_the_child_is_rung(place: Place, kind: str, finishes: bool) -> None:
    """Law 12: by the end of the parent, in whatever process that is; nobody polls."""
    place.script(CHAIN.format(kind=kind))
    options = "processes=1, " if kind == "process" else ""
    first, second = place.worker(options + "queues=['a']"), place.worker("queues=['b']")
    place.does(f"import shop; shop.child.using(after=shop.parent.using(delay=0.3).enqueue({finishes})).enqueue()")
    place.noted("child")
    assert at(place, "child") - at(place, "parent") < 1
    assert next(line for line in place.notes() if line.startswith("child")).endswith("[5]")
    assert first.terminate() == second.terminate() == 0
    place.checked()


def test_a_cancelled_parent_s_child_is_cancelled_at_once_by_the_one_who_serves_it(place: Place) -> None:
    place.script(CHAIN.format(kind="thread"))
    second = place.worker("queues=['b']")
    place.does(
        "import shop\n"
        "p = shop.parent.using(delay='1h').enqueue(False)\n"
        "shop.never.using(after=p, if_dead='cancel').enqueue()\n"
        "time = __import__('time'); time.sleep(0.2)\n"
        "p.cancel()\n"
    )
    outcome = "SELECT name, outcome FROM nextdue_runs ORDER BY name"
    until(lambda: len(place.rows(outcome)) == 2, 3, "the cancellation of the child")
    assert place.rows(outcome) == [("never", "cancelled"), ("parent", "cancelled")]
    assert second.terminate() == 0
    place.checked()


def test_an_event_of_another_program_wakes_a_worker_that_sleeps(place: Place) -> None:
    place.script(CHAIN.format(kind="thread"))
    worker = place.worker("queues=['b']")
    place.does("import shop; shop.waits.enqueue_many([()] * 20)")
    until(lambda: place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'snoozed'") == 20)
    sent = time.time()
    place.does("import shop; shop.nd.send('go', 5)")
    place.noted("came", 20, 5)
    assert all(line.endswith(" 5") for line in place.notes())
    assert at(place, "came") > sent
    assert worker.terminate() == 0
    place.checked()


@pytest.mark.beside
def test_a_replaced_waiter_is_started_by_the_put(place: Place) -> None:
    """It waits for nothing any more, and the worker hears of it."""
    place.script(CHAIN.format(kind="thread"))
    worker = place.worker("queues=['b']")
    place.does("import shop; shop.waits.using(key='k').enqueue()")
    until(lambda: place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'snoozed'") == 1)
    place.does("import shop; shop.waits.using(key='k', on_conflict='replace').enqueue()")
    until(lambda: place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'snoozed'") == 2, 5)
    assert worker.terminate() == 0
    place.checked()


SLEEPER = """
@nd.task
def sleeper(ctx: Context) -> None:
    ctx.step("first", note, "first", time.time())
    ctx.sleep("a while", 1.5)
    note("second", time.time())
"""


def test_a_sleep_outlives_kill_9(place: Place) -> None:
    place.script(SLEEPER)
    first = place.worker()
    place.does("import shop; shop.sleeper.enqueue()")
    until(lambda: place.rows("SELECT 1 FROM nextdue_runs WHERE outcome = 'snoozed'"))
    first.kill()
    second = place.worker()
    place.noted("second")
    assert 1.5 <= at(place, "second") - at(place, "first") < 4
    assert len(place.notes()) == 2
    place.empties()
    assert second.terminate() == 0
    assert place.rows("SELECT outcome FROM nextdue_runs ORDER BY ended_ms") == [("snoozed",), ("done",)]
    place.checked()


def test_a_worker_is_stopped_while_its_tasks_rest(place: Place) -> None:
    """Law 9: they are nobody's, so that there is nothing to wait for, nor to give back."""
    place.script(CHAIN.format(kind="thread"))
    worker = place.worker()
    place.does("import shop; shop.waits.enqueue_many([()] * 50)")
    until(lambda: place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'snoozed'") == 50)
    began = time.monotonic()
    assert worker.terminate() == 0
    assert time.monotonic() - began < 5
    assert place.rows("SELECT DISTINCT outcome FROM nextdue_runs") == [("snoozed",)]
    place.checked()


KEYED = """
@nd.task(retry=Retry(base=0, jitter=0, limit=9))
def keyed(ctx: Context) -> None:
    note("key", ctx.id, ctx.idempotency_key("mail"))
    if not (HERE / "free").exists():
        raise Snooze(0.2 if not (HERE / "held").exists() else 3600)
"""


@pytest.mark.beside
def test_an_idempotency_key_outlives_a_restore_and_is_not_issued_again(place: Place) -> None:
    """F103: a restored file issues ids again that others know; their keys are others."""
    place.script(KEYED)
    place.does("import shop; shop.keyed.enqueue()")
    worker = place.worker()
    place.noted("key", 2)
    (place.folder / "held").touch()
    assert worker.terminate() == 0
    assert place.cli("backup", "shop.db", "b.db").ends() == 0
    (place.folder / "free").touch()
    run = "import shop; shop.keyed.enqueue(); shop.nd.run(once=True)"
    place.does(run)
    (place.folder / "free").unlink()
    known = {line.split()[1]: line.split()[2] for line in place.notes()}
    assert sorted(known) == ["1", "2"]
    for words in (("restore", "b.db", "shop.db"), ("release", "shop.db")):
        program = place.cli(*words)
        assert program.ends() == 0, program.text
    (place.folder / "free").touch()
    place.does("import shop; [handle.run_now() for handle in shop.nd.find()]")
    place.does(run)
    later: dict[str, set[str]] = {}
    for line in place.notes():
        later.setdefault(line.split()[1], set()).add(line.split()[2])
    assert later["1"] == {known["1"]}
    assert len(later["2"]) == 2  # the second task of this number is another one
    place.checked()
