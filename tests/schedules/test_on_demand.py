"""Runs on demand: one for each period in which one was asked for, at its end, and none else."""

from datetime import timedelta
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


def test_f115_each_hour_of_both_nights_has_a_name_of_its_own(app, box, monkeypatch):
    """F115: the periods are counted in UTC, so that no local night gives a hole or a double."""
    from datetime import UTC, datetime

    monkeypatch.setenv("TZ", "Europe/Berlin")
    for day in (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)):
        numbers = [int((day + timedelta(hours=h)).timestamp()) // 3600 for h in range(24)]
        assert [b - a for a, b in pairwise(numbers)] == [1] * 23
    nd = app(at=datetime(2026, 10, 25, tzinfo=UTC))

    @nd.on_demand("1h")
    def hourly() -> None: ...

    keys = set()
    for _ in range(24):
        handle = hourly.enqueue()
        assert handle.created
        keys.add(nd.get(handle.id).key)
        assert hourly.enqueue().id == handle.id
        box.advance("1h")
    assert len(keys) == 24


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
