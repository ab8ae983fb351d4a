"""Every change of a schedule and of its row, held against what its plan says: told here once more, by an oracle."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nextdue import schedule
from nextdue.clock import MAX_MS
from nextdue.records import Claim
from nextdue.schedule import Plan
from nextdue.testing import FakeClock
from nextdue.testing.worlds.account import Change, words
from nextdue.testing.worlds.judge import Actor, Broken, Judge
from nextdue.testing.worlds.oracle import Line

DAY_MS = 86_400_000
BUSY_MS = 30 * 60_000
"""So late may be what is due while all are busy."""
TASK = ("due", "rest", "token", "attempts", "crashes", "args", "again_due", "scheduled_for", "wished", "stop")
PLAN = ("plan", "fired", "last", "missed", "missed_ever", "paused", "orphaned")
Key = tuple[str, str]


class Occ(NamedTuple):
    """The row of a schedule."""

    due: int | None
    rest: str | None
    token: int | None
    attempts: int
    crashes: int
    args: str
    again_due: int | None
    slot: int | None
    wished: int | None
    stop: int | None


class Sched(NamedTuple):
    """The schedule itself."""

    plan: str | None
    fired: int
    last: int | None
    missed: int
    missed_ever: int
    paused: int | None
    orphaned: int | None


class Taken(NamedTuple):
    """A claim as it was made."""

    token: int
    slot: int
    now: int
    plan: Plan | None
    begun: bool
    held: bool
    """Whether the schedule was to start nothing then."""


@dataclass
class Ghost:
    """A schedule as the judge knows it."""

    plan: Plan | None = None
    """The plan in force; None: it was removed."""
    plans: set[Plan] = field(default_factory=set)
    fired: int = 0
    missed: int = 0
    missed_ever: int = 0
    old_plan_runs: bool = False
    """Its row was running when its plan was changed: what ends then isn't of this plan."""
    begun: int | None = None
    """The slot that was started and hasn't come to its end."""
    highest: int | None = None
    """The latest slot that was started or missed."""
    taken: Taken | None = None
    moved: tuple[str, int] | None = None
    """What has just become of the occurrence, by its schedule: fired or missed, and how many."""
    paused: bool = False
    orphaned: bool = False
    runs: int = 0


class TimeJudge(Judge):
    """Also sees what becomes of schedules."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        super().__init__(path, clock)
        self.ghosts: dict[Key, Ghost] = {}
        self.started: list[Claim] = []
        self.stepped_back = False
        self.seen = {"run": 0, "missed": 0, "changed": 0, "repeated": 0, "ended": 0, "finished": 0, "cut": 0}
        """What these worlds saw, and how often."""
        self._read = 0
        self._begin = clock.now()
        query = self.connection.execute
        query("CREATE TABLE times(seq INTEGER PRIMARY KEY, what TEXT, name, key, old TEXT, new TEXT)")
        for table, fields, test in (
            ("nextdue_task", TASK, "substr({}.key, 1, 1) = '@'"),
            ("nextdue_schedule", PLAN, "1"),
        ):
            for verb, old, new, row in (("INSERT", 0, 1, "NEW"), ("UPDATE", 1, 1, "NEW"), ("DELETE", 1, 0, "OLD")):
                cells = [f"json_array({', '.join(f'{of}.{f}' for f in fields)})" for of in ("OLD", "NEW")]
                query(
                    f"CREATE TRIGGER times_{table}_{verb} AFTER {verb} ON {table} WHEN {test.format(row)} BEGIN "
                    f"INSERT INTO times(what, name, key, old, new) VALUES ('{table}', {row}.name, {row}.key, "
                    f"{cells[0] if old else 'NULL'}, {cells[1] if new else 'NULL'}); END"
                )

    def clock_was_set(self, ms: int) -> None:
        self.stepped_back = self.stepped_back or ms < 0

    def line(self, plan: Plan) -> Line:
        return Line(plan, self._begin - 5 * DAY_MS, self._begin + 15 * DAY_MS)

    def ran(self, claim: Claim) -> None:
        """An executor begins this claim."""
        if claim.key is not None and claim.key[0] == schedule.MARK:
            self.started.append(claim)
            ghost = self.ghosts.get((claim.name, claim.key))
            if ghost and ghost.taken and ghost.taken.token == claim.token:
                self._heard()

    def observe(self, verb: str, number: int | None = None) -> int:
        count = super().observe(verb, number)
        actor = None if number is None else self.actors.get(number)
        rows = self.connection.execute("SELECT * FROM times WHERE seq > ? ORDER BY seq", (self._read,)).fetchall()
        for seq, what, name, key, old, new in rows:
            self._read = seq
            ghost = self.ghosts.setdefault((name, key), Ghost())
            try:
                if what == "nextdue_task":
                    self._row(ghost, _cells(Occ, old), _cells(Occ, new), verb)
                else:
                    self._schedule(ghost, _cells(Sched, old), _cells(Sched, new), verb)
            except AssertionError as exc:
                who = f"worker {actor.number}" if actor else "a caller"
                told = f"{verb} by {who} at {self.clock.now()}\n{name} {key}: {what} {old} -> {new}\n{ghost}"
                raise Broken(f"{words(exc)}\n{told}") from None
        self._heard()
        return count + len(rows)

    def _judge(self, c: Change, verb: str, actor: Actor | None, fresh: set[int]) -> None:
        if ((c.old.key or c.new.key) or " ")[0] != schedule.MARK:
            super()._judge(c, verb, actor, fresh)
        elif c.new.token is not None and c.new.token != c.old.token:
            # A claim is a claim; but only who knows its plan can end what was asked to stop.
            super()._judge(c._replace(old=c.old._replace(stop=None)), verb, actor, fresh)
        elif c.old.token is not None and verb == "tick" and c.new.token is None:
            assert actor is not None
            if actor.number != c.old.token >> 32:
                raise Broken(f"a schedule's row was settled by another than its owner\n{c}")

    # the schedule

    def _schedule(self, g: Ghost, old: Any, new: Any, verb: str) -> None:
        if new is None:
            assert verb == "remove", "a schedule is gone"
            g.plan, g.paused, g.orphaned = None, False, False
            g.fired = g.missed = g.missed_ever = 0
            return
        g.paused, g.orphaned = new.paused is not None, new.orphaned is not None
        if old is None or new.plan != old.plan:
            assert verb == "declare", "a plan was changed"
            self.seen["changed"] += 1
            g.plan = schedule.read(new.plan)
            g.plans.add(g.plan)
            g.fired = g.missed = 0
            g.old_plan_runs = g.taken is not None
            if self.stepped_back:
                g.highest = None
        elif verb == "declare":
            if (
                new.orphaned is None and g.taken is not None and not g.old_plan_runs
            ):  # it counts as one of this plan, but its end changes nothing
                g.fired, g.old_plan_runs = g.fired + 1, True
        elif new._replace(paused=0, orphaned=0) != old._replace(paused=0, orphaned=0) or verb in ("tick", "finish"):
            self._counted(g, old, new, verb)
        assert (new.missed_ever - g.missed_ever, new.missed) == (0, g.missed), (
            f"{g.missed} are missed since the last one"
        )
        assert new.fired == g.fired, f"{g.fired} have ended"

    def _counted(self, g: Ghost, old: Sched, new: Sched, verb: str) -> None:
        assert verb in ("tick", "finish"), "counted by a strange verb"
        assert g.taken is not None, "an occurrence ended that nobody held"
        if new.missed_ever > old.missed_ever:
            g.moved = "missed", new.missed_ever - old.missed_ever
            g.missed += g.moved[1]
            g.missed_ever = new.missed_ever
        elif g.plan and schedule.from_end(g.plan) and new == old:
            g.moved = "missed", 0  # a period that came to lie behind its ending
        else:
            g.moved = "fired", 0
            assert new.last == g.taken.slot, "last isn't what ended"
            g.fired += not g.old_plan_runs
            g.missed = 0

    # its row

    def _row(self, g: Ghost, old: Any, new: Any, verb: str) -> None:
        if old is None:
            assert verb == "declare"
            self._placed(g, new)
        elif new is None:
            self._gone(g, old, verb)
        elif new.token is not None and new.token != old.token:
            self._taken(g, old, new)
        elif old.token is not None and new.token is not None:
            if verb == "declare":
                self._asked(g, new)
            assert (new.slot, new.args) == (old.slot, old.args), "a running occurrence was changed"
        elif old.token is not None:
            self._let_go(g, old, new, verb)
        elif verb in ("tick", "finish") and old.due == MAX_MS:
            assert new.rest == "done", "it became another one that has no occurrence"
        elif self.stepped_back and verb != "declare" and self._is_cut(old, new):
            assert new.due == self._latest(g.plan), "cut to another due than that of a whole period"
            g.highest = g.highest if old.slot is not None else None
            self.seen["cut"] += 1
        elif verb in ("tick", "finish"):
            assert g.paused or g.orphaned, "held though nobody wants that"
            assert (new.due, new.rest, new.wished) == (None, "held", old.due), "held, and the row says something else"
        elif verb == "declare" and not g.orphaned:
            self._placed(g, new)
        elif verb == "resume" and old.rest == "held" and new.rest != "held":
            assert not g.orphaned, "goes on without its code"
            self._placed(g, new)
        else:
            assert verb in ("pause", "declare", "resume"), "a row at rest was changed by a strange verb"
            assert new.rest == "held"
        if new is not None and new.token is None:
            self._at_rest(g, new)

    def _is_cut(self, old: Occ, new: Occ) -> bool:
        """Nothing but the due of what waits for its period, or to be tried again within it."""
        return new == old._replace(due=new.due) and (old.slot is None or old.attempts + old.crashes > 0)

    def _latest(self, plan: Plan | None) -> int:
        """When what waits for a period from the end of an attempt is due at the latest, whatever the clock did."""
        assert plan is not None
        assert schedule.from_end(plan), "only a period from the end is cut"
        return max(self.clock.now() + (plan.period_ms or 0) + plan.jitter_ms + 1, plan.starting_ms or 0)

    def _at_rest(self, g: Ghost, new: Occ) -> None:
        if new.rest == "done":
            assert self._exhausted(g, new), "it ended"
            self.seen["ended"] += 1
        else:
            assert new.rest in (None, "held"), f"a schedule ended as {new.rest}"

    def _exhausted(self, g: Ghost, new: Occ) -> bool:
        plan, now = g.plan, self.clock.now()
        if plan is None or (plan.count is not None and g.fired >= plan.count):
            return True
        if schedule.from_end(plan):
            return plan.ending_ms is not None and now + (plan.period_ms or 0) > plan.ending_ms - 1
        return (plan.ending_ms is not None and self.line(plan).after(min(now, (new.slot or now))) is None) or self.line(
            plan
        ).after(now) is None

    def _placed(self, g: Ghost, new: Occ, *, again: bool = False) -> None:
        """It begins anew: its first slot is the first one after now."""
        plan, now = g.plan, self.clock.now()
        assert plan is not None, "the row of no schedule"
        g.begun = g.taken = None
        g.old_plan_runs = False
        if self.stepped_back:
            g.highest = None
        assert (new.attempts, new.crashes) == (0, 0), "it begins with failures"
        if new.rest == "done":
            return
        due, slot = (new.wished, new.slot) if new.rest == "held" else (new.due, new.slot)
        assert due is not None
        assert again or (new.rest == "held") == (g.paused or g.orphaned), "held, or not, against its schedule"
        if schedule.from_end(plan):
            first: int | None = max(now, plan.starting_ms or 0)
        else:
            first = self.line(plan).after(max(now, (plan.starting_ms or 0) - 1))
        if again and due == MAX_MS:
            return
        if again:
            assert schedule.from_end(plan) or due in self.line(plan).slots, "the first slot of the new plan is none"
            return
        assert slot == first, f"the first slot is {first}"
        assert slot is not None
        assert slot <= due <= slot + plan.jitter_ms, "due by more than its jitter"

    def _asked(self, g: Ghost, new: Occ) -> None:
        """It became another one while it runs: then its next life is the first slot from now."""
        assert g.plan is not None
        assert new.again_due is not None, "a change while it runs was ignored"

    def _gone(self, g: Ghost, old: Occ, verb: str) -> None:
        assert g.plan is None, "the row of a schedule is gone"
        assert verb in ("remove", "tick", "finish"), "the row of a removed schedule is gone by a strange verb"
        assert verb != "remove" or old.token is None, "removed while it runs"
        g.begun = g.taken = None
        g.old_plan_runs = False

    def _taken(self, g: Ghost, old: Occ, new: Occ) -> None:
        slot = old.due if old.slot is None else old.slot
        assert new.slot == slot, "claimed for another slot than it was due for"
        assert slot is not None
        assert new.token is not None
        begun = g.begun == slot
        if not begun and g.plan is not None and not g.old_plan_runs and old.again_due is None:
            assert not g.paused, "started though it is paused"
            assert not g.orphaned, "started without its code"
            assert g.plan.count is None or g.fired < g.plan.count, "more occurrences than its count"
            # A period from an end may come to lie behind the ending; seen when it is due, and not run (_ran).
            late = g.plan.ending_ms is not None and slot > g.plan.ending_ms
            assert not late or schedule.from_end(g.plan), "after its ending"
        g.taken = Taken(new.token, slot, self.clock.now(), g.plan, begun, g.paused or g.orphaned)

    def _heard(self) -> None:
        started, self.started = self.started, []
        for claim in started:
            g = self.ghosts[claim.name, claim.key or ""]
            try:
                self._ran(g, claim)
            except AssertionError as exc:
                told = f"{claim.name} {claim.key} at {self.clock.now()}\n{claim}\n{g}"
                raise Broken(f"{words(exc)}\n{told}") from None

    def _ran(self, g: Ghost, claim: Claim) -> None:
        taken, slot = g.taken, claim.scheduled_for
        if taken is None or taken.token != claim.token:
            return  # lost before it was started, as a claim of a worker that was stopped for long
        assert slot == taken.slot, "run for another slot than it was claimed for"
        g.runs += 1
        self.seen["repeated" if taken.begun else "run"] += 1
        assert taken.plan is not None, "an occurrence of a schedule that was removed"
        if taken.begun:
            return
        assert claim.occurrence is not None, "it isn't told of its occurrence"
        assert claim.occurrence.missed == g.missed, f"it must know of {g.missed} missed ones"
        assert g.highest is None or slot > g.highest, "a slot again, or an earlier one"
        g.begun, g.highest = slot, slot
        if schedule.from_end(taken.plan):
            ending = taken.plan.ending_ms
            assert ending is None or slot <= ending or claim.crashes or claim.attempts, "a period after its ending"
            return
        if claim.crashes or claim.attempts:
            return  # it may have been begun where nobody can say so any more
        if not g.old_plan_runs:
            assert slot in self.line(taken.plan).slots, "no slot of its plan"
        expected, _ = self.line(taken.plan).chosen(slot, taken.now)
        assert expected == slot, f"{expected} is to run by its rule for missed ones"

    def _let_go(self, g: Ghost, old: Occ, new: Occ, verb: str) -> None:
        """The end of a claim: it is tried again, or the next occurrence follows."""
        taken, moved, g.moved = g.taken, g.moved, None
        assert taken is not None
        assert g.plan is not None or verb == "bury" or new.rest != "done", "a removed schedule leaves a row"
        if moved is None:
            assert new.due is not None, "an occurrence ended and wasn't counted"
            assert (new.slot, new.args) == (old.slot, old.args), "the next one begins without an end"
            assert new.again_due == old.again_due, "a change while it ran was ignored"
            if verb == "bury":
                assert new.crashes == old.crashes + 1, "the death of its worker is one crash"
            g.taken = None
            return
        g.taken = None
        if moved[0] == "fired":
            assert taken.slot == g.begun, "an occurrence ended that wasn't started"
            self.seen["finished"] += verb == "finish"
        g.begun = None
        if old.again_due is not None:
            assert new.due == old.again_due or new.rest is not None, "a change while it ran was ignored"
            self._placed(g, new, again=True)
            return
        assert (new.attempts, new.crashes) == (0, 0) or new.rest == "done", "the next one begins with failures"
        self._next(g, taken, moved, new)

    def _next(self, g: Ghost, taken: Taken, moved: tuple[str, int], new: Occ) -> None:
        """What follows on an occurrence that was neither changed nor removed."""
        plan, now = g.plan, self.clock.now()
        assert plan is not None
        if schedule.from_end(plan):
            g.highest = min(g.highest or 0, now)  # set back while it ran, the clock comes by earlier slots again
            if new.rest != "done":
                wait = (new.due or 0) - now - (plan.period_ms or 0)
                assert 0 <= wait <= 1 + plan.jitter_ms, "a period counts from the end"
            return
        line = self.line(plan)
        if moved[0] == "missed":
            assert not taken.begun, "an occurrence that was begun is passed over"
            expected, missed = line.chosen(taken.slot, taken.now)
            assert moved[1] == missed, f"{missed} are missed"
            self.seen["missed"] += missed
            before = line.until(taken.slot, expected - 1 if expected is not None else taken.now)
            g.highest = max(g.highest or 0, before[-1])
        else:
            expected = line.after(taken.slot)
        if plan.count is not None and g.fired >= plan.count:
            expected = None
        if expected is None:
            assert new.rest == "done", "goes on after its end"
            return
        assert new.slot == expected, f"the next slot is {expected}"
        assert new.due is not None
        assert expected <= new.due <= expected + plan.jitter_ms, "due by more than its jitter"

    # the end

    def check_end(self) -> None:
        """Each schedule has one row, and has run all that it had to; who ended did so for a reason."""
        query = self.connection.execute
        now = self.clock.now()
        for (name, key), g in self.ghosts.items():
            rows = query(
                "SELECT due, rest, token, scheduled_for FROM nextdue_task WHERE name = ? AND key = ?", (name, key)
            ).fetchall()
            if g.plan is None:
                if [row for row in rows if row[2] is None]:
                    raise Broken(f"{name} {key} was removed and its row is left: {rows}\n{g}")
                continue
            if len(rows) != 1:
                raise Broken(f"{name} {key} has {len(rows)} rows")
            due, rest, token, slot = rows[0]
            waits = rest is None and token is None and slot is None and schedule.from_end(g.plan)
            if waits and due > self._latest(g.plan) + BUSY_MS:
                raise Broken(f"{name} {key} waits until {due} for its period to pass (now {now})\n  {g}")
            if (g.paused or g.orphaned) and token is None and rest not in ("held", "done") and g.begun is None:
                raise Broken(f"{name} {key} isn't held though it is paused or without its code: {rows}\n{g}")
            if rest is None and token is None and due < now - BUSY_MS:
                raise Broken(f"{name} {key} was due at {due} and didn't run (now {now})\n{g}")
            (fired, ever) = query(
                "SELECT fired, missed_ever FROM nextdue_schedule WHERE name = ? AND key = ?", (name, key)
            ).fetchone()
            if (fired, ever) != (g.fired, g.missed_ever):
                raise Broken(f"{name} {key}: {fired} fired and {ever} missed, says its schedule\n{g}")


def _cells(kind: Any, text: str | None) -> Any:
    return None if text is None else kind(*json.loads(text))
