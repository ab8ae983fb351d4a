"""Outcomes that share a commit: with a real worker on a real file."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nextdue import Context, LeaseLost, Nextdue, StoreBusy
from signal_feeds.recording import MOST, Recorder

AGAIN = datetime(2100, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """As the test kit of nextdue ends a worker."""


class Bench:
    """An application whose tasks are recorded together. `fails`: what the writes of these numbers raise."""

    def __init__(self, folder: Path) -> None:
        self.nd = Nextdue(folder / "signal.db")
        self.recorder = Recorder(self._begin)
        self.fails: dict[int, BaseException] = {}
        self.ended: dict[int, object] = {}
        self.commits: list[int] = []
        self.busy = 0
        self._all, self._wanted = asyncio.Event(), 0

        @self.nd.task(limit=1)
        async def note(ctx: Context, number: int) -> None:
            self._wanted -= 1
            if self._wanted == 0:
                self._all.set()
            await self._all.wait()
            try:
                self.ended[number] = await self.recorder.record(ctx, AGAIN, lambda tx: self._write(tx, number))
            except BaseException as error:
                self.ended[number] = error
                raise

        self.note = note
        with self.nd.transaction() as tx:
            tx.execute("CREATE TABLE noted(number INTEGER)")

    @contextmanager
    def _begin(self) -> Iterator[Any]:
        self.commits.append(0)
        if self.busy:
            self.busy -= 1
            raise StoreBusy("somebody writes")
        with self.nd.transaction() as tx:
            yield tx

    def _write(self, tx: Any, number: int) -> int:
        self.commits[-1] += 1
        tx.execute("INSERT INTO noted VALUES (:number)", {"number": number})
        if number in self.fails:
            raise self.fails[number]
        return number * number

    def run(self, count: int) -> None:
        """So many tasks at once, each of a group of its own."""
        self._wanted = count
        for number in range(count):
            self.note.using(key=str(number), group=str(number)).enqueue(number)
        self.nd.run(loop=count, once=True)

    def noted(self) -> list[int]:
        with sqlite3.connect(self.nd.path) as connection:
            rows = connection.execute("SELECT number FROM noted ORDER BY number").fetchall()
        connection.close()
        return [row[0] for row in rows]

    def again(self) -> list[int]:
        """Those that were settled."""
        return sorted(int(str(task.key)) for task in self.nd.find(name="note") if task.due == AGAIN)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.recorder.close()
    bench.nd.close()


def test_those_that_end_together_share_a_commit(bench: Bench) -> None:
    bench.run(10)
    assert bench.ended == {number: number * number for number in range(10)}
    assert bench.noted() == bench.again() == list(range(10))
    assert len(bench.commits) <= 3


def test_a_commit_has_a_bound(bench: Bench) -> None:
    """Others must not wait long for the write lock."""
    bench.run(MOST + 20)
    assert bench.noted() == list(range(MOST + 20))
    assert max(bench.commits) == MOST


def test_one_that_fails_is_alone_with_it(bench: Bench) -> None:
    """Nothing of it is written, and all of the others, once."""
    bench.fails = {3: KeyError("a bug"), 5: sqlite3.IntegrityError("a constraint")}
    bench.run(8)
    kept = [0, 1, 2, 4, 6, 7]
    assert bench.noted() == bench.again() == kept
    assert {number: bench.ended[number] for number in kept} == {number: number * number for number in kept}
    assert [type(bench.ended[number]) for number in (3, 5)] == [KeyError, sqlite3.IntegrityError]


def test_a_lost_lease_writes_nothing(bench: Bench) -> None:
    bench.fails = {2: LeaseLost("another worker has it")}
    bench.run(4)
    assert bench.noted() == [0, 1, 3]
    assert isinstance(bench.ended[2], LeaseLost)


def test_a_file_that_cannot_be_written_is_told_to_all_at_once(bench: Bench) -> None:
    """Each of them alone would wait for the write lock as long as all of them together."""
    bench.busy = 1
    bench.run(8)
    told = [number for number, end in bench.ended.items() if isinstance(end, StoreBusy)]
    assert len(told) > 1
    assert bench.noted() == sorted(set(range(8)) - set(told))
    assert len(bench.commits) <= 3


def test_nobody_waits_for_ever_whatever_is_raised(bench: Bench) -> None:
    """The thread goes on after an exception that is no Exception."""
    bench.fails = {1: Killed()}
    bench.run(3)
    assert sorted(bench.ended) == [0, 1, 2]
    assert bench.noted() == [0, 2]


def test_closed_and_used_anew(bench: Bench) -> None:
    bench.recorder.close()
    bench.recorder.close()
    bench.run(2)
    bench.recorder.close()
    assert bench.noted() == [0, 1]
