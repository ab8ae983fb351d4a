"""One run of shop.py, recorded: the program, its files and what can be said of them."""

import os
import random
import sys
from collections.abc import Collection
from pathlib import Path

from tests.powercut import trace
from tests.powercut.judge import NEW, Found, Judge, State, cuts, write
from tests.powercut.trace import Step

SHOP = Path(__file__).with_name("shop.py")
TOP = SHOP.parent.parent.parent
SEED = os.environ.get("NEXTDUE_POWERCUT_SEED") or ("1" if "CI" in os.environ else str(random.randrange(1_000_000)))
SECONDS = float(os.environ.get("NEXTDUE_POWERCUT_SECONDS", "15"))
"""For how long states of the long run are opened; the others take a part of it."""


class Run:
    """shop.py, run to its end under strace."""

    def __init__(self, part: str, folder: Path, weakness: str = "", start: State = NEW) -> None:
        self.part, self.folder, self.disk = part, folder, folder / "disk"
        self.start = start
        folder.mkdir(parents=True)
        write(start.image, self.disk)
        self.recording = folder / "recording"
        trace.record(
            [sys.executable, str(SHOP), part], self.disk, self.recording,
            PYTHONPATH=str(TOP), SHOP_FOLDER=str(self.disk), SHOP_WEAKNESS=weakness,
        )  # fmt: skip
        self.steps: list[Step] = trace.steps(self.recording, self.disk)

    def cut(self, seconds: float, until: Collection[str] = ()) -> Found:
        """Cut its power for so many seconds."""
        found = Judge(self.steps, self.folder, SEED, self.start).run(seconds, until)
        print(f"{found.states} states at {found.cuts} cuts, seed {SEED}; the recording is {self.recording}")
        return found

    def states(self, count: int) -> list[State]:
        """So many of the states that a power cut may leave, at points all over the run."""
        found = list[State]()
        total = sum(1 for _ in cuts(self.steps, self.start))
        wanted = {(2 * number + 1) * total // (2 * count) for number in range(count)}
        for cut, disk, said in cuts(self.steps, self.start):
            if cut in wanted:
                found.append(State(disk.image(disk.choice(2 + cut % 9, SEED)), list(said)))
        return found

    def left(self) -> dict[str, bytes]:
        """The files that it really left."""
        files = (path for path in self.disk.rglob("*") if path.is_file())
        named = {str(path.relative_to(self.disk)): path for path in files}
        return {n: p.read_bytes() for n, p in named.items() if not n.split("/")[0].endswith(trace.IGNORED)}
