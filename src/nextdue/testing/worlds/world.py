"""A world: some workers and callers on one file, a clock, and weather. All chance comes from one seed."""

import heapq
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from nextdue.records import Put
from nextdue.sqlite.store import SqliteStore
from nextdue.testing import FakeClock
from nextdue.testing.crashes import Killed
from nextdue.testing.worlds.checks import STRANGER, Checks
from nextdue.testing.worlds.crew import Crew, Role
from nextdue.testing.worlds.executor import Job, Poisoned, number_of
from nextdue.testing.worlds.faults import WHERES, Spring, Trap
from nextdue.testing.worlds.groups import LIMITS, NAMES
from nextdue.testing.worlds.judge import MODES, Broken, Judge

Mutate = Callable[[SqliteStore], None]
QUEUES = ("default", "slow")
HOUR_MS = 3_600_000


@dataclass
class Weather:
    """How likely what is, per event; and how many tasks are put in how long."""

    crash: float = 0.0
    pause: float = 0.0
    step: float = 0.0
    lock: float = 0.0
    stop: float = 0.0
    unknown: float = 0.0
    late: bool = False
    poisons: int = 0
    puts: int = 40
    storm_ms: int = 120_000
    rests: int = 0
    """How often a queue or a name is paused."""
    names: tuple[str, ...] = (*NAMES, *NAMES, "stranger")
    """What callers put."""
    keys: int = 3
    """Of how many keys puts in all modes are; with one of them, most puts are such."""
    groups: tuple[str | None, ...] = (None, "", "a", "b")
    long_every: int = 16
    finish_every: int = 5
    """How rare are tasks that settle themselves."""
    restarts_ms: tuple[int, ...] = (1, 50, 3_000, 200_000)

    @classmethod
    def of(cls, random: Random) -> "Weather":
        """Each kind of trouble in about half of the worlds; poison only where nothing else kills, so that whom
        it kills can be counted exactly."""

        def maybe(most: float) -> float:
            return random.random() * most if random.random() < 0.5 else 0.0

        poisons = random.choice((0, 0, 1, 2))
        return cls(
            crash=0.0 if poisons else maybe(0.04),
            pause=0.0 if poisons else maybe(0.004),
            step=maybe(0.01),
            lock=maybe(0.01),
            stop=maybe(0.004),
            unknown=0.0 if poisons else maybe(0.6),
            late=random.random() < 0.5,
            poisons=poisons,
            puts=random.randrange(20, 60),
            rests=random.choice((0, 0, 1, 4)),
        )


class World(Checks):
    """Lived through by run(); raises Broken where a law is."""

    judge_of: type[Judge] = Judge
    crew_of: type[Crew] = Crew
    most = 8_000
    """So many events are no rest."""
    accounts: tuple[str, ...] = ("audit",)
    """The tables in which its judge keeps account; the digest is of all they say."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        mutate: Mutate = lambda store: None,
        *,
        weather: Weather | None = None,
        roles: list[Role] | None = None,
        start: int = FakeClock.START,
    ) -> None:
        self.random = Random(seed)
        self.seed, self.mutate = seed, mutate
        self.path = folder / f"world-{seed}.db"
        self.clock = FakeClock(start)
        self.weather = weather or Weather.of(self.random)
        self.jobs: dict[int, Job] = {}
        self.acknowledged: dict[int, int] = {}
        self.heap: list[tuple[int, int, str, int, int]] = []
        self.order = self.digest = 0
        self.locked_until = self.stepped_at = 0
        self.calm = False
        self.met: Counter[str] = Counter()
        """The troubles so far: crashes, pauses, steps of the clock, locks."""
        self.callers = self._open_caller()
        self.judge = self.judge_of(self.path, self.clock)
        roles = roles or self._roles()
        self.crew = [self.crew_of(i, role, self.judge, self.random) for i, role in enumerate(roles)]

    def _roles(self) -> list[Role]:
        """One worker that knows everything, or a world might never come to rest, and some that don't."""
        every = tuple(NAMES)
        roles = [Role(every, None, self.random.choice((1, 2, 4)))]
        for _ in range(self.random.choice((0, 0, 1, 2, 3))):
            names = tuple(self.random.sample(every, self.random.randrange(1, 5)))
            queues = self.random.choice((None, None, ("default",), ("slow", "default")))
            roles.append(Role(names, queues, self.random.choice((1, 2, 4, 8))))
        return roles

    # time

    def at(self, delay: int, what: str, who: int = 0, generation: int = 0) -> None:
        self.order += 1
        event = (self.clock.monotonic_ms() + delay, self.order, what, who, generation)
        heapq.heappush(self.heap, event)

    def run(self) -> int:
        """Live through it; answers the digest of all that happened. Raises Broken."""
        for c in self.crew:
            self.at(self.random.randrange(200), "start", c.place)
        for _ in range(self.weather.puts):
            self.at(self.random.randrange(self.weather.storm_ms), "put")
        for what in self._foretold():
            self.at(self.random.randrange(self.weather.storm_ms), what, self.random.randrange(len(self.crew)))
        for _ in range(self.weather.rests):
            self.at(self.random.randrange(self.weather.storm_ms), "rest")
        self.at(self.weather.storm_ms, "calm")
        events = 0
        while self.heap:
            at, _, what, who, generation = heapq.heappop(self.heap)
            if at > self.clock.monotonic_ms():
                self._check_sleepers()
                self.clock.advance(at - self.clock.monotonic_ms())
            if what == "wake" and generation != self.crew[who].generation:
                continue
            events += 1
            if events > self.most:
                raise Broken("the world doesn't come to rest")
            getattr(self, f"_on_{what}")(*(() if what in ("put", "calm", "rest") else (who,)))
            self.digest = zlib.crc32(f"{at} {what} {who} {self.judge.changes}".encode(), self.digest)
            if self._over(what):
                break
        self._check_end()
        for table in self.accounts:
            rows = self.judge.connection.execute(f"SELECT * FROM {table} ORDER BY seq").fetchall()
            self.digest = zlib.crc32(repr(rows).encode(), self.digest)
        return self.digest

    def _over(self, what: str) -> bool:
        """Whether the world may end after this event."""
        return self.calm and what == "wake" and self._finished()

    def _foretold(self) -> list[str]:
        """Troubles at any moment, beside those that meet a worker at work."""
        w = self.weather
        most = {"step": w.step * 1000, "lock": w.lock * 1000, "pause": w.pause * 1000, "kill": w.crash * 100}
        return [what for what, times in most.items() for _ in range(self.random.randrange(int(times) + 1))]

    def close(self) -> None:
        for c in self.crew:
            if c.alive:
                c.die(unknown=False)
        self.judge.connection.close()
        self.callers.database.connection.close()

    def chance(self, likelihood: float) -> bool:
        return not self.calm and self.random.random() < likelihood

    # workers

    def _store(self) -> SqliteStore:
        store = SqliteStore(self.path, now=self.clock.now, monotonic_ms=self.clock.monotonic_ms)
        self.mutate(store)
        return store

    def _on_start(self, who: int) -> None:
        c = self.crew[who]
        if self._locked_for():
            self.at(self._locked_for() + 1, "start", who)
            return
        try:
            c.start(self._store(), self.jobs, self._trap(self.weather.crash * 3))
        except Killed:
            self._bury_later(c)
            return
        c.limit_at = self.clock.monotonic_ms()
        self._turn(c)

    def _on_wake(self, who: int) -> None:
        c, now = self.crew[who], self.clock.monotonic_ms()
        if c.paused_until:
            if now < c.paused_until:
                return self._again(c, c.paused_until)
            # Some tasks end all the same, in a child process or by the time of day.
            c.executor.delay(self.random.choice((0, now - c.paused_at)))
            c.paused_until, c.actor.excused_until = 0, now
        elif self.chance(self.weather.pause):
            return self._on_pause(who)
        if self.chance(self.weather.stop):
            c.worker.stop(self.random.choice((0, 1_000, None)))
            c.actor.stopping = True
            c.limit_at = now
        remaining = self._locked_for()
        if remaining and not c.refused:
            c.refused = (min(remaining, 5_000), remaining > 5_000)
            return self._again(c, now + c.refused[0] + 1)
        trap = self._trap(self.weather.crash)
        if trap:
            c.trap.arm(*trap)
        self._turn(c)
        c.refused = None  # a look has nothing to wait for
        return None

    def _turn(self, c: Crew) -> None:
        try:
            c.turn(lambda: self._maybe_step(c), lambda: self._ring(c))
        except (Killed, Poisoned):
            self._bury_later(c)
            return
        c.trap.disarm()
        if not c.trouble_ms and c.worker.ended():
            c.worker.close()
            c.alive, c.generation, c.actor.gone_at = False, c.generation + 1, self.clock.monotonic_ms()
            self.at(self.random.randrange(1, 5_000), "start", c.place)
            return
        self._sleep(c)

    def _sleep(self, c: Crew) -> None:
        until = c.sleeps_until()
        late = self.random.choice((0, 0, 1, 3)) if self.weather.late else 0
        self._again(c, until + late if until > self.clock.monotonic_ms() else until)

    def _again(self, c: Crew, at: int) -> None:
        c.generation += 1
        now = self.clock.monotonic_ms()
        if at - now < 400 * 86_400_000:
            self.at(max(0, at - now), "wake", c.place, c.generation)

    def _ring(self, by: Crew | None = None, *, death: bool = False) -> None:
        """Every other worker looks again, in any order."""
        others = [c for c in self.crew if c.alive and c is not by]
        self.random.shuffle(others)
        for c in others:
            c.death = c.death or death
            if not c.paused_until and not c.refused:
                self._again(c, self.clock.monotonic_ms())

    def _bury_later(self, c: Crew) -> None:
        """Its process is no more; the others hear of its lock, or if there's no trace, of its commit at most."""
        self.met["crashes"] += 1
        unknown = self.random.random() < self.weather.unknown
        self.judge.observe("tick", c.actor.number)
        c.die(unknown=unknown)
        self._ring(death=not unknown)
        self.at(self.random.choice(self.weather.restarts_ms), "start", c.place)

    # callers

    def _open_caller(self) -> SqliteStore:
        store = self._store()
        self.caller_trap = Trap(store)
        return store

    def _on_put(self) -> None:
        if self._locked_for():
            return
        trap = self._trap(self.weather.crash * 2)
        if trap:
            self.caller_trap.arm(*trap)
        hot = (self._put_keyed,) * (6 if self.weather.keys == 1 else 2)
        verb = self.random.choice((self._put, self._put, *hot, self._put_many, self._put_raw, self._cancel))
        try:
            ring = verb()
        except Killed:
            # What it committed without a ring is seen by those who watch the file.
            self.met["crashes"] += 1
            self.judge.observe("cancel" if verb == self._cancel else "put")
            self.callers.database.connection.close()
            self.callers = self._open_caller()
            ring = True
        self.judge.asked = []
        self.caller_trap.disarm()
        if ring:
            self._ring()

    def _job(self, name: str, queue: str) -> Job:
        number = len(self.jobs)
        outcomes = self.random.choice(
            (["done"],) * 4 + (["failed", "done"], ["snoozed", "failed", "done"], ["gave_up"])
        )
        if outcomes == ["done"] and len(self.jobs) % self.weather.finish_every == 2 % self.weather.finish_every:
            outcomes = ["finished"]  # by itself, in a transaction of its own
        # Few are longer than their lease: were all slots held by them, nobody would take anything.
        long = NAMES.get(name, 0) * 2
        runs = (
            long if len(self.jobs) % self.weather.long_every == 3 else self.random.choice((0, 3, 40, 500, 500, 4_000))
        )
        poisoned = sum(job.poison for job in self.jobs.values())
        poison = name != STRANGER and poisoned < self.weather.poisons and self.random.random() < 0.3
        job = Job(number, name, queue, list(outcomes), min(runs, 4_000) if poison else runs, poison)
        self.jobs[number] = job
        return job

    def _like(self) -> Put:
        name = self.random.choice(self.weather.names)
        delay = self.random.choice((0, 0, 0, 1, 700, 20_000))
        like = Put(name, self.random.choice(QUEUES), self.random.choice((-5, 0, 0, 7)), "[]", delay_ms=delay)
        expires = self.random.choice((None, None, None, 3_000, 40_000))
        group = self.random.choice(self.weather.groups) if name in LIMITS else None
        return like._replace(expires_in_ms=expires, group=group)

    def _put(self) -> bool:
        puts = []
        for _ in range(self.random.randrange(1, 4)):
            like = self._like()
            key = f"k{self.random.randrange(6)}" if self.random.random() < 0.2 else None
            args = f"[{self._job(like.name, like.queue).number}]"
            puts.append(like._replace(args=args, key=key, remember_ms=5_000 if key else None))
        return self._store_all(puts)

    def _put_keyed(self) -> bool:
        """One of few keys, so that it is often held, in any mode."""
        like, mode = self._like(), self.random.choice(MODES)
        args, key = f"[{self._job(like.name, like.queue).number}]", f"m{self.random.randrange(self.weather.keys)}"
        latest = self.random.choice((None, 2_000, 30_000)) if mode == "extend" else None
        put = like._replace(args=args, key=key, remember_ms=5_000, mode=mode, latest_ms=latest)
        return self._store_all([put])

    def _store_all(self, puts: list[Put]) -> bool:
        self.judge.asked = puts
        stored, ring = self.callers.put(puts)
        self.judge.observe("put")
        for put, answer in zip(puts, stored, strict=True):
            if answer.created:
                self.acknowledged[number_of(put.args)] = answer.id
        return ring

    def _put_many(self) -> bool:
        like = self._like()
        jobs = [self._job(like.name, like.queue).number for _ in range(self.random.randrange(1, 12))]
        ids, ring = self.callers.put_many(like, str([[number] for number in jobs]), len(jobs))
        self.judge.observe("put")
        self.acknowledged.update(zip(jobs, ids, strict=True))
        return ring

    def _put_raw(self) -> bool:
        like = self._like()
        number = self._job(like.name, like.queue).number
        due = self.clock.now() + like.delay_ms
        self.judge.connection.execute(
            "INSERT INTO nextdue_tasks(name, queue, priority, args, due_utc) "
            "VALUES (?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1000.0, 'unixepoch'))",
            (like.name, like.queue, like.priority, f"[{number}]", due),
        )
        self.judge.observe("raw")
        (id,) = self.judge.connection.execute("SELECT max(id) FROM nextdue_task").fetchone()
        self.acknowledged[number] = id
        return True  # nobody rings, but the commit is seen

    def _cancel(self) -> bool:
        """Any task, or one that runs."""
        running = [id for ids in self.judge.running.values() for id in ids]
        ids = sorted(running if running and self.random.random() < 0.5 else self.acknowledged.values())
        if not ids:
            return False
        state = self.callers.cancel(self.random.choice(ids))
        self.judge.observe("cancel")
        return state in ("running", "cancelled")

    def _on_rest(self) -> None:
        """Somebody pauses a queue or a name, or lets it go on."""
        words = [("queue", queue) for queue in QUEUES] + [("name", name) for name in NAMES]
        lane = self.random.choice(words)
        if not self.calm and not self._locked_for():
            self._pause(*lane, on=lane not in self.judge.paused)
            self.at(self.random.choice((50, 5_000, 90_000)), "rest")

    def _pause(self, kind: str, word: str, *, on: bool) -> None:
        query = self.judge.connection.execute
        query("BEGIN IMMEDIATE")
        if on:
            query("INSERT INTO nextdue_pause(kind, word, since) VALUES (?, ?, ?)", (kind, word, self.clock.now()))
            self.judge.paused.add((kind, word))
        else:
            query("DELETE FROM nextdue_pause WHERE kind = ? AND word = ?", (kind, word))
            self.judge.paused.remove((kind, word))
        query(
            "INSERT INTO nextdue_meta(name, value) VALUES ('pauses', 1) "
            "ON CONFLICT(name) DO UPDATE SET value = value + 1"
        )
        query("COMMIT")
        self._ring()

    # weather

    def _trap(self, likelihood: float) -> Spring | None:
        if not self.chance(likelihood):
            return None
        where = self.random.choice(WHERES)
        return where, self.random.randrange(4), self.random.choice((20, 200, 600, 1_200))

    def _maybe_step(self, by: Crew) -> None:
        if self.chance(self.weather.step):
            self._step(by)
        if self.chance(self.weather.lock):
            self._on_lock()

    def _on_step(self, who: int) -> None:
        self._step(None)

    def _step(self, awake: Crew | None) -> None:
        """Somebody sets the clock; the alarms of all sleepers notice, whoever is awake does not."""
        ms = self.random.choice((-3, -1, 1, 2, 8)) * self.random.choice((5_000, 400_000, HOUR_MS))
        self.clock.step(ms)
        self.met["steps"] += 1
        self.stepped_at = self.clock.monotonic_ms()
        self.judge.groups.clock_was_set()
        self._ring(awake)

    def _on_lock(self, who: int = 0) -> None:
        """A foreign program takes the write lock and keeps it."""
        self.met["locks"] += 1
        self.locked_until = self.clock.monotonic_ms() + self.random.choice((60, 3_000, 12_000))

    def _on_pause(self, who: int) -> None:
        """SIGSTOP, for longer than a lease or not; afterwards it goes on with what it believes to hold."""
        c = self.crew[who]
        if c.alive and not c.paused_until:
            self.met["pauses"] += 1
            c.paused_at = self.clock.monotonic_ms()
            c.paused_until = c.paused_at + self.random.choice((500, 70_000, 400_000))
            c.actor.excused_until = c.paused_until
            self._again(c, c.paused_until)

    def _on_kill(self, who: int) -> None:
        if self.crew[who].alive:
            self._bury_later(self.crew[who])

    def _locked_for(self) -> int:
        return max(0, self.locked_until - self.clock.monotonic_ms())

    def _on_calm(self) -> None:
        self.calm = True
        for lane in sorted(self.judge.paused):
            self._pause(*lane, on=False)
        self._ring()
