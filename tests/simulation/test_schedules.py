"""Worlds with schedules, in which clocks are set both ways, machines sleep and nights are longer or shorter.

NEXTDUE_WORLDS=2000 runs more of them, NEXTDUE_SEED=7 begins elsewhere. A failing world keeps its file.
"""

import os

import pytest

from nextdue.testing.worlds.judge import Broken
from nextdue.testing.worlds.proof import lived
from nextdue.testing.worlds.timeworld import TimeWorld
from tests.simulation.mutants_of_schedules import MUTANTS

FIRST = int(os.environ.get("NEXTDUE_SEED", "0"))
WORLDS = int(os.environ.get("NEXTDUE_WORLDS", "14"))
FOUND = (100367, 300687)
"""Worlds that found something once: a clock set back while an occurrence runs, whose period counts from its end; and
one that was resumed after a crash, cut though it was a first one."""
SEEDS = 25
"""The most worlds that a mutant may survive less one."""
SEEN_IN = {
    "the_next_slot_from_now": 1,
    "a_dead_occurrence_has_no_next_one": 3,
    "a_schedule_removed_while_it_runs_goes_on": 6,
    "a_removed_schedule_is_tried_again": 53,
    "a_schedule_paused_while_it_runs_goes_on": 16,
    "a_schedule_without_its_code_goes_on": 1,
    "what_was_snoozed_is_passed_over": 4,
    "missed_ones_are_not_counted": 1,
    "skipped_ones_run_however_late": 5,
    "a_change_while_it_runs_begins_at_a_due_with_jitter": 15,
    "one_more_than_its_count": 1,
    "the_last_one_is_not_counted": 1,
    "who_ended_by_its_count_comes_back_with_a_deploy": 7,
    "without_its_code_but_resumed_it_runs": 7,
    "who_finishes_by_itself_ends_its_schedule": 1,
    "a_fixed_time_comes_twice_in_a_repeated_hour": 4,
}
"""Where to look first, to be quick; else at 0."""


@pytest.mark.parametrize("seed", [*range(FIRST, FIRST + WORLDS), *FOUND])
def test_f003_f005_f007_f008_f009_f021_f022_f038_f040_f112_in_world(seed, tmp_path):
    """F003 F005 F007 F008 F009 F021 F022 F038 F040 F112: clocks set back and forth, suspends, DST nights, downtimes,
    deploys and crashes; what runs, what is missed and what follows is at each step what the oracle says."""
    world = TimeWorld(seed, tmp_path)
    try:
        lived(world)
    except Broken as exc:
        pytest.fail(f"seed {seed}: {exc}\nits file: {world.path}", pytrace=False)


def test_the_same_seed_is_the_same_world(tmp_path):
    (tmp_path / "again").mkdir()
    assert lived(TimeWorld(FIRST, tmp_path)).digest == lived(TimeWorld(FIRST, tmp_path / "again")).digest


def test_these_worlds_see_all_of_it(tmp_path):
    seen = []
    for seed in range(1, 4):
        world = TimeWorld(seed, tmp_path)
        lived(world)
        seen.append(world.judge.seen)
    assert all(any(each[what] for each in seen) for what in seen[0]), seen


@pytest.mark.parametrize("name", MUTANTS)
def test_these_worlds_catch(name, tmp_path, monkeypatch, record_property):
    plant, weather = MUTANTS[name]
    mutate, first = plant(monkeypatch), SEEN_IN.get(name, 0)
    for seed in [first, *(seed for seed in range(SEEDS) if seed != first)]:
        try:
            lived(TimeWorld(seed, tmp_path, mutate, weather=weather))
        except Broken as exc:
            record_property("caught by seed", f"{seed}: {exc}")
            return
    pytest.fail(f"{SEEDS} worlds did not see {name}")
