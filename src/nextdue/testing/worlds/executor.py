"""Tasks that take simulated time: they end, fail, come back later, or take their worker with them."""

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nextdue.clock import MAX_MS
from nextdue.due import MAX_CRASHES
from nextdue.records import Claim, Ending
from nextdue.testing.worlds.groups import KINDS, RATES


class Poisoned(BaseException):
    """A task has just ended its worker's process."""


@dataclass
class Job:
    """What one task will do, known beforehand: the outcome of each try, the last one for ever."""

    number: int
    name: str
    queue: str
    outcomes: list[str]
    runs_ms: int
    poison: bool = False
    kills: list[bool] = field(default_factory=list)
    """For each worker it ended: whether nothing else ran there."""
    tries: int = 0
    effects: int = 0


def number_of(args: str) -> int:
    """Which job these arguments name."""
    return int(json.loads(args)[0])


class SimExecutor:
    """ports.Executor in simulated time. `judge` is told what is not allowed."""

    def __init__(
        self,
        jobs: dict[int, Job],
        sizes: Mapping[str, int],
        now: Callable[[], int],
        judge: Callable[[str], None],
        finish: Callable[[Claim, int], bool] = lambda claim, ran_ms: True,
    ) -> None:
        """`finish`: a task settles itself; False if its claim is lost."""
        self._finish = finish
        self.jobs, self.sizes, self.now, self.judge = jobs, sizes, now, judge
        self.queue: deque[Claim] = deque()
        self.active: dict[Claim, int] = {}
        self.told: set[Claim] = set()
        """Those that were asked to stop."""
        self._heeding: set[Claim] = set()
        self._ended: list[Ending] = []

    def _room(self, kind: str) -> bool:
        return bool(sum(KINDS[claim.name] == kind for claim in self.active) < self.sizes[kind])

    def start(self, claim: Claim) -> None:
        if self._room(KINDS[claim.name]):
            self._begin(claim, self.now())
            return
        if claim.crashes:
            self.judge(f"task {claim.id} has crashes and was claimed ahead")
        if claim.name in RATES:
            self.judge(f"task {claim.id} has a rate and was claimed ahead")
        self.queue.append(claim)

    def _begin(self, claim: Claim, at: int) -> None:
        others = list(self.active)
        if others and (claim.alone or any(other.alone for other in others)):
            self.judge(f"task {claim.id} runs beside a task that must be tried alone")
        self.active[claim] = at + self.jobs[number_of(claim.args)].runs_ms

    def advance(self, now: int) -> None:
        """Let end what ends by now; what waited takes the free slots at the very moment."""
        while self.active:
            claim = min(self.active, key=lambda c: (self.active[c], c.id))
            at = self.active[claim]
            if at > now:
                return
            job = self.jobs[number_of(claim.args)]
            if job.poison and claim not in self._heeding:
                job.kills.append(len(self.active) == 1 and not self.queue)
                if len(job.kills) > MAX_CRASHES:
                    self.judge(f"a poison task goes on killing\n{job}")
                raise Poisoned
            ending = self._ending(claim, job)
            if ending is None:
                continue
            del self.active[claim]
            self._ended.append(ending)
            self._fill(at)

    def _fill(self, at: int) -> None:
        for claim in list(self.queue):
            if self._room(KINDS[claim.name]):
                self.queue.remove(claim)
                self._begin(claim, at)

    def _ending(self, claim: Claim, job: Job) -> Ending | None:
        """None: it goes on, until the time in `active`."""
        if claim in self._heeding:
            self._heeding.discard(claim)
            return Ending(claim, "cancelled", ran_ms=job.runs_ms)
        kind = job.outcomes[min(job.tries, len(job.outcomes) - 1)]
        job.tries += 1
        if kind == "finished" and not self._finish(claim, job.runs_ms):
            kind = "failed"
        if kind in ("done", "finished"):
            job.effects += 1
        delay = 3_000 + job.number if kind == "snoozed" else None
        return Ending(claim, kind, ran_ms=job.runs_ms, delay_ms=delay)  # type: ignore[arg-type]

    def delay(self, ms: int) -> None:
        """The process stood still for so long, and its tasks with it."""
        for claim in self.active:
            self.active[claim] += ms

    def next_end(self) -> int:
        """When the next task ends by itself, on the clock that nobody sets."""
        return 0 if self._ended else min(self.active.values(), default=MAX_MS)

    def finished(self) -> list[Ending]:
        ended, self._ended = self._ended, []
        return ended

    def limit_ms(self) -> int | None:
        return None

    def cancel(self, claim: Claim) -> None:
        """Two of three heed it at their next moment, the others never; what isn't started ends at once."""
        self.told.add(claim)
        if claim in self.queue:
            self.queue.remove(claim)
            self._ended.append(Ending(claim, "cancelled"))
        elif claim in self.active and number_of(claim.args) % 3:
            self._heeding.add(claim)
            self.active[claim] = min(self.active[claim], self.now() + 5)

    def progress(self) -> list[tuple[Claim, str]]:
        return []

    def waiting(self, kind: str | None = None) -> int:
        return sum(kind in (None, KINDS[claim.name]) for claim in self.queue)

    def withdraw(self) -> list[Claim]:
        claims = list(self.queue)
        self.queue.clear()
        return claims

    def settled(self, claim: Claim) -> bool:
        return False

    def lose(self, claim: Claim) -> None:
        if claim in self.queue:
            self.queue.remove(claim)
        self.active.pop(claim, None)
        self._fill(self.now())

    def close(self) -> None:
        self.queue.clear()
        self.active.clear()
