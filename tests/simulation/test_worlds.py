"""Worlds with crashes, pauses, locks and clock steps, in which every law must hold at every step.

NEXTDUE_WORLDS=2000 runs more of them, NEXTDUE_SEED=7 begins elsewhere. A failing world keeps its file.
"""

import os
from pathlib import Path

import pytest

from nextdue.testing.worlds.judge import Broken
from nextdue.testing.worlds.proof import lived
from nextdue.testing.worlds.world import World

FIRST = int(os.environ.get("NEXTDUE_SEED", "0"))
WORLDS = int(os.environ.get("NEXTDUE_WORLDS", "80"))


def live(seed: int, folder: Path) -> int:
    world = World(seed, folder)
    try:
        return lived(world).digest
    except Broken as exc:
        pytest.fail(f"seed {seed}: {exc}\nits file: {world.path}", pytrace=False)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + WORLDS))
def test_every_law_holds_in_world(seed, tmp_path):
    live(seed, tmp_path)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 4))
def test_the_same_seed_is_the_same_world(seed, tmp_path):
    (tmp_path / "again").mkdir()
    assert live(seed, tmp_path) == live(seed, tmp_path / "again"), f"seed {seed} was two worlds"


def test_worlds_differ(tmp_path):
    assert live(0, tmp_path) != live(1, tmp_path)
