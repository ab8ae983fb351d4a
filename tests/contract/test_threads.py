"""How threads share a line of claims. Real threads; waits for what happens, as long as it takes."""

import threading
import time
from collections import Counter

import pytest

from nextdue import Nextdue
from nextdue.executors.threads import ThreadExecutor
from nextdue.records import Claim
from tests.process.harness import until

SIZE = 4


class Line:
    """An executor of four threads, whose tasks note who ran them."""

    def __init__(self, nd: Nextdue) -> None:
        self.ran_by: Counter[str] = Counter()
        self.ran: list[int] = []
        self.free = threading.Event()
        self.free.set()

        @nd.task
        def note(n: int) -> None:
            self.ran_by[threading.current_thread().name] += 1
            self.free.wait(20)
            self.ran.append(n)

        self.executor = ThreadExecutor(SIZE, nd.definitions, lambda: None)

    def start(self, n: int) -> Claim:
        claim = Claim(n, 1, "note", f"[{n}]", None, 0, 0, 1, 0, 0)
        self.executor.start(claim)
        return claim

    def threads(self) -> int:
        mine = {thread.ident for thread in threading.enumerate() if thread.name.startswith("nextdue-")}
        return len(mine - OTHERS)


OTHERS: set[int | None] = set()


@pytest.fixture
def line(tmp_path):
    OTHERS.update(thread.ident for thread in threading.enumerate())
    line = Line(Nextdue(tmp_path / "shop.db"))
    yield line
    line.free.set()
    line.executor.close()
    until(lambda: line.threads() == 0)
    OTHERS.clear()


def test_what_comes_one_after_the_other_is_run_by_one_thread(line: Line) -> None:
    """Each further thread would be woken with cold caches, and fight for the interpreter."""
    for n in range(50):
        line.start(n)
        until(lambda: len(line.executor._idle) == 1)
    assert line.ran == list(range(50))
    assert list(line.ran_by.values()) == [50]


def test_a_line_is_served_by_all_that_may_run_and_by_no_more(line: Line) -> None:
    line.free.clear()
    claims = [line.start(n) for n in range(10)]
    until(lambda: line.ran_by.total() == SIZE)
    assert (line.threads(), line.executor.waiting()) == (SIZE, 6)
    line.executor.lose(claims[9])
    assert line.executor.withdraw() == claims[4:9]
    line.free.set()
    until(lambda: len(line.ran) == SIZE)
    assert sorted(line.ran) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(3))
def test_none_is_forgotten_or_run_twice(line: Line, seed: int) -> None:
    """A claim may come at any moment of a thread that goes to rest: between its look at the line and its waiting."""
    count = 0
    for burst in range(200):
        for _ in range(1 + (burst * 7 + seed) % 9):
            line.start(count)
            count += 1
        time.sleep((burst * 13 + seed) % 5 * 0.000_1)
    ended: list[int] = []

    def all_ended() -> bool:
        ended.extend(ending.claim.id for ending in line.executor.finished())
        return len(ended) == count

    until(all_ended)
    assert sorted(line.ran) == sorted(ended) == list(range(count))
