"""Rule our own fault: what becomes of a source whose worker is killed."""

import pytest

from apps.signal.tests.behaviours import answer, conditional, feed
from apps.signal.tests.rules.conftest import World

SAME = conditional(feed(2), etag='"1"')
TABLES = ("entry", "revision", "words", "attempt")
"""What an attempt leaves beside the row of its source."""


@pytest.mark.parametrize("point", ["claim", "finish"])
def test_a_killed_worker_leaves_the_counters_and_the_first_rerun_is_at_once(world: World, point: str) -> None:
    """Rule our own fault: failures, last_error and last_ok as they were; the first rerun is at once."""
    world.put("ada", SAME, answer(b"", 500), SAME)
    world.until_due("ada")
    before = world.row("ada")
    assert (before.failures, before.last_error) == (1, "http_server")
    at = world.due("ada")
    world.sandbox.crash_at(point)
    world.sandbox.advance((at - world.now()) / 1000)
    assert world.row("ada") == before
    assert 0 < world.due("ada") - at <= 2000
    world.sandbox.advance("3s")  # as soon as the spacing of its host allows
    row = world.row("ada")
    assert (row.failures, row.last_error, row.last_ok) == (0, None, row.last_attempt)
    assert row.last_attempt is not None
    assert row.last_attempt - at <= 2500


def test_nothing_of_an_attempt_is_there_before_all_of_it_is(world: World) -> None:
    """One schedule: the entries, the validators, the counters and the completion commit together."""
    world.put("ada", SAME, first=False)
    before, at = world.row("ada"), world.due("ada")
    world.sandbox.crash_at("finish")
    world.sandbox.advance((at - world.now()) / 1000)  # and no further: its rerun comes after a back-off
    assert (world.sandbox.crashes, len(world.seen("ada"))) == (["finish"], 1)
    assert world.row("ada") == before
    counts = {table: world.query(f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in TABLES}
    assert counts == dict.fromkeys(TABLES, 0)
    world.sandbox.advance("3s")
    counts = {table: world.query(f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in TABLES}
    assert counts == {"entry": 2, "revision": 2, "words": 2, "attempt": 1}


def test_a_second_death_of_the_same_source_follows_the_formula(world: World) -> None:
    """Rule our own fault: a second death of the same source follows the formula, without another request."""
    world.put("ada", SAME)
    asked, at = len(world.seen("ada")), world.due("ada")
    world.sandbox.crash_at("finish")
    world.sandbox.crash_at("finish")
    world.sandbox.advance((at - world.now() + 10_000) / 1000)
    row = world.row("ada")
    assert (row.failures, row.faults, row.last_error) == (0, 1, "internal")
    assert 60 <= world.wait_s("ada") <= 90
    assert len(world.seen("ada")) == asked + 2
    world.until_due("ada")
    row = world.row("ada")
    assert (row.faults, row.last_error, len(world.seen("ada"))) == (0, None, asked + 3)


def test_who_kills_its_worker_again_and_again_waits_longer_and_longer(world: World) -> None:
    """Rule our own fault: the same formula on a counter of their own; it never gives up."""
    world.put("ada", SAME)
    for count, delay_s in enumerate([60, 120, 240, 480], 1):
        world.sandbox.crash_at("finish")
        world.sandbox.crash_at("finish")
        world.sandbox.advance((world.due("ada") - world.now() + 10_000) / 1000)
        row = world.row("ada")
        assert (row.failures, row.faults, row.last_error) == (0, count, "internal")
        assert delay_s <= world.wait_s("ada") <= delay_s + 30


def test_the_death_of_one_is_no_fault_of_its_neighbours(world: World) -> None:
    """Rule our own fault: those who were due beside it are collected as ever."""
    for number in range(3):
        world.put(f"s{number}", SAME, address=f"127.0.1.{number + 1}", first=False)
    world.sandbox.crash_at("finish")
    world.sandbox.crash_at("finish")
    world.sandbox.advance("31m")
    reasons = [[attempt["reason"] for attempt in world.attempts(f"s{number}")] for number in range(3)]
    assert sorted(reasons, key=len) == [[None], [None], ["internal", None]]


def test_a_task_that_nextdue_gave_up_gets_a_new_one_at_the_next_start(world: World) -> None:
    """Rule failure: it never gives up, whatever killed its worker three times."""
    world.put("ada", SAME)
    at = world.due("ada")
    for point in ("finish", "finish", "claim"):
        world.sandbox.crash_at(point)
    world.sandbox.advance((at - world.now() + 10_000) / 1000)
    task = world.signal.nd.get("collect", "ada")
    assert task is not None
    assert task.state == "dead"
    world.signal.install()
    world.sandbox.drain()
    assert (task.state, world.row("ada").last_error, world.lines[-1].status) == ("waiting", None, 304)


def test_a_task_that_was_cancelled_gets_a_new_one_at_its_turn(world: World) -> None:
    """One schedule: `nextdue cancel` doesn't end a source; `signal pause` does."""
    world.put("ada", SAME)
    due = world.due("ada")
    task = world.signal.nd.get("collect", "ada")
    assert task is not None
    assert task.cancel()
    world.signal.install()
    assert world.due("ada") == due
