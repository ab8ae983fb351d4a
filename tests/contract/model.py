"""What a store does, said once more in plain Python: lists and loops instead of SQL."""

from dataclasses import dataclass, field

from nextdue.clock import MAX_MS
from nextdue.due import believed_lease_ms


@dataclass
class Task:
    id: int
    name: str
    queue: str
    priority: int
    args: str
    due: int | None
    key: str | None = None
    remember: int = 0
    rest: str | None = None
    token: int | None = None
    alone: int = 0
    attempts: int = 0
    crashes: int = 0
    claims: int = 0
    scheduled_for: int | None = None
    gone_at: int | None = None
    latest: int | None = None
    again_due: int | None = None
    again_args: str | None = None
    stop: int | None = None

    def state(self) -> str:
        if self.token is not None:
            return "running"
        return "waiting" if self.due is not None else self.rest or ""

    def lane(self) -> tuple:
        return self.queue, self.name, self.priority, self.alone

    def next_life(self) -> None:
        """What was asked for while it ran begins."""
        self.due, self.args, self.rest = self.again_due, self.again_args or "", None
        self.attempts = self.crashes = self.claims = 0
        self.scheduled_for = self.again_due = self.again_args = None

    def halt(self, now: int) -> None:
        """It was asked to stop and came to its end."""
        if self.again_due is not None:
            self.next_life()
        else:
            self.due, self.rest, self.gone_at = None, "cancelled", now + self.remember
        self.token = self.stop = None


@dataclass
class Served:
    """A worker: what it serves and since when (monotonic) it knows the time."""

    number: int
    leases: dict[str, int]
    queues: tuple[str, ...] | None
    steady_since: int | None = None

    def serves(self, task: Task) -> bool:
        return task.name in self.leases and (self.queues is None or task.queue in self.queues)


@dataclass
class Model:
    tasks: dict[int, Task] = field(default_factory=dict)
    runs: list[tuple[int, str]] = field(default_factory=list)

    # putting

    def put(self, new: Task, now: int, mode: str = "ignore") -> tuple[bool, str]:
        """Whether this put made a task, and the state of what holds its key; `new.id` is set if a row lives on."""
        old = next((t for t in self.tasks.values() if (t.name, t.key) == (new.name, new.key) and new.key), None)
        if old is not None:
            new.id = old.id
            changing = mode not in ("ignore", "reject")
            ended = old.rest == "done" and old.gone_at is not None and (old.gone_at <= now or changing)
            if old.rest not in ("dead", "cancelled") and not ended:
                if changing and old.token is not None:
                    self._wish(old, new, mode)
                elif changing and mode != "again" and old.due is not None:
                    self._change(old, new, mode)
                return False, old.state()
        self.tasks[new.id] = new
        return True, "waiting"

    def _wish(self, old: Task, new: Task, mode: str) -> None:
        """For what runs: its next life; later wishes are joined to it."""
        assert new.due is not None
        if old.again_due is None:
            old.latest = new.latest
            old.again_due = new.due
        bound = MAX_MS if old.latest is None else old.latest
        joined = {"replace": new.due, "extend": min(max(new.due, old.again_due), bound)}
        old.again_due = joined.get(mode, min(new.due, old.again_due))
        old.again_args = new.args

    def _change(self, old: Task, new: Task, mode: str) -> None:
        """For what waits: the newest arguments, and the due of the mode."""
        assert new.due is not None
        assert old.due is not None
        if old.args != new.args:
            old.crashes = min(old.crashes, 2)
        old.args, old.again_due, old.again_args = new.args, None, None
        bound = MAX_MS if old.latest is None else max(old.latest, old.due)
        if mode == "replace":
            old.due, old.queue, old.priority, old.alone = new.due, new.queue, new.priority, 0
            old.attempts, old.scheduled_for = 0, None
        else:
            old.due = min(new.due, old.due) if mode == "earliest" else min(max(new.due, old.due), bound)

    def nearest(self, id: int) -> bool:
        """Whether nobody of its lane that waits comes before it."""
        me = self.tasks[id]
        others = [t for t in self.tasks.values() if t.lane() == me.lane() and t.due is not None and t.token is None]
        return all((me.due, me.id) <= (t.due, t.id) for t in others)

    def cancel(self, id: int, now: int) -> str:
        task = self.tasks.get(id)
        if task is None:
            last = [outcome for of, outcome in self.runs if of == id]
            return last[-1] if last and last[-1] in ("done", "cancelled") else "gone"
        if task.token is not None:
            task.stop, task.again_due, task.again_args = task.stop or now, None, None
        if task.state() not in ("waiting", "held", "dead"):
            return task.state()
        self.runs.append((id, "cancelled"))
        task.due, task.rest, task.gone_at = None, "cancelled", now + task.remember
        task.again_due = task.again_args = None
        if task.key is None:
            del self.tasks[id]
        return "cancelled"

    # a worker's verbs

    def believes(self, worker: Served, task: Task, monotonic: int) -> bool:
        steady = 0 if worker.steady_since is None else monotonic - worker.steady_since
        return task.token is None or worker.leases[task.name] <= believed_lease_ms(steady)

    def claimable(self, worker: Served, now: int, monotonic: int, *, alone: int, fair: bool = False) -> list[Task]:
        rows = [
            t
            for t in self.tasks.values()
            if t.due is not None and t.due <= now and t.alone == alone and worker.serves(t)
            if self.believes(worker, t, monotonic)
        ]
        return sorted(rows, key=lambda t: (0 if fair else -t.priority, t.due, t.id))

    def look(self, worker: Served, now: int, monotonic: int, *, alone: int) -> int | None:
        dues = [
            t.due
            for t in self.tasks.values()
            if t.due is not None and t.alone == alone and worker.serves(t)
            if t.due > now or self.believes(worker, t, monotonic)
        ]
        return min(dues, default=None)

    def settle(self, worker: Served, settlements: list, now: int) -> list[tuple[int, int]]:
        """Answers those that were lost."""
        lost = []
        for s in settlements:
            task = self.tasks.get(s.id)
            if task is None or task.token != s.token:
                lost.append((s.id, s.token))
                continue
            halted = task.stop is not None and s.delay_ms is not None
            self.runs.append((s.id, "cancelled" if halted else s.outcome))
            if s.forget or (halted and task.key is None):
                del self.tasks[s.id]
                continue
            if halted:
                task.attempts, task.crashes, task.alone = s.attempts, s.crashes, int(s.alone)
                alone = 0 if task.again_due is not None else task.alone
                task.halt(now)
                task.alone = alone
                continue
            task.token = task.stop = None
            if task.again_due is not None and s.outcome != "released":
                task.next_life()
                task.alone = 0
                continue
            task.rest = s.rest
            task.due = None if s.delay_ms is None else min(now + s.delay_ms + (s.delay_ms > 0), MAX_MS)
            task.gone_at = now + task.remember if s.rest == "done" else None
            task.attempts, task.crashes, task.alone = s.attempts, s.crashes, int(s.alone)
        self._purge(2 * (len(settlements) - len(lost)), now)
        return lost

    def _purge(self, most: int, now: int) -> None:
        over = [t for t in self.tasks.values() if t.gone_at is not None and t.gone_at <= now]
        for task in sorted(over, key=lambda t: (t.gone_at, t.id))[:most]:
            del self.tasks[task.id]

    def renew(self, worker: Served, now: int) -> set[tuple[int, int]]:
        held = [t for t in self.tasks.values() if t.token is not None and t.token >> 32 == worker.number]
        for task in held:
            task.due = min(now + worker.leases[task.name], MAX_MS)
        return {(t.id, t.token) for t in held if t.token is not None}

    def claim(self, worker: Served, rows: list[Task], token: int, now: int, slots: int, ahead: int) -> list[int]:
        first = rows[: slots + ahead]
        taken = [t for n, t in enumerate(first) if n < slots or not (t.crashes or t.token is not None)]
        for task in taken:
            if task.token is not None:
                self.runs.append((task.id, "crashed"))
                if task.stop is not None:
                    self._end_stopped(task, now)
                    continue
                task.crashes += 1
            task.scheduled_for = task.due if task.scheduled_for is None else task.scheduled_for
            task.due, task.token = min(now + worker.leases[task.name], MAX_MS), token
            task.claims += 1
        return [t.id for t in taken if t.token == token]

    def _end_stopped(self, task: Task, now: int) -> None:
        self.runs.append((task.id, "cancelled"))
        task.halt(now)
        if task.key is None:
            del self.tasks[task.id]

    def bury(self, number: int, now: int) -> list[int]:
        held = [t for t in self.tasks.values() if t.token is not None and t.token >> 32 == number]
        for task in sorted(held, key=lambda t: t.id):
            self.runs.append((task.id, "crashed"))
            if task.stop is not None:
                task.crashes += 1
                self._end_stopped(task, now)
                continue
            task.due, task.token = now + (250 << min(task.crashes, 12)), None
            task.crashes += 1
        return [t.id for t in held]
