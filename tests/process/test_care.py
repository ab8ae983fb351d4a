"""Bulks and health among real processes: nobody waits long, a kill leaves whole rows, a stopped worker shows."""

import json
import signal
import time

from tests.process.harness import Place, until

SHOP = """
@nd.task(retry=Retry(limit=1))
def work(n: int) -> None:
    note("work", n)
    if n < 0:
        raise ValueError("no")

@nd.task(queue="slow")
def rare() -> None: ...
"""
MANY = """
import shop
shop.work.using(delay=3600).enqueue_many([(n,) for n in range({count})])
with shop.nd.caller.use() as store:
    store.database.connection.execute(
        "UPDATE nextdue_task SET due = NULL, rest = 'dead', attempts = 1, reason = 'ValueError'")
"""
PUT = """
import shop
longest, end = 0.0, time.monotonic() + 60
(HERE / "putting").touch()
while not (HERE / "over").exists() and time.monotonic() < end:
    begun = time.monotonic()
    shop.rare.using(delay=3600).enqueue()
    longest = max(longest, time.monotonic() - begun)
    time.sleep(0.001)
print(longest)
""".replace("HERE", "shop.HERE").replace("time.", "shop.time.")


def dead(place: Place) -> int:
    return int(place.one("SELECT count(*) FROM nextdue_task WHERE rest = 'dead'"))


def test_a_bulk_of_100_000_makes_nobody_wait_long(place: Place) -> None:
    """F052: a bulk holds the write lock for a thousand rows at a time."""
    place.script(SHOP)
    place.does(MANY.format(count=100_000))
    writer = place.python(PUT)
    until((place.folder / "putting").exists)
    for verb, left in (("retry", 0), ("cancel", 0)):
        bulk = place.cli(verb, "shop.db", "--name", "work", "--yes")
        assert bulk.ends(60) == 0, bulk.text
        assert "100,000 tasks match" in bulk.text
        assert dead(place) == left
    (place.folder / "over").touch()
    assert writer.ends() == 0, writer.text
    assert float(writer.lines[-1]) < 0.5
    assert place.one("SELECT count(*) FROM nextdue_task WHERE name = 'work'") == 0
    place.checked()


def test_a_bulk_that_is_killed_is_done_in_part_and_can_be_done_again(place: Place) -> None:
    """F039: each row is retried whole or not at all."""
    count = 30_000
    place.script(SHOP)
    place.does(MANY.format(count=count))
    killed = place.cli("retry", "shop.db", "--state", "dead", "--yes")
    until(lambda: dead(place) < count)
    killed.kill()
    left = dead(place)
    anew = (
        "SELECT count(*) FROM nextdue_task WHERE due IS NOT NULL AND rest IS NULL AND attempts = 0 AND reason IS NULL"
    )
    assert place.one(anew) == count - left
    place.checked()
    again = place.cli("retry", "shop.db", "--state", "dead", "--yes")
    assert again.ends() == 0
    assert place.one(anew) == count


def test_a_sleeping_worker_runs_what_is_retried_at_once(place: Place) -> None:
    """Although an overdue task that nobody serves comes before it in the file."""
    place.script(SHOP)
    place.does("import shop; shop.work.enqueue(-1); shop.rare.enqueue()")
    worker = place.worker("queues=['default']")
    until(lambda: dead(place) == 1)
    time.sleep(0.1)  # it must be asleep again
    begun = time.monotonic()
    place.does("import shop; assert shop.nd.get(1).retry()")
    place.noted("work -1", 2)
    until(lambda: dead(place) == 1)
    assert place.cli("retry", "shop.db", "1").ends() == 0
    place.noted("work -1", 3)
    assert time.monotonic() - begun < 10
    assert worker.terminate() == 0
    place.checked()


def health(place: Place, *words: str) -> tuple[int, dict]:
    said = place.cli("health", *words, "--json")
    code = said.ends()
    return code, json.loads(said.text)


def test_health_sees_a_worker_that_is_stopped(place: Place) -> None:
    """F123: a frozen worker still holds its lock, so what tells is that nothing that is due is being run."""
    place.script(SHOP)
    place.does("import shop; shop.work.using(delay=3600).enqueue(0)")
    code, found = health(place, "shop.db")
    assert (code, found["worker_ever"], found["workers"]) == (1, False, 0)
    worker = place.worker()
    code, found = health(place, "shop.db", "--max-late", "1s")
    assert (code, found["workers"], found["late"]) == (0, 1, [])
    place.stop_outside_a_commit(worker)
    place.does("import shop; shop.work.enqueue(1)")
    until(lambda: health(place, "shop.db", "--max-late", "300ms")[0] == 1)
    code, found = health(place, "shop:nd", "--max-late", "300ms")
    assert (code, found["workers"]) == (1, 1)
    assert [(late["name"], late["overdue"], late["why"]) for late in found["late"]] == [("work", 1, "claimable")]
    worker.send(signal.SIGCONT)
    place.noted("work 1")
    until(lambda: health(place, "shop.db", "--max-late", "300ms")[0] == 0)
    assert worker.terminate() == 0
    code, found = health(place, "shop.db")
    assert (code, found["worker_ever"], found["workers"]) == (1, True, 0)
    assert found["last_run_ms"] is not None
