"""The files of one folder as a disk may hold them: what is there for certain, and what may be there or not.

The rules, as weak as any file system in use has them (Pillai et al., "All File Systems Are Not Created Equal", OSDI
2014, call this an abstract persistence model):

- A write may be lost, or torn at a multiple of 512 bytes, until an fsync or fdatasync of its file that began after it.
  So may a change of the size. Any of them may reach the disk before those that were made earlier.
- A file that has grown may have its new size and not yet its data: zeros, or what lay on the disk before.
- A new name, a rename and an unlink may be lost until an fsync of the folder, each by itself; a rename is never half
  done. An fsync of the file doesn't keep its name (on ext4, xfs and btrfs it does, for a new file).
- What a write doesn't touch isn't damaged by it (SQLite's "powersafe overwrite").
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.powercut.trace import Step, Unknown

SECTOR, PAGE = 512, 4096
FEW = 6
"""So many of the pending changes are left out, kept alone and torn, one after the other; random states do the rest."""


@dataclass(eq=False)
class File:
    """One file, whatever its names."""

    certain: bytearray = field(default_factory=bytearray)
    mark: int = 0
    """Stands for the changes of which that is made."""


@dataclass(eq=False)
class Change:
    """Something that may be on the disk or not."""

    step: Step
    file: File
    folder: str
    """Of a change of names: the folder whose fsync makes it certain. "" for a change of the file's content."""


class Kept(NamedTuple):
    """What became of the pending changes, by their places: which are there, wholly or in part."""

    label: str
    pieces: dict[int, Sequence[tuple[int, int]]]
    """Place of the change to the parts of its data that are there; WHOLE for all, () for the size alone."""
    filler: int = 0
    """What stands where a file has grown and its data is missing."""


WHOLE = ((0, 1 << 62),)


def parent(path: str) -> str:
    """The folder in which this name lies."""
    return path.rpartition("/")[0] or "."


class Disk:
    """The folder, change by change. `now` is what programs see, `names` (and File.certain) what is certainly there."""

    def __init__(self, image: Mapping[str, bytes] | None = None) -> None:
        self.names = {name: File(bytearray(content)) for name, content in (image or {}).items()}
        self.now = dict(self.names)
        self.folders = {"."}
        self.pending: list[Change] = []
        self._nameless: dict[str, File] = {}

    def begin(self, step: Step) -> None:
        """From now on this may be on the disk."""
        getattr(self, f"_{step.kind}")(step)

    def sync(self, step: Step) -> None:
        """All that had ended when this fsync began is on the disk."""
        folder, file = step.path in self.folders, None
        if not folder:
            file = self._file(step)
        for change in [c for c in self.pending if c.step.ended < step.begun]:
            mine = change.folder == step.path if folder else not change.folder and change.file is file
            if mine:
                self.pending.remove(change)
                if folder:
                    _rename(self.names, change)
                else:
                    _write(change.file.certain, change.step, WHOLE, 0)
                    change.file.mark = _marked(change.file.mark, change, WHOLE, 0)

    def _file(self, step: Step) -> File:
        known = self._nameless if step.nameless or step.path not in self.now else self.now
        if step.path not in known:
            raise Unknown(f"{step.path} is used, and it was never made")
        return known[step.path]

    # each kind of step

    def _open(self, step: Step) -> None:
        if step.path not in self.now:
            self.now[step.path] = File()
            self.pending.append(Change(step, self.now[step.path], parent(step.path)))
        elif step.at:
            self.pending.append(Change(step._replace(kind="size", at=0), self.now[step.path], ""))

    def _write(self, step: Step) -> None:
        self.pending.append(Change(step, self._file(step), ""))

    _size = _write

    def _rename(self, step: Step) -> None:
        if parent(step.path) != parent(step.to):
            raise Unknown(f"{step.path} is moved to another folder")
        change = Change(step, self._file(step), parent(step.path))
        for name in (step.path, step.to):
            if name in self.now and self.now[name] is not change.file:
                self._nameless[name] = self.now[name]
        _rename(self.now, change)
        self.pending.append(change)

    _link = _rename

    def _unlink(self, step: Step) -> None:
        if step.path in self.folders:
            self.folders.discard(step.path)
            return
        self._nameless[step.path] = self.now[step.path]
        self.pending.append(Change(step, self.now.pop(step.path), parent(step.path)))

    def _mkdir(self, step: Step) -> None:
        self.folders.add(step.path)

    def _sync(self, step: Step) -> None:
        """It takes effect at its end."""

    _said = _sync

    # what a power cut leaves

    def image(self, kept: Kept) -> dict[str, bytes]:
        """The files, by name, if of the pending changes just these have reached the disk."""
        names = dict(self.names)
        contents: dict[int, bytearray] = {}
        for place, pieces in sorted(kept.pieces.items()):
            change = self.pending[place]
            if change.folder:
                _rename(names, change)
            else:
                content = contents.setdefault(id(change.file), bytearray(change.file.certain))
                _write(content, change.step, pieces, kept.filler)
        return {name: bytes(contents.get(id(file), file.certain)) for name, file in names.items()}

    def mark(self, kept: Kept) -> int:
        """The same number for the same image."""
        names = dict(self.names)
        marks: dict[int, int] = {}
        for place, pieces in sorted(kept.pieces.items()):
            change = self.pending[place]
            if change.folder:
                _rename(names, change)
            else:
                before = marks.get(id(change.file), change.file.mark)
                marks[id(change.file)] = _marked(before, change, pieces, kept.filler)
        return hash(frozenset((name, id(file), marks.get(id(file), file.mark)) for name, file in names.items()))

    def all(self) -> Kept:
        """All changes are there: what programs see."""
        return Kept("everything", dict.fromkeys(range(len(self.pending)), WHOLE))

    def choice(self, number: int, seed: str) -> Kept:
        """The number-th way in which the pending changes may have reached the disk.

        Not at all, all of them, then the systematic ones and as many random ones, mixed, and random ones without end.
        """
        chance = random.Random(f"{seed} {number}")
        if number < 2:
            return self.all() if number else Kept("nothing that wasn't synced", {})
        order = random.Random(seed)
        ways = list(self._systematic(order))
        mixed = order.sample(range(2 * len(ways)), 2 * len(ways))
        place = mixed[number - 2] if number - 2 < len(mixed) else len(ways)
        return ways[place] if place < len(ways) else self._random(chance)

    def _systematic(self, chance: random.Random) -> Iterator[Kept]:
        places = range(len(self.pending))
        named = [p for p in places if self.pending[p].folder]
        files = [p for p in places if not self.pending[p].folder]
        yield Kept("the names alone", dict.fromkeys(named, WHOLE))
        yield Kept("the contents alone", dict.fromkeys(files, WHOLE))
        for filler in (0, 0xA5):
            sizes: dict[int, Sequence[tuple[int, int]]]
            sizes = {p: () if self.pending[p].step.kind == "write" else WHOLE for p in places}
            yield Kept(f"the sizes, filled with {filler:#x}", sizes, filler)
        for file in dict.fromkeys(self.pending[p].file for p in files):
            alone = [p for p in files if self.pending[p].file is file]
            yield Kept("one file alone", dict.fromkeys([*named, *alone], WHOLE))
            yield Kept("all but one file", dict.fromkeys([p for p in places if p not in alone], WHOLE))
        for place in _some(places, chance):
            yield Kept(f"all but change {place}", {p: WHOLE for p in places if p != place})
            yield Kept(f"change {place} alone", {place: WHOLE})
            if place in files and self.pending[place].step.kind == "write":
                for label, pieces in _halves(self.pending[place].step):
                    yield Kept(f"{label} of change {place}", dict.fromkeys(places, WHOLE) | {place: pieces})

    def _random(self, chance: random.Random) -> Kept:
        likely = chance.choice((0.2, 0.5, 0.8, 0.95))
        pieces: dict[int, Sequence[tuple[int, int]]] = {}
        for place, change in enumerate(self.pending):
            if chance.random() < likely:
                torn = change.step.kind == "write" and chance.random() < 0.3
                pieces[place] = _torn(change.step, chance) if torn else WHOLE
        return Kept("a random part", pieces, chance.choice((0, 0xA5)))


def _rename(names: dict[str, File], change: Change) -> None:
    """Do to the names what this change does."""
    step = change.step
    if step.kind == "unlink":
        names.pop(step.path, None)
        return
    names[step.to or step.path] = change.file
    if step.kind == "rename" and names.get(step.path) is change.file:
        del names[step.path]


def _write(content: bytearray, step: Step, pieces: Sequence[tuple[int, int]], filler: int) -> None:
    """Do to a content what these parts of a write, or a change of size, do."""
    end = step.at if step.kind == "size" else step.at + len(step.data)
    if step.kind == "size":
        del content[end:]
    grown = end - len(content)
    if grown > 0:
        content.extend(bytes([filler]) * grown if step.kind == "write" else bytes(grown))
    for start, stop in pieces if step.kind == "write" else ():
        content[step.at + start : min(step.at + stop, end)] = step.data[start:stop]


def _marked(mark: int, change: Change, pieces: Sequence[tuple[int, int]], filler: int) -> int:
    """The mark of a file after one more change; the filler matters only where some of it may be seen."""
    return hash((mark, change.step.begun, change.step.kind, tuple(pieces), filler if pieces != WHOLE else 0))


def _edges(step: Step, unit: int) -> list[int]:
    """Where a write may be torn: its own ends, and the multiples of a unit on the disk between them."""
    end = len(step.data)
    return [0, *range(unit - step.at % unit, end, unit), end]


def _halves(step: Step) -> Iterator[tuple[str, Sequence[tuple[int, int]]]]:
    for unit in (SECTOR, PAGE):
        edges = _edges(step, unit)
        if len(edges) > 2:
            middle = edges[len(edges) // 2]
            yield f"the first half (by {unit})", ((0, middle),)
            yield f"the second half (by {unit})", ((middle, len(step.data)),)


def _torn(step: Step, chance: random.Random) -> Sequence[tuple[int, int]]:
    edges = _edges(step, chance.choice((SECTOR, PAGE)))
    return [(a, b) for a, b in itertools.pairwise(edges) if chance.random() < 0.5]


def _some(places: range, chance: random.Random) -> list[int]:
    """The first and last few of them, and a few of the others."""
    if len(places) <= FEW:
        return list(places)
    ends = [places[0], *places[-3:]]
    return ends + chance.sample([p for p in places if p not in ends], FEW - len(ends))
