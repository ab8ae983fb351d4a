"""Worlds with steps, waits and tasks that come after others, and a crash at every statement of theirs.

NEXTDUE_WORLDS=2000 runs more of them, NEXTDUE_SEED=7 begins elsewhere. A failing world keeps its file.
"""

import os
import sqlite3

import pytest

from nextdue.sqlite import marks, tx
from nextdue.testing.worlds.effectworld import EffectWorld
from nextdue.testing.worlds.judge import Broken
from nextdue.testing.worlds.proof import lived
from tests.simulation.mutants_of_effects import MUTANTS

FIRST = int(os.environ.get("NEXTDUE_SEED", "0"))
WORLDS = int(os.environ.get("NEXTDUE_WORLDS", "40"))
SEEDS = 40
"""The most worlds that a mutant may survive less one."""
SEEN_IN = {
    "begun_without_the_token": 5,
    "ended_without_the_token": 4,
    "marks_outlive_a_replacement": 2,
    "a_new_life_waits_as_the_old_one_did": 4,
    "a_revived_task_keeps_its_marks": 1,
    "an_event_reaches_nobody": 1,
    "a_wait_has_looked_before_its_transaction": 4,
    "a_finished_parent_wakes_nobody": 1,
    "who_was_started_anyway_waits_on": 35,
}
"""Where to look first, to be quick; else at 0."""
OF_MARKS = ("mark", "mark_begin", "mark_end")


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


def test_these_worlds_see_all_of_it_and_die_in_the_midst_of_it(tmp_path):
    seen, met = [], set()
    for seed in range(16):
        world = EffectWorld(seed, tmp_path)
        lived(world)
        seen.append(world.judge.seen)
        met |= {sql for sql, _ in world.deaths.met}
    assert all(any(each[what] for each in seen) for what in seen[0]), seen
    assert {*(marks.SQL[name] for name in OF_MARKS), "BEGIN IMMEDIATE", tx.SQL["tx_held"]} <= met


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
