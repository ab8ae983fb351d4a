"""Runs on demand: one for each period in which one was asked for, at its end, and none else."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.schedules.conftest import NOON

M = timedelta(minutes=1)


@pytest.fixture
def clean(app, box, seen):
    nd = app(at=NOON + timedelta(seconds=10))

    @nd.on_demand("1m")
    def clean(word: str = "") -> None:
        seen.append((word, box.now - NOON))

    return clean


def test_asking_again_changes_nothing_until_the_run(clean, box, seen):
    first = clean.enqueue()
    assert first.created
    assert first.due == NOON + M
    for _ in range(5):
        box.advance("9s")
        assert clean.enqueue().id == first.id
    box.advance("1h")
    assert seen == [("", M)]
    assert clean.enqueue().created


def test_nothing_changed_is_nothing_run(clean, box, seen):
    box.advance("1 day")
    assert seen == []


def test_a_change_while_it_runs_is_covered_by_the_next_period(clean, box, seen):
    box.takes("clean", "90s")
    clean.enqueue()
    box.advance("55s")
    late = clean.enqueue()
    assert late.created
    assert late.due == NOON + 2 * M
    box.advance("10m")
    assert len(seen) == 2


def test_arguments_have_runs_of_their_own(clean, box, seen):
    for word in ("a", "b", "a"):
        clean.enqueue(word)
    box.advance("1h")
    assert sorted(seen) == [("a", M), ("b", M)]


def test_a_wish_for_a_later_time_is_a_period_of_its_own(clean, box, seen):
    clean.using(delay="1 day").enqueue()
    clean.enqueue()
    box.advance("12h")
    clean.using(delay="1 day").enqueue()
    box.advance("3 days")
    assert [at for _, at in seen] == [M, timedelta(days=1, minutes=1), timedelta(days=1.5, minutes=1)]


def test_a_clock_set_back_loses_no_change(clean, box, seen):
    clean.enqueue()
    box.advance("2m")
    box.step_clock(timedelta(minutes=-2))
    again = clean.enqueue()
    assert again.created
    box.advance("10m")
    assert len(seen) == 2


def test_another_period_after_a_deploy_loses_no_slot(clean, box, seen):
    nd = clean.app
    clean.enqueue()
    nd.tasks.clear()
    nd._definitions.clear()

    @nd.on_demand("1h", name="clean")
    def hourly(word: str = "") -> None:
        seen.append((word, box.now - NOON))

    assert hourly.enqueue().created
    box.advance("2h")
    assert [at for _, at in seen] == [M, timedelta(hours=1)]


@pytest.mark.parametrize("day", [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)])
def test_f115_each_hour_of_both_nights_has_a_name_of_its_own(app, box, seen, monkeypatch, day):
    """F115: under any TZ 24 names, one after the other; again in the same hour changes nothing; unasked, none runs."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        nd = app(at=day)
        nd.on_demand("1h", name="hourly")(lambda: seen.append(box.now - day))
        numbers = []
        for _ in range(24):
            handle = nd.tasks["hourly"].enqueue()
            assert handle.created
            numbers.append(int(nd.get(handle.id).key.removeprefix("3600s/")))
            box.advance("59m")
            assert nd.tasks["hourly"].enqueue().id == handle.id
            box.advance("1m")
            assert handle.state == "done"
        assert numbers == list(range(numbers[0], numbers[0] + 24))
        assert [round(ran / timedelta(hours=1), 3) for ran in seen] == list(range(1, 25))
        box.advance("10h")
        assert len(seen) == 24
        assert nd.find(name="hourly", state="waiting") == []
    finally:
        monkeypatch.undo()
        time.tzset()


def test_f116_a_purge_lets_no_period_run_twice(app, box, seen):
    """F116: what has run guards its period for at least as long as that lasts, whatever is purged meanwhile."""
    nd = app()
    nd.on_demand("7 days", name="weekly")(lambda: seen.append(box.now))
    nd.task(name="other")(lambda: None)
    weekly, other = nd.tasks["weekly"], nd.tasks["other"]
    weekly.enqueue()
    box.advance("7 days")
    (ran,) = seen
    last = weekly.enqueue().due - timedelta(days=7)
    assert last <= ran
    for _ in range(13):
        box.advance("1 day")
        for _ in range(5):
            other.enqueue()
        box.drain()
    weekly.enqueue()
    box.advance("14 days")
    assert len(seen) == 3
    assert all(later - one >= timedelta(days=6, hours=23) for one, later in pairwise(seen))


def test_in_a_transaction_it_is_the_same_row(clean, box, seen):
    nd = clean.app
    first = clean.enqueue()
    with nd.transaction() as tx:
        assert clean.using(tx=tx).enqueue().id == first.id
    box.advance("2m")
    with nd.transaction() as tx:
        assert clean.using(tx=tx).enqueue().created
    box.advance("2m")
    assert len(seen) == 2
