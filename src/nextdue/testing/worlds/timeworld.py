"""Worlds with schedules: people and deploys change them at any moment, clocks are set and machines sleep."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from nextdue import schedule
from nextdue.clock import to_ms
from nextdue.errors import LeaseLost
from nextdue.records import Claim, Declared, Ending
from nextdue.schedule import Plan
from nextdue.sqlite import schedules
from nextdue.sqlite.tx import Finish, settle
from nextdue.testing.crashes import Killed
from nextdue.testing.worlds.crew import Crew, Role
from nextdue.testing.worlds.executor import Job, Poisoned, SimExecutor
from nextdue.testing.worlds.timejudge import TimeJudge
from nextdue.testing.worlds.world import QUEUES, Weather, World

HOUR, MINUTE = 3_600_000, 60_000
NAMES = ("mail", "export", "feed")
NIGHTS = {
    "Europe/Berlin": ((2026, 3, 28, 20), (2026, 10, 24, 20)),
    "America/New_York": ((2026, 3, 8, 3), (2026, 11, 1, 2)),
    "Australia/Lord_Howe": ((2026, 4, 4, 10), (2026, 10, 3, 11)),
    "America/Santiago": ((2026, 4, 4, 23), (2026, 9, 5, 23)),
    "Asia/Kathmandu": ((2026, 12, 31, 14), (2028, 2, 28, 14)),
}
"""Zones, and the hours in UTC before their clocks are changed, or before a night of another kind."""
CRONS = ("*/20 * * * *", "0 * * * *", "30 2 * * *", "15,45 0-3 * * *", "*/7 1-2 * * *", "30 */2 * * *", "0 0 * * *")
KINDS = ("done", "done", "done", "done", "failed", "snoozed", "itself", "gave_up", "held", "crashed", "killed")
STORM_MS, QUIET_MS = 4 * HOUR, HOUR


class Plain:
    """A user's connection, as nextdue.sqlite.tx.Wire."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, sql: str, params: Any) -> list[Any]:
        rows: list[Any] = self.connection.execute(sql, params).fetchall()
        return rows


class TimeExecutor(SimExecutor):
    """Also tells the judge what begins, and has tasks that settle themselves or end their worker."""

    def __init__(self, jobs: dict[int, Job], crew: "TimeCrew") -> None:
        super().__init__(jobs, crew.role.sizes(), crew.clock.monotonic_ms, crew.judge.broken, crew._finish)
        self.crew = crew

    def _begin(self, claim: Claim, at: int) -> None:
        super()._begin(claim, at)
        self.crew.judge.ran(claim)

    def _ending(self, claim: Claim, job: Job) -> Ending:
        ending = super()._ending(claim, job)
        assert ending is not None
        if str(ending.kind) == "killed":
            raise Poisoned
        if ending.kind == "snoozed" and job.number % 3:  # past its next slots
            return msgspec.structs.replace(ending, delay_ms=job.number % 3 * 17 * MINUTE)
        return self._by_itself(claim, job) if str(ending.kind) == "itself" else ending

    def _by_itself(self, claim: Claim, job: Job) -> Ending:
        """As `with ctx.finish()`: the end and the next occurrence are one commit, before the tick hears of it."""
        crew, world = self.crew, self.crew.world
        if world._locked_for():
            return Ending(claim, "failed", ran_ms=job.runs_ms)
        connection = crew.store.database.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            finish = Finish(ran_ms=job.runs_ms, keep_rows=1_000, keep_ms=30 * 24 * HOUR, now_ms=world.clock.now())
            settle(Plain(connection), claim, finish)
        except LeaseLost:
            connection.execute("ROLLBACK")
            return Ending(claim, "failed", ran_ms=job.runs_ms)
        if world.chance(world.weather.crash * 3):
            connection.execute(world.random.choice(("COMMIT", "ROLLBACK")))
            crew.judge.observe("finish", crew.actor.number)
            raise Killed
        connection.execute("COMMIT")
        crew.judge.observe("finish", crew.actor.number)
        world._ring(crew)
        return Ending(claim, "finished", ran_ms=job.runs_ms)


class TimeCrew(Crew):
    """A worker whose judge knows schedules."""

    judge: TimeJudge
    world: "TimeWorld"

    def _executor(self, jobs: dict[int, Job]) -> SimExecutor:
        return TimeExecutor(jobs, self)


def weather(random: Random) -> Weather:
    """Weather for some hours."""
    w = replace(Weather.of(random), poisons=0, puts=random.randrange(4, 16), storm_ms=STORM_MS)
    rough = random.random() < 0.5
    return replace(
        w,
        crash=random.choice((0.0, 0.02, 0.05)),
        names=NAMES,
        pause=0.004 if rough else 0.0,
        step=random.choice((0, 0.004)),
    )


class TimeWorld(World):
    """A world around a night on which the clocks of its zone are changed."""

    judge_of, crew_of = TimeJudge, TimeCrew
    judge: TimeJudge
    most = 40_000
    accounts = ("audit", "times")

    def __init__(
        self, seed: int, folder: Any, mutate: Any = lambda store: None, *, changes: int = 30, **more: Any
    ) -> None:
        chance = Random(seed * 7 + 1)
        self.zone = chance.choice(sorted(NIGHTS))
        start = to_ms(datetime(*chance.choice(NIGHTS[self.zone]), tzinfo=UTC))
        more["weather"] = more.get("weather") or weather(chance)
        super().__init__(seed, folder, mutate, start=start, **more)
        random.seed(seed)  # finish() in a user's transaction has no other chance
        for c in self.crew:
            assert isinstance(c, TimeCrew)
            c.world = self
        self.versions = [self._version(), self._version()]
        self.deployed = self.random.randrange(STORM_MS)
        for _ in range(changes):
            self.at(self.random.randrange(STORM_MS), "change")
        self.at(STORM_MS + QUIET_MS, "end")

    def _roles(self) -> list[Role]:
        roles = [Role(NAMES, None, self.random.choice((1, 2, 4)))]
        for _ in range(self.random.choice((1, 1, 2, 3))):
            names = tuple(self.random.sample(NAMES, self.random.randrange(1, 4)))
            roles.append(Role(names, None, self.random.choice((1, 2, 4))))
        return roles

    def _over(self, what: str) -> bool:
        if what != "end":
            return False
        if not self._finished():
            self.at(HOUR, "end")
            return False
        return True

    def _on_end(self, who: int) -> None:
        """Only a moment at which the world may be over."""

    def _check_end(self) -> None:
        super()._check_end()
        self.judge.check_end()

    # schedules

    def _plan(self) -> Plan:
        r, start = self.random, self.clock.now()
        more: dict[str, Any] = {
            "jitter_ms": r.choice((0, 0, 0, 10 * MINUTE, 90 * MINUTE)),
            "count": r.choice((None, None, 2, 5)),
        }
        if r.random() < 0.2:
            more["starting_ms"] = start + r.randrange(4 * HOUR)
        if r.random() < 0.2:
            more["ending_ms"] = start + r.randrange(2 * HOUR, 12 * HOUR)
        if "starting_ms" in more and "ending_ms" in more:
            more["ending_ms"] = max(more["starting_ms"], more["ending_ms"])
        if r.random() < 0.3:
            return Plan(period_ms=r.choice((5, 40, 90)) * MINUTE, **more)
        missed = r.choice(("run_once", "run_once", "skip", "all"))
        more |= {
            "missed": missed,
            "limit": r.choice((1, 3, 100)),
            "window_ms": r.choice((None, None, 0, 20 * MINUTE, 3 * HOUR)),
        }
        if r.random() < 0.4:
            return Plan(period_ms=r.choice((7, 30, 60)) * MINUTE, anchor_ms=start - r.randrange(9 * HOUR), **more)
        return Plan(cron=r.choice(CRONS), tz=r.choice((self.zone, self.zone, "UTC", *sorted(NIGHTS))), **more)

    def _schedule(self, key: str, source: str | None) -> tuple[Declared, Plan]:
        r, name, plan = self.random, self.random.choice(NAMES), self._plan()
        number = len(self.jobs)
        outcomes = [r.choice(KINDS if r.random() < 0.5 else ("done",)) for _ in range(300)]
        if r.random() < 0.2:
            outcomes[2:5] = ["killed"] * 3
        long = r.randrange(self.weather.long_every) == 0
        runs = 11 * MINUTE if long else r.choice((0, 40, 500, 4_000, 30_000))
        self.jobs[number] = Job(number, name, "default", outcomes, runs)
        one = Declared(
            name,
            schedule.MARK + key,
            r.choice(QUEUES),
            r.choice((0, 0, 5)),
            f"[{number}]",
            schedule.written(plan),
            source,
            None,
            None,
        )
        return one, plan

    def _version(self) -> list[tuple[Declared, Plan]]:
        """The schedules of one version of the code: most of them are in the other one too, often as they are there."""
        before = list(self.versions[0]) if hasattr(self, "versions") else []
        kept = [pair for pair in before if self.random.random() < 0.5]
        names = {(one.name, one.key) for one, _ in kept}
        fresh = [self._schedule(f"k{n}", "shop") for n in range(3)]
        return kept + [pair for pair in fresh if (pair[0].name, pair[0].key) not in names]

    def _on_start(self, who: int) -> None:
        super()._on_start(who)
        self._on_deploy(who)

    def _on_deploy(self, who: int) -> None:
        """This worker's program declares what it has: of the old version, of the new one, and for a while of both."""
        since = self.clock.monotonic_ms() - self.deployed
        new = since > 0 if abs(since) > HOUR else who % 2 == 0
        self._alter(
            "declare", lambda: schedules.declare(self.callers, self.versions[new], self.random.random, lambda _: True)
        )

    def _on_change(self, who: int) -> None:
        known = sorted(self.judge.ghosts)
        if not known:
            return
        name, key = self.random.choice(known)
        args = self.callers, name, key.removeprefix(schedule.MARK)
        verb = self.random.choice(("pause", "resume", "resume", "remove", "declare", "deploy"))
        if verb == "deploy":
            self._on_deploy(self.random.randrange(2))
        elif verb == "declare":
            one, plan = self._schedule(self.random.choice((key.removeprefix(schedule.MARK), "own")), None)
            self._alter(verb, lambda: schedules.put_now(self.callers, one, plan, self.random.random))
        elif verb == "resume":
            self._alter(verb, lambda: schedules.resume(*args, self.random.random))
        else:
            self._alter(verb, lambda: getattr(schedules, verb)(*args))

    def _alter(self, verb: str, do: Any) -> None:
        if self._locked_for():
            return
        trap = self._trap(self.weather.crash * 2)
        if trap:
            self.caller_trap.arm(*trap)
        try:
            do()
        except Killed:
            self.met["crashes"] += 1
            self.judge.observe(verb)
            self.callers.database.connection.close()
            self.callers = self._open_caller()
        self.caller_trap.disarm()
        self.judge.observe(verb)
        self._ring()

    def _step(self, awake: Crew | None) -> None:
        before = self.clock.now()
        super()._step(awake)
        self.judge.clock_was_set(self.clock.now() - before)

    def _on_calm(self) -> None:
        super()._on_calm()
        for name, key in sorted(self.judge.ghosts):
            self._resume(name, key.removeprefix(schedule.MARK))

    def _resume(self, name: str, key: str) -> None:
        self._alter("resume", lambda: schedules.resume(self.callers, name, key, self.random.random))
