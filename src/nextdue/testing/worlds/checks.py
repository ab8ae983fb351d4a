"""What must hold between two moments of a world, and when it has come to rest."""

from typing import Any

from nextdue.due import MAX_CRASHES
from nextdue.sqlite.inspect import check
from nextdue.sqlite.store import SqliteStore
from nextdue.testing import FakeClock
from nextdue.testing.worlds.crew import GRACE_MS, Crew
from nextdue.testing.worlds.executor import Job, number_of
from nextdue.testing.worlds.groups import LIMITS, NAMES
from nextdue.testing.worlds.judge import Broken, Judge

STRANGER = "stranger"
"""A name that no worker knows."""


class Checks:
    """The part of a world that looks at all of it."""

    clock: FakeClock
    judge: Judge
    crew: list[Crew]
    callers: SqliteStore
    jobs: dict[int, Job]
    acknowledged: dict[int, int]
    weather: Any
    stepped_at: int

    def _check_sleepers(self) -> None:
        """Nobody sleeps past the due of a row that it could take."""
        now, monotonic = self.clock.now(), self.clock.monotonic_ms()
        rows = self.judge.connection.execute(
            "SELECT l.queue, l.name, l.alone, min(t.due) FROM nextdue_task t JOIN nextdue_lane l ON l.id = t.lane "
            "WHERE t.due IS NOT NULL AND t.token IS NULL AND l.name <> 'stranger' GROUP BY l.id"
        ).fetchall()
        for queue, name, alone, due in rows:
            for c in self.crew:
                if not c.promises(due, queue, name, alone):
                    continue
                if c.sleeps_until() > max(monotonic, monotonic + due - now):
                    raise Broken(
                        f"worker {c.actor.number} sleeps though a {name} in {queue} is due at {due} (now {now})"
                    )
        self._check_blocked()
        if self.stepped_at:
            self._check_leases(now)
        for c in self.crew:
            awake = c.alive and not (c.paused_until or c.trouble_ms or c.refused)
            for id, token in self._unheard(c) if awake else ():
                raise Broken(f"worker {c.actor.number} wasn't told that {id} (token {token}) is to stop")
            if awake and c.worker.stopping and c.sleeps_until() - monotonic > GRACE_MS + 10:
                raise Broken(f"worker {c.actor.number} is to stop and sleeps longer than its grace")

    def _check_blocked(self) -> None:
        """Nothing stays blocked when its group runs fewer than its limit and a worker that knows it is idle."""
        rows = self.judge.connection.execute(
            "SELECT t.name, t.grp, l.queue, l.alone, l.id, count(*) FROM nextdue_task t "
            "JOIN nextdue_lane l ON l.id = t.lane WHERE t.rest = 'blocked' GROUP BY t.name, t.grp, l.id"
        ).fetchall()
        for name, grp, queue, alone, lane, count in rows:
            room = LIMITS[name] - len(self.judge.groups.running[name, grp])
            if room <= 0 or not any(c.promises(0, queue, name, alone) for c in self.crew):
                continue
            (free,) = self.judge.connection.execute(
                "SELECT count(*) FROM nextdue_task "
                "WHERE name = ? AND grp = ? AND lane = ? AND due IS NOT NULL AND token IS NULL",
                (name, grp, lane),
            ).fetchone()
            if free < room:
                raise Broken(f"{count} {name} of group {grp!r} in {queue} stay blocked though {room} more may run")

    def _unheard(self, c: Crew) -> list[tuple[int, int]]:
        """What runs at this worker, was asked to stop and wasn't told."""
        rows = self.judge.connection.execute("SELECT id, token FROM nextdue_task WHERE stop IS NOT NULL").fetchall()
        told = {(claim.id, claim.token) for claim in c.executor.told}
        return [proof for proof in rows if proof in c.worker.running and proof not in told]

    def _check_leases(self, now: int) -> None:
        """No lease of the dead is longer than was asked for, though the clock was set back. The living renew theirs."""
        rows = self.judge.connection.execute(
            "SELECT l.queue, l.name, t.due, t.token >> 32 FROM nextdue_task t JOIN nextdue_lane l ON l.id = t.lane "
            "WHERE t.token IS NOT NULL AND t.due > ?",
            (now + min(NAMES.values()) + 1_000,),
        ).fetchall()
        for queue, name, due, owner in rows:
            seen = any(c.promises(due, queue, name, 0) for c in self.crew)
            long = due > now + NAMES[name] + 1_000
            if long and seen and self.judge.actors[owner].gone_at < self.stepped_at:
                raise Broken(f"the lease of a {name} lasts until {due} (now {now}), longer than was asked for")

    def _finished(self) -> bool:
        (left,) = self.judge.connection.execute(
            "SELECT count(*) FROM nextdue_task WHERE (due IS NOT NULL OR rest = 'blocked') AND name <> 'stranger' "
            "AND substr(coalesce(key, ''), 1, 1) <> '@'"
        ).fetchone()
        return not left

    def _check_end(self) -> None:
        """A kind of world with more to be checked extends this."""
        findings = check(self.callers.database)
        if findings:
            raise Broken("; ".join(findings))
        query = self.judge.connection.execute
        rows = query(
            "SELECT id, name, args, rest, claims, reason FROM nextdue_task WHERE substr(coalesce(key, ''), 1, 1) <> '@'"
        ).fetchall()
        runs = query("SELECT task, group_concat(outcome) FROM nextdue_run GROUP BY task").fetchall()
        self._check_runs({id for id, *_ in rows}, {id: outcomes.split(",") for id, outcomes in runs})
        for row in rows:
            self._check_row(*row)

    def _check_runs(self, rows: set[int], runs: dict[int, list[str]]) -> None:
        """Nothing is lost, nothing without a key is done twice, and the history says how each task ended."""
        keyed = {id for (id,) in self.judge.connection.execute("SELECT task FROM nextdue_run WHERE key IS NOT NULL")}
        for number, id in self.acknowledged.items():
            if id not in rows and not {"done", "cancelled"} & set(runs.get(id, ())):
                raise Broken(f"task {id} is lost\n{self.jobs[number]}")
        for id, outcomes in runs.items():
            if outcomes.count("done") > 1 and id not in keyed:
                raise Broken(f"task {id} was done twice: {outcomes}")
        for (id, word), count in self.judge.lines.items():
            if id in runs and runs[id].count(word) < count:
                raise Broken(f"task {id} was {word} and its history doesn't say so: {runs[id]}")

    def _check_row(self, id: int, name: str, args: str, rest: str | None, claims: int, reason: str | None) -> None:
        job = self.jobs[number_of(args)]
        if name == STRANGER and claims:
            raise Broken(f"task {id} of an unknown name was claimed")
        if name != STRANGER and rest in (None, "blocked"):
            raise Broken(f"task {id} was never finished\n{job}")
        if reason != "expired":
            self._check_dead(job, rest)

    def _check_dead(self, job: Job, rest: str | None) -> None:
        if not self.weather.poisons:
            return
        if rest == "dead" and not job.poison and job.outcomes[-1] != "gave_up":
            raise Broken(f"an innocent died\n{job}")
        if job.poison and rest == "dead" and not (len(job.kills) <= MAX_CRASHES and job.kills[-1]):
            raise Broken(f"a poison task must die after {MAX_CRASHES} kills, the last one alone\n{job}")
        if job.poison and rest == "dead" and self.weather.poisons == 1 and len(job.kills) != MAX_CRASHES:
            raise Broken(f"a poison task killed {len(job.kills)} workers\n{job}")
