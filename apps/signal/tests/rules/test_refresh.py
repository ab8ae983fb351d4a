"""Rule forced refresh, and who may make a source due: the collector decides."""

import pytest

from apps.signal.tests.behaviours import answer, conditional, feed
from apps.signal.tests.rules.conftest import QUIET, World
from apps.signal.tests.samples import HOUR, MINUTE
from signal_feeds.errors import NotYet, UnknownSource

SAME = conditional(feed(1), etag='"1"')


def refused_until(world: World, name: str = "ada") -> int:
    with pytest.raises(NotYet) as caught:
        world.signal.refresh(name, "eve")
    assert str(caught.value).startswith(f"{name} may be asked again at 2026-12-0")
    return caught.value.at


def test_a_refresh(world: World) -> None:
    """Rule forced refresh: a request out of turn, conditional as ever, logged, and then the schedule goes on."""
    world.put("ada", SAME)
    world.sandbox.advance("5m")
    world.signal.refresh("ada", "eve")
    world.sandbox.drain()
    assert [line["asked_by"] for line in world.attempts("ada")] == [None, "eve"]
    assert world.seen("ada")[-1].header("if-none-match") == b'"1"'
    assert world.wait_s("ada") == 1800
    assert world.query("SELECT * FROM wish") == []


def test_five_minutes_apart(world: World) -> None:
    """Rule forced refresh: the last attempt is >= 5 min old; a refusal says when it will be allowed."""
    world.put("ada", SAME)
    at = refused_until(world)
    assert at == (world.row("ada").last_attempt or 0) + 5 * MINUTE
    world.sandbox.drain()
    assert len(world.seen("ada")) == 1
    world.sandbox.advance((at - world.now()) / 1000)
    world.signal.refresh("ada", "eve")


def test_not_before_the_server_wants_it(world: World) -> None:
    """Rule forced refresh: only if now >= the server's not_before."""
    world.put("ada", answer(b"", 503, retry_after="7200"))
    world.sandbox.advance("1h")
    assert refused_until(world) == (world.row("ada").last_attempt or 0) + 2 * HOUR


def test_failures_stay(world: World) -> None:
    """Rule forced refresh: doesn't reset failures."""
    world.put("ada", answer(b"", 500))
    for _ in range(4):
        world.until_due("ada")
    world.sandbox.advance("5m")
    world.signal.refresh("ada", "eve")
    assert world.row("ada").failures == 5
    world.sandbox.drain()
    assert world.row("ada").failures == 6
    assert 1920 <= world.wait_s("ada") <= 1950


def test_six_a_day(world: World) -> None:
    """Rule forced refresh: <= 6 a day a source."""
    world.put("ada", SAME)
    for _ in range(6):
        world.sandbox.advance("6m")
        world.signal.refresh("ada", "eve")
        world.sandbox.drain()
    world.sandbox.advance("6m")
    first = world.attempts("ada")[1]
    assert refused_until(world) == first["begun"] + 24 * HOUR + 1


def test_thirty_an_hour(world: World) -> None:
    """Rule forced refresh: <= 30 an hour in all."""
    world.write('interval = "2h"\n' + QUIET)
    world.begin()
    names = [f"s{number}" for number in range(31)]
    for number, name in enumerate(names):
        world.put(name, SAME, address=f"127.0.1.{number + 1}", first=False)
    world.sandbox.advance("30m")
    world.sandbox.advance("6m", working=False)
    for name in names[:30]:
        world.signal.refresh(name, "eve")
    refused_until(world, "s30")
    world.sandbox.drain()
    assert refused_until(world, "s30") <= world.now() + HOUR + 1
    assert world.query("SELECT count(*) AS n FROM attempt WHERE asked_by = 'eve'")[0]["n"] == 30


def test_a_new_source_that_is_asked_for_before_its_first_turn(world: World) -> None:
    """Rule forced refresh: logged, and one of the 30 an hour."""
    names = [f"s{number}" for number in range(40)]
    for number, name in enumerate(names):
        world.put(name, SAME, address=f"127.0.1.{number + 1}", first=False)
    early = [name for name in names if world.due(name) > world.now() + MINUTE][:31]
    for name in early[:30]:
        world.signal.refresh(name, "eve")
        world.sandbox.drain()
        assert [line["asked_by"] for line in world.attempts(name)] == ["eve"]
    assert refused_until(world, early[30]) > world.now() + 59 * MINUTE


def test_in_its_first_turn_a_new_source_is_not_asked_out_of_turn(world: World) -> None:
    world.put("ada", SAME, first=False)
    due = world.due("ada")
    with world.signal.nd.transaction() as tx:
        tx.execute("INSERT INTO wish VALUES (1, 0, 'eve')", {})
    world.sandbox.advance((due - world.now()) / 1000)
    assert [line["asked_by"] for line in world.attempts("ada")] == [None]
    assert world.query("SELECT * FROM wish") == []


def test_no_such_source(world: World) -> None:
    with pytest.raises(UnknownSource, match="no source is called 'bob'"):
        world.signal.refresh("bob", "eve")


@pytest.mark.parametrize("how", ["run-now", "sql"])
def test_whoever_makes_a_source_due_it_goes_back_to_its_turn(world: World, how: str) -> None:
    """Rule one owner: the collector checks before dialling, whoever made the row due: by run-now, by plain SQL."""
    world.put("ada", conditional(feed(1), etag='"1"', cache_control="max-age=7200"))
    due = world.due("ada")
    task = world.signal.nd.get("collect", "ada")
    assert task is not None
    world.sandbox.advance("10m")
    if how == "run-now":
        assert task.run_now()
    else:
        with world.signal.nd.transaction() as tx:
            tx.execute("UPDATE nextdue_task SET due = 0 WHERE id = ?", (task.id,))
    world.sandbox.drain()
    assert (len(world.seen("ada")), world.due("ada"), len(world.attempts("ada"))) == (1, due, 1)


def test_a_wish_that_was_written_past_the_command(world: World) -> None:
    """Rule one owner: the collector checks the 5 minutes; the wish waits for them."""
    world.put("ada", SAME)
    world.sandbox.advance("1m")
    task = world.signal.nd.get("collect", "ada")
    with world.signal.nd.transaction() as tx:
        tx.execute("INSERT INTO wish VALUES (1, 0, 'eve')", {})
    assert task is not None
    assert task.run_now()
    world.sandbox.drain()
    assert len(world.seen("ada")) == 1
    assert world.wait_s("ada") == 300
    world.until_due("ada")
    assert world.attempts("ada")[-1]["asked_by"] == "eve"


def test_a_wish_while_it_is_asked_is_fulfilled_by_that(world: World) -> None:
    """Rule forced refresh: one request, not two."""
    world.put("ada", SAME)
    world.until_due("ada")
    world.sandbox.advance("6m")
    world.signal.refresh("ada", "eve")
    world.signal.refresh("ada", "bob")
    world.sandbox.drain()
    assert [line["asked_by"] for line in world.attempts("ada")] == [None, None, "bob"]
