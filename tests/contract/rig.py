"""Child processes as a worker has them, and what it does with them."""

import threading
import time
from itertools import count
from pathlib import Path

import msgspec

from nextdue import Nextdue
from nextdue.executors.process import ProcessExecutor
from nextdue.records import Claim, Ending
from tests.contract import chores


class Rig:
    """An executor, and what a worker does with it."""

    def __init__(self, size: int = 1, nd: Nextdue = chores.nd, **options) -> None:
        self.woken = threading.Event()
        self.executor = ProcessExecutor(size, nd.definitions, self.woken.set, **options)
        self.numbers = count(1)
        self.endings: list[Ending] = []

    def start(self, name: str, *args: object, **fields) -> Claim:
        number = next(self.numbers)
        claim = Claim(number, 1 << 32 | number, name, msgspec.json.encode(args).decode(), None, 0, 0, 1, 0, 0)
        claim = msgspec.structs.replace(claim, **fields)
        self.executor.start(claim)
        return claim

    def turn(self) -> None:
        """One turn of the worker's loop."""
        limit = self.executor.limit_ms()
        self.woken.wait(0.05 if limit is None else min(0.05, limit / 1000))
        self.woken.clear()
        self.endings += self.executor.finished()

    def ended(self, number: int, seconds: float = 20) -> list[Ending]:
        end = time.monotonic() + seconds
        while len(self.endings) < number:
            assert time.monotonic() < end, f"only {self.endings}"
            self.turn()
        return self.endings

    def sees(self, condition, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{condition} did not come; ended: {self.endings}"
            self.turn()

    def run(self, name: str, *args: object, **fields) -> Ending:
        self.start(name, *args, **fields)
        return self.ended(len(self.endings) + 1)[-1]


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
