"""The contract between the worker and the world: what a store, an alarm and an executor promise.

Each sentence of these docstrings is a contract test. A verb is one transaction; a settling verb shows the token.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Flag, auto
from typing import Protocol

from nextdue.records import Claim, Ending, Look, Put, RunView, Serving, Stored, TaskView, TickAnswer, TickRequest


class Store(Protocol):
    """The only memory and the only clock. `now` is read when the write lock is held.

    One object is used by one thread at a time and in the process that made it.
    """

    def put(self, puts: Sequence[Put]) -> tuple[list[Stored], bool]:
        """Store tasks; on return they are on disk. With a key, its mode decides:

        - ignore, reject: a key in use answers what exists and changes nothing.
        - replace, earliest, extend: a waiting task gets the new arguments, and the new due, the earlier or the later
          of both (at most `latest_ms` after it was made).
        - these and again: a running task gets a next life with the new arguments, which begins when its attempt is
          settled, whatever the outcome. More wishes until then are joined to one in the same way.
        - dead, cancelled and forgotten rows start a new life, in these four modes those done as well; held ones don't.

        Also says whether to ring: one of them is the nearest of its lane.
        """
        ...

    def put_many(self, like: Put, calls: str, count: int) -> tuple[range, bool]:
        """Store many unkeyed tasks that differ in nothing but their arguments: all of them or none.

        `calls` is a JSON array of `count` arrays of arguments. Answers their ids, and whether to ring.
        """
        ...

    def enlist(self) -> int:
        """A new worker number, never used before. From now on its death is noticed by its neighbours."""
        ...

    def resign(self, worker: int) -> None:
        """The end of an orderly worker, which holds no rows any more."""
        ...

    def serve(self, names: Mapping[str, Serving], queues: Sequence[str] | None) -> None:
        """Open the lanes of these task names and queues (None = all of them) that aren't paused."""
        ...

    def tick(self, request: TickRequest) -> TickAnswer:
        """In one transaction: settle, renew, claim.

        A settlement whose (id, token) no longer stands changes nothing and is answered in `lost`. Renewal comes
        before the claim. A claim takes only due rows of open lanes, by priority and due, sets due = now + lease,
        a token that is unique to this tick, claims + 1, and crashes + 1 if it takes over an expired lease.

        What is past its `expires` is recorded as expired instead. Of a group with a limit no more than that run at
        once, in all workers; the others are set aside until one of them ends. Of a group with a rate the starts keep
        their distance; who comes too early gets the next free slot as its due. What was asked to stop isn't tried
        again.
        """
        ...

    def look(self, worker: int) -> Look:
        """The nearest due of exactly the rows that tick() could claim, and what was asked to stop. Writes nothing."""
        ...

    def stops(self, worker: int) -> list[tuple[int, int]]:
        """(id, token) of this worker's rows that were asked to stop."""
        ...

    def bury(self) -> list[int]:
        """Find neighbours that died; give back their rows, due after a short back-off, with crashes + 1."""
        ...

    def get(self, id: int) -> TaskView | None:
        """A task by its id, from its row, the run history or a result that outlived both; None if nothing is there."""
        ...

    def by_key(self, name: str, key: str) -> TaskView | None:
        """The task that holds this key, if any."""
        ...

    def runs(self, *, task: int | None = None, limit: int = 100) -> list[RunView]:
        """The run history, newest first."""
        ...

    def cancel(self, id: int) -> str:
        """Cancel a waiting, held or dead task, ask a running one to stop; answers its state afterwards."""
        ...

    def close(self) -> None:
        """Let go of the file. Nothing is lost by not calling it."""
        ...


class Woken(Flag):
    """Why a sleep ended."""

    DUE = auto()
    CALLED = auto()
    DEATH = auto()
    LIMIT = auto()


class Alarm(Protocol):
    """Sleeping exactly as long as nothing is to be done. A wake-up is never lost."""

    def ring(self) -> None:
        """Make every idle worker of this store, in any process, look again. Called after the commit."""
        ...

    def call(self) -> None:
        """End the sleep of this alarm from another thread or a signal handler of this process."""
        ...

    def sleep(self, look: Callable[[], int | None], limit_ms: int | None, *, full: bool = False) -> Woken:
        """Return when `look()` answers 0 ms or less, after call(), when a neighbour died, or after `limit_ms`.

        `look` answers the ms until something is due, or None; it is asked once at the start and again after
        every ring and every foreign commit. `full`: there is no room for more, so commits don't count.
        """
        ...

    def close(self) -> None:
        """Let go of its files."""
        ...


class Executor(Protocol):
    """Runs claims and reports endings. Knows no store."""

    def start(self, claim: Claim) -> None:
        """Run this claim when a slot is free, in order."""
        ...

    def finished(self) -> list[Ending]:
        """The endings since the last call, each claim once; among them those whose time limit passed."""
        ...

    def limit_ms(self) -> int | None:
        """Milliseconds until the next time limit passes, if any."""
        ...

    def cancel(self, claim: Claim) -> None:
        """Its cancellation was asked for: tell the task, which ends when it sees it, or end it if that can be done."""
        ...

    def progress(self) -> list[tuple[Claim, str]]:
        """What running tasks said of themselves since the last call, each as JSON: [progress] or [progress, cursor].

        Progress is [done, total, note], or null.
        """
        ...

    def waiting(self, kind: str | None = None) -> int:
        """How many claims aren't started yet: of this kind of executor, or of all."""
        ...

    def withdraw(self) -> list[Claim]:
        """Take back all that isn't started."""
        ...

    def settled(self, claim: Claim) -> bool:
        """Whether this running claim has settled itself, so that it is no longer held though nothing was lost."""
        ...

    def lose(self, claim: Claim) -> None:
        """Tell a running claim that its lease is lost; its ending is no longer reported."""
        ...

    def close(self) -> None:
        """Take no more; what still runs is abandoned."""
        ...
