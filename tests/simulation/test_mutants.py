"""The simulation sees each broken guarantee: an unseen mutant is a hole in it."""

import pytest

from nextdue.testing.worlds.judge import Broken
from nextdue.testing.worlds.proof import lived
from nextdue.testing.worlds.world import World
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants_of_verbs import MUTANTS as OF_VERBS

SEEDS = 100
"""The most worlds that a mutant may survive less one; the numbers found are in the report of the test."""


ALL = MUTANTS | OF_VERBS


@pytest.mark.parametrize("name", ALL)
def test_the_simulation_catches(name, tmp_path, monkeypatch, record_property):
    plant, weather = ALL[name]
    mutate = plant(monkeypatch)
    for seed in range(SEEDS):
        try:
            lived(World(seed, tmp_path, mutate, weather=weather))
        except Broken as exc:
            record_property("caught by seed", f"{seed}: {exc}")
            return
    pytest.fail(f"{SEEDS} worlds did not see {name}")
