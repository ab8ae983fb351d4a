"""Cuts the power of a recorded run at each point and opens what is left."""

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nextdue.sqlite.store import SqliteStore
from tests.powercut import facts
from tests.powercut.disk import Disk, Kept
from tests.powercut.trace import Step

MOST_ROUNDS = 200
SPREAD = 12
WORKED = 10
"""In each so manyth state a worker is run, too."""
MEMORY = Path("/dev/shm")
"""Where the states are opened, for there an fsync costs nothing."""
SHM = b"\xa5" * 32768
"""What a -shm holds after a power cut: anything. SQLite must make it anew."""


@dataclass
class Found:
    """What the states of one run have shown."""

    seed: str
    cuts: int = 0
    states: int = 0
    """Opened; those that differ in nothing are opened once."""
    rounds: int = 0
    checked: Counter[str] = field(default_factory=Counter)
    """By kind of fact: in how many states one or more were to be there. broken: all states."""
    lost: Counter[str] = field(default_factory=Counter)
    """In how many of them one was not; broken: where the file, or what holds always, is not in order."""
    first: dict[str, str] = field(default_factory=dict)
    """The first loss of each kind: the state, and what is wrong."""

    def failures(self) -> list[str]:
        """The losses that must not be."""
        return [text for kind, text in self.first.items() if kind not in facts.NOT_PROMISED]


def moments(steps: list[Step]) -> Iterator[tuple[str, Step]]:
    """The steps, begun and ended, in the order of the recording."""
    order = [(step.begun, 0, "begin", step) for step in steps]
    order += [(step.ended, 1, "sync", step) for step in steps if step.kind == "sync"]
    for _, _, what, step in sorted(order, key=lambda one: one[:2]):
        yield what, step


class State(NamedTuple):
    """What was left by a power cut, and what had been said before."""

    image: dict[str, bytes]
    said: list[str]


NEW = State({}, [])
"""An empty folder."""


def cuts(steps: list[Step], start: State = NEW) -> Iterator[tuple[int, Disk, list[str]]]:
    """Each point at which the power may be cut: its number, the disk, and what was said before."""
    disk, said = Disk(start.image), list(start.said)
    for number, (what, step) in enumerate(moments(steps)):
        if what == "sync":
            disk.sync(step)
        else:
            disk.begin(step)
        if step.kind == "said":
            said.append(step.to)
        yield number, disk, said


class Judge:
    """Opens the states of one recorded run, breadth first, until the time is over."""

    def __init__(self, steps: list[Step], folder: Path, seed: str, start: State = NEW) -> None:
        self.steps, self.folder, self.start = steps, folder, start
        self.place = quick(folder)
        self.found = Found(seed)
        self._until = set[str]()
        self._seen: dict[tuple[int, int], int] = {}

    def run(self, seconds: float, until: Collection[str] = ()) -> Found:
        """Round after round: in each one more state of every cut. Ends earlier when all these kinds were lost."""
        self._until, end = set(until), time.monotonic() + seconds
        try:
            for number in range(MOST_ROUNDS):
                if not self._round(number, end):
                    break
                self.found.rounds = number + 1
        finally:
            shutil.rmtree(self.place)
        return self.found

    def _over(self, end: float) -> bool:
        return time.monotonic() > end or bool(self._until and self._until <= self.found.first.keys())

    def _round(self, number: int, end: float) -> bool:
        latest: dict[tuple[int, int], int] = {}
        for cut, disk, said in cuts(self.steps, self.start):
            # The later the cut, the more is to be there; but for what was taken back.
            taken_back = sum(text.startswith('["not"') for text in said)
            latest[disk.mark(self._choice(cut, disk, number)), taken_back] = cut
            self.found.cuts = max(self.found.cuts, cut + 1)
        wanted = {cut for mark, cut in latest.items() if self._seen.get(mark, -1) < cut}
        self._seen |= latest
        for cut, disk, said in cuts(self.steps, self.start):
            if cut in wanted:
                if self._over(end):
                    return False
                self.judge(cut, number, disk, said)
        return True

    def _choice(self, cut: int, disk: Disk, number: int) -> Kept:
        """First nothing unsynced everywhere; then a different way at each of some neighbouring cuts."""
        return disk.choice(number and number + cut % SPREAD, f"{self.found.seed} {cut}")

    def judge(self, cut: int, number: int, disk: Disk, said: list[str]) -> None:
        """Rebuild one state, open it, and note what is missing."""
        kept = self._choice(cut, disk, number)
        place = self.place / "state"
        write(disk.image(kept), place)
        state = f"cut {cut}, state {number} of seed {self.found.seed} ({kept.label})"
        known = facts.facts(said)
        kinds = {kind for kind, _ in known}
        self.found.states += 1
        self.found.checked.update([*kinds, "broken"])
        lost = dict[str, str]()
        for kind, text in losses(place, known, work=not self.found.states % WORKED):
            lost.setdefault(kind, text)
        if lost:
            self._keep(disk.image(kept), lost, self.folder / f"lost-{cut}-{number}", state)
        self.found.lost.update(lost.keys())

    def _keep(self, image: dict[str, bytes], lost: dict[str, str], place: Path, state: str) -> None:
        """The first state in which a kind of fact was lost stays, for whoever looks into it."""
        fresh = [kind for kind in lost if kind not in self.found.first]
        if fresh:
            write(image, place)
            self.found.first.update((kind, f"{kind} {lost[kind]}; {state}, kept in {place}") for kind in fresh)


def quick(folder: Path) -> Path:
    """A new folder to open states in, below this one where there is no better place. Whoever asks removes it."""
    return Path(tempfile.mkdtemp(prefix="powercut-", dir=MEMORY if os.access(MEMORY, os.W_OK) else folder))


def write(image: dict[str, bytes], place: Path) -> None:
    """Put these files, and no others, in a folder."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in image.items():
        (place / name).write_bytes(content)
    if "shop.db-wal" in image:
        (place / "shop.db-shm").write_bytes(SHM)


def losses(place: Path, known: dict[tuple[str, facts.Words], None], *, work: bool) -> Iterator[tuple[str, str]]:
    """Each fact that isn't so, by kind; "broken" for what must hold at any instant. `work`: a worker is tried, too."""
    try:
        # As the application does it after the restart.
        store = SqliteStore(place / "shop.db")
    except Exception as exc:  # what a damaged file makes of itself is anything
        yield "broken", f"it can't be opened: {exc}"
        yield from ((kind, "it can't be opened") for kind, _ in known if kind not in facts.FILES_OF_THEIR_OWN)
        return
    with contextlib.closing(store):
        at = facts.Opened(place, store)
        for kind, words in known:
            try:
                wrong = facts.KINDS[kind](at, *words)
            except Exception as exc:
                wrong = repr(exc)
            if wrong:
                yield kind, f"{json.dumps(words)}: {wrong}"
        try:
            yield from (("broken", text) for text in facts.always(at))
            yield from facts.goes_on(at, known) if work else ()
        except Exception as exc:
            yield "broken", repr(exc)
