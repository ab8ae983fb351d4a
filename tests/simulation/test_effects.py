"""Worlds with steps, waits and tasks that come after others, and a crash at every statement of theirs.

NEXTDUE_WORLDS=2000 runs more of them, NEXTDUE_SEED=7 begins elsewhere. A failing world keeps its file.
"""

import os
import sqlite3
from collections import Counter

import pytest

from nextdue.sqlite import marks, tx
from nextdue.sqlite.database import PAGES
from nextdue.statements import load
from nextdue.testing.worlds.effectworld import EffectWorld
from nextdue.testing.worlds.judge import Broken
from nextdue.testing.worlds.proof import lived
from tests.simulation.mutants_of_effects import MUTANTS

FIRST = int(os.environ.get("NEXTDUE_SEED", "0"))
WORLDS = int(os.environ.get("NEXTDUE_WORLDS", "40"))
DYING, MOST = (24, 7, 0, 4, 49, 8, 75, 6, 19), 80
"""Where to look first for deaths at every statement, and the most worlds that may be needed for it."""
SEEDS = 40
"""The most worlds that a mutant may survive less one."""
SEEN_IN = {
    "begun_without_the_token": 9,
    "ended_without_the_token": 7,
    "extended_without_the_token": 16,
    "a_revived_task_keeps_its_marks": 17,
    "a_wait_has_looked_before_its_transaction": 10,
    "who_was_started_anyway_waits_on": 10,
}
"""Where to look first, to be quick; else at 0."""
OF_THE_DESK = load("nextdue.sqlite", *PAGES, tx.PAGE, marks.PAGE).keys() - load("nextdue.sqlite", *PAGES).keys()
LOOKS = ("doubts", "marks", "mark_followers", "mark_ended", "resolve_refused", "tx_tables")
"""They only read, and nothing is written after them."""
ELSEWHERE = ("tx_unblock", "tx_number", "tx_fired", "tx_asked", "tx_hold")
"""Of limits, of runs on demand and of schedules, which nothing here has; each lies amid others of its transaction."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + WORLDS))
def test_every_law_of_effects_holds_in_world(seed, tmp_path):
    world = EffectWorld(seed, tmp_path)
    try:
        lived(world)
    except Broken as exc:
        pytest.fail(f"seed {seed}: {exc}\nits file: {world.path}", pytrace=False)


def test_the_same_seed_is_the_same_world(tmp_path):
    (tmp_path / "again").mkdir()
    assert lived(EffectWorld(FIRST, tmp_path)).digest == lived(EffectWorld(FIRST, tmp_path / "again")).digest


def test_these_worlds_see_all_of_it_and_die_at_every_statement_of_it(tmp_path):
    seen: Counter[str] = Counter()
    met: set[str] = set()
    alive = set(OF_THE_DESK)
    for seed in [*DYING, *range(MOST)]:
        world = EffectWorld(seed, tmp_path)
        lived(world)
        seen.update(world.judge.seen)
        met |= {sql for sql, _ in world.deaths.met}
        alive = {name for name in OF_THE_DESK if marks.SQL[name] not in met} - {*LOOKS, *ELSEWHERE}
        if not alive and all(seen.values()):
            break
    assert all(seen.values()), seen
    assert alive == set()
    assert {"BEGIN IMMEDIATE", "COMMIT"} <= met


@pytest.mark.parametrize("name", MUTANTS)
def test_these_worlds_catch(name, tmp_path, monkeypatch, record_property):
    plant, weather = MUTANTS[name]
    mutate, first = plant(monkeypatch), SEEN_IN.get(name, 0)
    for seed in [first, *(seed for seed in range(SEEDS) if seed != first)]:
        try:
            lived(EffectWorld(seed, tmp_path, mutate, weather=weather))
        except (Broken, sqlite3.IntegrityError) as exc:
            record_property("caught by seed", f"{seed}: {exc}")
            return
    pytest.fail(f"{SEEDS} worlds did not see {name}")
