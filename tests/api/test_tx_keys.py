"""A task put in a user's transaction is the row that the same put makes outside of one, in every case."""

import contextlib
import itertools
import sqlite3
from typing import Any

import pytest

from nextdue.records import Mode
from tests.api.conftest import World

STATES = ("none", "waiting", "slot", "blocked", "running", "wished", "done", "old", "dead", "cancelled", "held")
MODES: tuple[Mode, ...] = ("ignore", "reject", "replace", "earliest", "extend", "again")
TIMES: tuple[dict[str, Any], ...] = (
    {},
    {"delay": "10s"},
    {"delay": "2h", "latest": "1h", "expires": "3h"},
    {"queue": "other", "priority": 3, "group": "b"},
)
NOW = 1_800_000_000_000


def prepared(world: World, state: str):
    """A world in which the key is held by a task in this state."""

    @world.nd.task(limit=2)
    def receipt(n: int) -> None: ...

    world.nd.find()
    if state != "none":
        receipt.using(key="a", delay="1h", remember="1h").enqueue(1)
    world.sql(
        {
            "none": "SELECT 1",
            "waiting": "UPDATE nextdue_task SET attempts = 2, scheduled_for = 7, reason = 'x'",
            "slot": "INSERT INTO nextdue_rate SELECT name, grp, 0, due FROM nextdue_task",
            "blocked": "UPDATE nextdue_task SET wished = due, due = NULL, rest = 'blocked'",
            "running": f"UPDATE nextdue_task SET token = 1 << 32, claims = 1, due = {NOW + 60_000}",
            "wished": "UPDATE nextdue_task SET token = 1 << 32, again_args = '[9]', "
            f"again_due = {NOW + 5_000}, latest = {NOW}",
            "done": f"UPDATE nextdue_task SET rest = 'done', due = NULL, gone_at = {NOW + 1}",
            "old": f"UPDATE nextdue_task SET rest = 'done', due = NULL, gone_at = {NOW - 1}",
            "dead": "UPDATE nextdue_task SET rest = 'dead', due = NULL, attempts = 12, crashes = 1",
            "cancelled": "UPDATE nextdue_task SET rest = 'cancelled', due = NULL",
            "held": "UPDATE nextdue_task SET rest = 'held', due = NULL",
        }[state]
    )
    return receipt


def outcome(world: World, state: str, mode: Mode, times: dict, *, guest: bool):
    receipt = prepared(world, state)
    if mode != "extend":
        times = {word: value for word, value in times.items() if word != "latest"}
    call = receipt.using(key="a", on_conflict=mode, remember="2h", **times)
    answer: object
    try:
        if guest:
            with contextlib.closing(sqlite3.connect(world.path)) as connection, connection:
                handle = receipt.using(key="a", on_conflict=mode, remember="2h", tx=connection, **times).enqueue(2)
        else:
            handle = call.enqueue(2)
        answer = handle.id, handle.created
    except Exception as exc:
        answer = str(exc)
    return answer, world.sql(
        "SELECT t.*, l.queue, l.priority FROM nextdue_task t LEFT JOIN nextdue_lane l ON l.id = t.lane"
    )


@pytest.mark.parametrize(("state", "mode"), list(itertools.product(STATES, MODES)))
def test_it_is_the_same_row(state, mode, tmp_path):
    for number, times in enumerate(TIMES):
        found = []
        for guest in (False, True):
            folder = tmp_path / f"{number}-{guest}"
            folder.mkdir()
            world = World(folder / "shop.db")
            try:
                found.append(outcome(world, state, mode, dict(times), guest=guest))
            finally:
                world.close()
        assert found[0] == found[1], times


def test_many_with_all_that_using_knows(tmp_path):
    found = []
    for guest in (False, True):
        (tmp_path / str(guest)).mkdir()
        world = World(tmp_path / str(guest) / "shop.db")
        receipt = prepared(world, "none")
        options = {"delay": "5s", "expires": "1h", "group": "g", "queue": "q", "priority": 3}
        with contextlib.closing(sqlite3.connect(world.path)) as connection, connection:
            receipt.using(**options, tx=connection if guest else None).enqueue_many([(1,), (2,)])
            receipt.using(**options, tx=connection if guest else None).enqueue(3)
        found.append(world.sql("SELECT * FROM nextdue_task"))
        world.close()
    assert len(found[0]) == 3
    assert found[0] == found[1]
