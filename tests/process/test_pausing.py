"""A pause holds in every process at once and outlives them all."""

import time

from tests.process.harness import switches, until

SHOP = """
@nd.task(queue="mail")
def letter(n: int) -> None:
    note("letter", n)
    time.sleep(0.005)

@nd.task
def receipt(n: int) -> None:
    note("receipt", n)
"""
TASKS = 1_500


def started(place, word="letter"):
    return sum(line.startswith(word) for line in place.notes())


def test_workers_at_work_stop_at_once_and_go_on_where_they_were(place):
    place.script(SHOP)
    workers = [place.worker("2"), place.worker("2")]
    place.does(f"import shop; shop.letter.enqueue_many([(n,) for n in range({TASKS})])")
    until(lambda: started(place) > 100)
    assert place.cli("pause", "shop.db", "--queue", "mail").ends() == 0
    until(lambda: not place.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'running'"))
    before = started(place)
    assert before < TASKS
    place.does("import shop; shop.letter.enqueue(-1); shop.receipt.enqueue(1)")
    place.noted("receipt 1")  # the others go on
    quiet = [switches(worker.pid) for worker in workers]
    time.sleep(0.5)
    assert started(place) == before
    assert [switches(worker.pid) - then < 20 for worker, then in zip(workers, quiet, strict=True)] == [True, True]
    workers.pop().kill()
    workers.append(place.worker("2"))  # one that starts while it is paused
    time.sleep(0.2)
    assert started(place) == before
    assert place.cli("resume", "shop.db", "--all").ends() == 0
    place.empties()
    assert sorted(place.notes()) == sorted(["receipt 1", *(f"letter {n}" for n in range(-1, TASKS))])
    place.checked()


def test_a_resumed_task_wakes_an_idle_worker(place):
    place.script(SHOP)
    place.does("import shop; shop.letter.enqueue(1); shop.nd.get(1).pause(); shop.nd.pause(name='receipt')")
    place.does("import shop; shop.receipt.enqueue(2)")
    place.worker()
    time.sleep(0.3)
    assert place.notes() == []
    begun = time.monotonic()
    place.cli("resume", "shop.db", "1")
    place.noted("letter 1")
    place.cli("resume", "shop.db", "--name", "receipt")
    place.noted("receipt 2")
    assert time.monotonic() - begun < 10
