"""The engine's own parts, with the points at which a test may end the worker."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from nextdue import points
from nextdue.aio import in_thread
from nextdue.desk import Desk, Tell
from nextdue.errors import BadDefinition, BadTransaction
from nextdue.executors.context import Definition
from nextdue.executors.inline import InlineExecutor
from nextdue.records import Claim, Ending, Mark, Put, Stored, TickAnswer, TickRequest
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.store import SqliteStore
from nextdue.sqlite.tx import Finish, Transaction
from nextdue.sqlite.waiting import Ended, Waits, ended
from nextdue.testing.clock import FakeClock
from nextdue.testing.crashes import Crashes, NeverEnds, within
from nextdue.testing.failures import Failures

RunUntil = Callable[[Callable[[], bool], float | None], bool]


class SandboxStore(SqliteStore):
    """The store under the fake clock. A tick does one thing, so that a crash hits only what it is aimed at."""

    def __init__(self, path: Path, clock: FakeClock, crashes: Crashes, *, keep_rows: int, keep_ms: int) -> None:
        super().__init__(path, keep_rows=keep_rows, keep_ms=keep_ms, now=clock.now, monotonic_ms=clock.monotonic_ms)
        self._crashes = crashes
        self._running: list[str] = []

    def tick(self, request: TickRequest) -> TickAnswer:
        # Not what was given back unstarted, nor what is declared dead for the crashes it caused.
        settled = [s.name for s in request.settlements if s.outcome != "released" and s.reason != "worker_died"]
        if settled:
            self._pass("settle", settled)
        elif self._renews(request):
            self._pass("renew", self._running)
        answer = super().tick(request._replace(ahead=0, slots=0 if request.settlements else request.slots))
        self._pass("commit", settled)
        self._running = [claim.name for claim in answer.claims] or self._running
        self._pass("claim", [claim.name for claim in answer.claims])
        return answer

    def _renews(self, request: TickRequest) -> bool:
        age = self.now_ms() - request.renewed_ms
        return request.renew_every_ms > 0 and not 0 <= age <= request.renew_every_ms

    def _pass(self, point: str, tasks: list[str]) -> None:
        for task in tasks:
            self._crashes.passing(point, task)


class SandboxWaits(Waits):
    """Whoever waits for a task's end lets the sandbox work meanwhile: nobody else would."""

    def __init__(self, caller: Caller, run_until: RunUntil) -> None:
        super().__init__(caller.path, caller._make)
        self._caller, self._run_until = caller, run_until

    def ended(self, id: int, seconds: float | None) -> Ended | None:
        def over() -> bool:
            with self._caller.use() as store:
                return bool(ended(store, [id]))

        if not self._run_until(over, seconds) and seconds is None:
            raise NeverEnds(f"task #{id} is waited for without a timeout, and nothing that falls due would end it")
        return None  # whoever asked looks once more

    async def aended(self, id: int, seconds: float | None) -> Ended | None:
        return await in_thread(self.ended, id, seconds)


@contextlib.contextmanager
def _enqueuing(task: str) -> Iterator[None]:
    points.point("enqueue", task)
    yield
    points.point("enqueued", task)


class SandboxCaller(Caller):
    """The way into the sandbox's file."""

    def __init__(self, path: Path, make: Callable[[], SqliteStore], run_until: RunUntil) -> None:
        super().__init__(path, make)
        self.waits = SandboxWaits(self, run_until)

    def put(self, put: Put) -> Stored:
        with _enqueuing(put.name):
            return super().put(put)

    def put_many(self, like: Put, calls: str, count: int) -> range:
        with _enqueuing(like.name):
            return super().put_many(like, calls, count)


class SandboxDesk(Desk):
    """The desk of the sandbox's file. A task whose worker is dead marks nothing there, whatever it catches."""

    def __init__(self, path: Path, make_store: Callable[[], SqliteStore], crashes: Crashes) -> None:
        super().__init__(path, make_store)
        self._crashes = crashes

    def mark(self, claim: Claim, label: str) -> Mark | None:
        self._crashes.die_if_dead()
        return super().mark(claim, label)

    def begin(self, claim: Claim, label: str, how: str) -> None:
        self._crashes.die_if_dead()
        super().begin(claim, label, how)

    def end(self, claim: Claim, label: str, result: str | None, problem: str | None) -> None:
        self._crashes.die_if_dead()
        super().end(claim, label, result, problem)

    def withdraw(self, claim: Claim, label: str) -> None:
        self._crashes.die_if_dead()
        super().withdraw(claim, label)

    def wait(self, claim: Claim, label: str, event: str | None, ms: int | None, *, tell: Tell, begun_ns: int) -> Mark:
        self._crashes.die_if_dead()
        return super().wait(claim, label, event, ms, tell=tell, begun_ns=begun_ns)

    def put(self, tx: object, put: Put) -> Stored:
        with _enqueuing(put.name):
            return super().put(tx, put)

    def put_many(self, tx: object, like: Put, calls: str, count: int) -> range:
        with _enqueuing(like.name):
            return super().put_many(tx, like, calls, count)

    @contextlib.contextmanager
    def own_finish(self, claim: Claim, end: Callable[[SqliteStore], Finish]) -> Iterator[Transaction]:
        with super().own_finish(claim, end) as tx:
            yield tx
            points.point("finish")
        points.point("finished")

    def _another(self, file: object) -> BadTransaction:
        return BadTransaction(
            f"tx is a transaction on {file}, and in this test the tasks are kept in {self.path}: let connections of "
            "yours lead to nd.path too, as those of an engine that is made after use(nd)"
        )

    def guest_settle(self, claim: Claim, tx: object, end: Callable[[SqliteStore], Finish], tell: Tell) -> None:
        points.point("finish")
        super().guest_settle(claim, tx, end, tell)


class SandboxExecutor(InlineExecutor):
    """The inline executor under the fake clock: one task at a time, each for as long as it is said to take.

    The function is run when its time begins and its ending is told when that is over.
    """

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        desk: Desk,
        clock: FakeClock,
        crashes: Crashes,
        failures: Failures,
        takes_ms: Mapping[str, int],
        patience: Callable[[], float],
    ) -> None:
        self._watched: dict[str, Definition] = {}
        super().__init__(self._watched, desk)
        self._declared, self._clock, self._crashes, self._failures = definitions, clock, crashes, failures
        self._takes_ms, self._patience = takes_ms, patience
        self._running: tuple[Claim, Ending, int] | None = None
        self.calls = 0
        """How many functions of the user's were called so far."""
        self.busy = False
        """Whether one runs at this moment."""

    def finished(self) -> list[Ending]:
        if self._running is None and self._queue:
            claim = self._queue.pop(0)
            self._running = (claim, *self._limited(claim, self._run(claim)))
        if self._running is None or self._clock.monotonic_ms() < self._running[2]:
            return []
        _, ending, _ = self._running
        self._running = None
        return [ending]

    def _run(self, claim: Claim) -> Ending:
        endings: list[Ending] = []

        def run() -> None:
            endings.append(super(SandboxExecutor, self)._run(claim))

        self._watched[claim.name] = self._failures.watched(self._declared[claim.name])
        self.calls += 1
        self.busy = True
        try:
            with points.watched(lambda point, what: self._crashes.passing(point, claim.name, what)):
                ended = within(self._patience(), run)
        finally:
            self.busy = False
        if not ended:
            raise NeverEnds(
                f"{claim.name} #{claim.id} ran for over {self._patience():g} s of real time; "
                "if it needs that long, raise the sandbox's `patience`"
            ) from self._failures.cut()
        self._crashes.die_if_dead()
        self._failures.ended(claim, endings[0])
        return endings[0]

    def _limited(self, claim: Claim, ending: Ending) -> tuple[Ending, int]:
        """What becomes of it after the time that it takes, and when that is."""
        takes = self._takes_ms.get(claim.name, 0)
        limit = self._definitions[claim.name].options.time_limit_ms
        if limit is not None and takes > limit:
            message = f"it ran for over its time limit of {limit / 1000:g} s"
            ending, takes = Ending(claim, "failed", ran_ms=limit, reason="time_limit", message=message), limit
        elif takes:
            ending = msgspec.structs.replace(ending, ran_ms=takes)
        return ending, self._clock.monotonic_ms() + takes

    def limit_ms(self) -> int | None:
        if self._running is not None:
            return max(0, self._running[2] - self._clock.monotonic_ms())
        return super().limit_ms()

    def lose(self, claim: Claim) -> None:
        super().lose(claim)
        if self._running is not None and self._running[0] == claim:
            self._running = None

    def close(self) -> None:
        self._running = None
        super().close()


class Idle:
    """Stands for the worker that an application starts by itself: in a sandbox the sandbox works."""

    def start(self) -> "Idle":
        """Nothing is started."""
        return self

    def stop(self, grace: object = None) -> None:
        """Nothing is stopped."""

    def alive(self) -> bool:
        """No thread works."""
        return False

    def run(self) -> None:
        """Raises BadDefinition: it would wait for a time that only the test can let pass."""
        raise BadDefinition("run() would work for ever in a test; drain() and advance() of the sandbox work instead")

    def __enter__(self) -> "Idle":
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing is stopped."""

    async def __aenter__(self) -> "Idle":
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is stopped."""
