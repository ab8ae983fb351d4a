"""The simulation sees each broken guarantee: an unseen mutant is a hole in it."""

import pytest

from nextdue.testing.worlds.judge import Broken
from nextdue.testing.worlds.proof import lived
from nextdue.testing.worlds.world import World
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants_of_verbs import MUTANTS as OF_VERBS

SEEDS = 100
"""The most worlds that a mutant may survive less one; the numbers found are in the report of the test."""
SEEN_IN = {
    "settle_without_token": 3,
    "leases_stolen_after_a_clock_step": 3,
    "renewal_after_the_claim": 10,
    "rows_with_crashes_claimed_ahead": 4,
    "nobody_follows_the_dead": 3,
    "only_the_first_of_all_lanes_follows": 16,
    "a_lease_is_taken_over_whatever_its_rate": 3,
    "a_wish_begins_after_a_newer_one": 3,
    "a_wish_is_lost_on_success": 3,
    "a_wish_is_lost_with_its_worker": 3,
    "a_wish_is_lost_by_finishing": 9,
    "extended_beyond_the_latest": 4,
    "finished_without_the_token": 9,
    "a_pause_is_seen_when_lanes_are_opened_next": 9,
}
"""Where to look first, to be quick; else at 0."""

ALL = MUTANTS | OF_VERBS


@pytest.mark.parametrize("name", ALL)
def test_the_simulation_catches(name, tmp_path, monkeypatch, record_property):
    plant, weather = ALL[name]
    mutate, first = plant(monkeypatch), SEEN_IN.get(name, 0)
    for seed in [first, *(seed for seed in range(SEEDS) if seed != first)]:
        try:
            lived(World(seed, tmp_path, mutate, weather=weather))
        except Broken as exc:
            record_property("caught by seed", f"{seed}: {exc}")
            return
    pytest.fail(f"{SEEDS} worlds did not see {name}")
