"""Living through one world after the other: what they saw, and the first one in which a law is broken."""

import contextlib
import shutil
import tempfile
import traceback
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from nextdue.errors import StoreFull, StoreReadOnly, Unsupported
from nextdue.testing.worlds.effectworld import EffectWorld
from nextdue.testing.worlds.judge import Broken
from nextdue.testing.worlds.timeworld import TimeWorld
from nextdue.testing.worlds.world import World

TASKS = (("tasks", World),) * 3
TURNS: tuple[tuple[str, type[World]], ...] = (*TASKS, ("effects", EffectWorld), *TASKS, ("schedules", TimeWorld))
"""Whose turn it is, seed by seed. A world of schedules takes as long as four others."""
UNFIT = (StoreFull, StoreReadOnly, Unsupported, OSError)
"""The fault of the place where the worlds are kept: no verdict on the laws."""


class Failure(NamedTuple):
    """A world in which a law is broken, or which came to another end that nobody expected."""

    seed: int
    kind: str
    law: str
    """Which law, in words."""
    evidence: list[str]
    """Who did what to which row."""
    database: Path


class Proof:
    """The worlds so far, from the seed `first` on. Each gets a new folder in `folder`, which a failing one keeps."""

    def __init__(self, folder: Path, first: int) -> None:
        self.folder, self.first = folder, first
        self.kinds: Counter[str] = Counter()
        """How many worlds held, of each kind."""
        self.met: Counter[str] = Counter()
        """The tasks, ticks, judged changes of rows and troubles in them."""
        self.digest = 0
        """Of all that happened in them."""
        self.failure: Failure | None = None

    @property
    def worlds(self) -> int:
        """How many held."""
        return self.kinds.total()

    def live(self) -> bool:
        """Live through the next world; whether it held. Raises what is the fault of its place."""
        seed = self.first + self.worlds
        kind, make = TURNS[seed % len(TURNS)]
        place = Path(tempfile.mkdtemp(prefix="nextdue-prove-", dir=self.folder))
        try:
            world = lived(make(seed, place))
        except (*UNFIT, KeyboardInterrupt):
            shutil.rmtree(place, ignore_errors=True)
            raise
        except Exception as exc:
            self.failure = Failure(seed, kind, *_told(exc), place / f"world-{seed}.db")
            return False
        shutil.rmtree(place, ignore_errors=True)
        self.kinds[kind] += 1
        self.digest = zlib.crc32(f"{seed} {kind} {world.digest}".encode(), self.digest)
        self.met.update(world.met, tasks=len(world.jobs), changes=world.judge.changes)
        self.met["ticks"] += sum(c.ticks for c in world.crew)
        return True


def lived(world: World) -> World:
    """This world, when it was lived through and closed. Raises Broken, or what the engine raised."""
    try:
        world.run()
    except BaseException:
        with contextlib.suppress(Exception):  # it may stand anywhere; the first error is the one to be told
            world.close()
        raise
    world.close()
    return world


def _told(exc: Exception) -> tuple[str, list[str]]:
    """What is broken, and the evidence."""
    if isinstance(exc, Broken):
        law, *evidence = str(exc).splitlines()
        return law, evidence
    lines = [line for frame in traceback.format_exception(exc) for line in frame.splitlines()]
    return f"the engine stopped with an error that no law allows: {lines[-1]}", lines
