"""What a judge of effects knows besides: who waits for what, which life of a task it is, and what was done outside."""

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextdue.clock import MAX_MS
from nextdue.records import Claim, Put
from nextdue.testing import FakeClock
from nextdue.testing.worlds.account import Change, words
from nextdue.testing.worlds.executor import Job, number_of
from nextdue.testing.worlds.groups import NAMES
from nextdue.testing.worlds.judge import Actor, Broken, Judge
from nextdue.testing.worlds.plays import Life, Outside, Play

if TYPE_CHECKING:
    from nextdue.testing.worlds.stage import Attempt

OVER = ("done", "dead", "cancelled")
Cause = tuple[str, int | str]
"""What is waited for: ("task", id) or ("event", name)."""


class EffectJudge(Judge):
    """Also sees marks, and holds them against the world outside."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        super().__init__(path, clock)
        query = self.connection.execute
        query("CREATE TABLE own(task INTEGER NOT NULL, life INTEGER NOT NULL)")
        columns = "task, label, begun, done, result, problem"
        query(f"CREATE TABLE effects(seq INTEGER PRIMARY KEY, what, {columns}, token)")
        token = "(SELECT token FROM nextdue_task WHERE id = {}.task)"
        for verb, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            values = ", ".join(f"{row}.{column}" for column in columns.split(", "))
            query(
                f"CREATE TRIGGER effects_{verb} AFTER {verb} ON nextdue_mark BEGIN "
                f"INSERT INTO effects(what, {columns}, token) VALUES ('{verb}', {values}, {token.format(row)}); END"
            )
        self.jobs: dict[int, Job] = {}
        self.outside = Outside()
        self.lives: defaultdict[int, int] = defaultdict(int)
        self.begun: set[int] = set()
        """Those that were claimed in this life."""
        self.claims: dict[tuple[int, int], int] = {}
        """The life of each claim, by id and token."""
        self.waits: defaultdict[int, set[Cause]] = defaultdict(set)
        """What each task still waits for."""
        self.parents: dict[int, Put] = {}
        """How those were put that come after others."""
        self.ended: dict[int, str] = {}
        """How each task ended, until it has a new life."""
        self.returned: defaultdict[int, set[int]] = defaultdict(set)
        """What each task may have returned."""
        self.keyed: list[Put] = []
        """What was put under the few keys."""
        self.until: dict[tuple[Life, str], int] = {}
        """Until when a task waits for an event."""
        self.sent: dict[str, Any] = {}
        self.finished: set[Life] = set()
        """The lives that ended together with a row of their own."""
        self.freed: set[int] = set()
        """Tasks that a person started although one of their parents is over."""
        self.seen = dict.fromkeys(
            ("doubts", "woken", "held", "cancelled", "rests", "lives", "retried", "timeouts", "extended"), 0
        )
        """What these worlds saw, and how often."""
        self._read = 0
        self._breach: str | None = None
        self._batch: list[Change] = []

    # what attempts tell

    def life_of(self, claim: Claim) -> Life:
        """Which life of which task this claim is of."""
        return claim.id, self.claims[claim.id, claim.token]

    def holds(self, claim: Claim) -> bool:
        """Whether the claim still stands; who has lost it may see what others have marked since."""
        query = "SELECT 1 FROM nextdue_task WHERE id = ? AND token = ?"
        return self.connection.execute(query, (claim.id, claim.token)).fetchone() is not None

    def breach(self, what: str) -> None:
        """A law is broken inside of a task, which might catch what is raised."""
        self._breach = self._breach or what
        raise Broken(what)

    def marked(self, claim: Claim) -> None:
        """This attempt may have marked something: only while its claim stood."""
        if self._breach is not None:
            raise Broken(self._breach)
        for label, token in self._marks_since():
            if token != claim.token:
                raise Broken(f"task {claim.id}: {label!r} was marked for claim {claim.token}, but {token} holds it")

    def _marks_since(self) -> list[tuple[str, int | None]]:
        """The steps and waits that were marked since this was last asked, with the token that held their task."""
        rows = self.connection.execute(
            "SELECT seq, label, token FROM effects WHERE seq > ? AND label NOT LIKE '@after %' AND label <> '@cursor' "
            "AND what <> 'DELETE' ORDER BY seq",
            (self._read,),
        ).fetchall()
        self._read = rows[-1][0] if rows else self._read
        return [(label, token) for _, label, token in rows]

    def begins(self, claim: Claim, attempt: "Attempt") -> None:
        """An attempt begins: what it finds marked is of this life, and those it comes after are done."""
        if not self.holds(claim):
            return  # its lease was lost before it began
        known = self.outside.labels[attempt.life]
        marks = self.connection.execute("SELECT label FROM nextdue_mark WHERE task = ?", (claim.id,)).fetchall()
        for (label,) in marks:
            if label not in known and not label.startswith("@after "):
                raise Broken(f"task {claim.id}: the mark {label!r} outlived its occurrence")
        put = self.parents.get(claim.id)
        results = attempt.context.results
        if len(results) != (0 if put is None else len(put.after)):
            raise Broken(f"task {claim.id}: the results are {results}, it comes after {put and put.after}")
        for parent, result in zip(put.after if put else (), results, strict=True):
            if result not in self.returned[parent] and (claim.id not in self.freed or result is not None):
                raise Broken(f"task {claim.id}: task {parent}, which it comes after, did not return {result!r}")

    def by_itself(self, claim: Claim, verb: str, number: int) -> None:
        """A task ends its claim itself, if it still holds it."""
        self.finishing = claim.id, claim.token
        self.observe(verb, number)

    def heard(self, event: str, data: Any) -> None:
        """A task was told that an event has come."""
        if event not in self.sent or self.sent[event] != data:
            self.breach(f"event {event!r} was heard as {data!r}, and sent as {self.sent.get(event)!r}")

    def timed_out(self, claim: Claim, event: str) -> None:
        """A task was told that an event has not come in time."""
        if ("event", event) not in self.waits[claim.id]:
            return  # once more
        if self.clock.now() < self.until[self.life_of(claim), event]:
            self.breach(f"task {claim.id}: event {event!r} was given up before its time")
        self.waits[claim.id].discard(("event", event))
        self.seen["timeouts"] += 1

    def was_sent(self, event: str, data: Any) -> None:
        """The send of an event was committed."""
        self.sent[event] = data
        for causes in self.waits.values():
            causes.discard(("event", event))

    # changes

    def observe(self, verb: str, number: int | None = None) -> int:
        count = super().observe(verb, number)
        if count:
            self._check_batch(verb)
            self._batch = []
        if verb not in ("rest", "finish"):
            self._marks_since()  # an event came, or a person decided
        return count

    def _judge(self, c: Change, verb: str, actor: Actor | None, fresh: set[int]) -> None:
        if c.old == c.new:
            return  # what it says of itself
        before, owner = self.done, None if c.old.token is None else self.actors[c.old.token >> 32]
        ending = None if owner is None or c.old.token is None else owner.endings.get((c.id, c.old.token))
        try:
            taken = self._of_waiting(c, verb, ending.kind if ending else None)
        except AssertionError as exc:
            raise Broken(f"{words(exc)}\n{verb} at {self.clock.now()}\n{c}") from None
        if not taken:
            super()._judge(c, verb, actor, fresh)
        if c.begins and verb == "put":
            self._begins(c)
        succeeded = verb == "finish" or (verb == "tick" and ending is not None and ending.kind == "done")
        if c.old.token is not None and c.new.token is None and (succeeded or self.done > before):
            self._done(c, verb)
        if c.new.rest in OVER and c.old.rest != c.new.rest:
            self._is_over(c.id, str(c.new.rest))
        elif c.old.rest in OVER and not c.ends and c.new.rest is None:
            self.ended.pop(c.id, None)
        elif c.ends and c.old.rest is None:
            self._is_over(c.id, "done" if self.done > before else "cancelled")
        if c.new.token is not None and c.new.token != c.old.token:
            self.claims[c.id, c.new.token] = self.lives[c.id]
            self.begun.add(c.id)
            self.returned[c.id].add(number_of(c.new.args))
        self._lives(c, verb)

    def _lives(self, c: Change, verb: str) -> None:
        """Whether a new life begins."""
        if c.begins or c.ends:
            return
        over = verb == "put" and c.old.rest in OVER
        replaced = (
            verb == "put"
            and c.old.token is None
            and any(
                p.mode == "replace" and (p.name, p.key, p.args) == (c.name, c.old.key, c.new.args) for p in self.asked
            )
        )
        wish = c.old.again_due is not None and c.old.token is not None and c.new.token is None
        following = wish and c.new.again_due is None and c.new.due is not None
        if not (over or replaced or following or c.old.args != c.new.args):
            return
        self.lives[c.id] += 1
        self.seen["lives"] += 1
        if over or c.id in self.begun:
            self.waits[c.id].clear()
            self.parents.pop(c.id, None)
            self.freed.discard(c.id)
        if over or replaced or following:
            self.begun.discard(c.id)
        if over:
            self._begins(c)

    def _begins(self, c: Change) -> None:
        """A task, or a life of one, that may come after others."""
        put = next((put for put in self.asked if put.args == c.new.args), None)
        if put is not None and put.after:
            self._comes_after(c.id, put)

    def _comes_after(self, id: int, put: Put) -> None:
        self.parents[id] = put
        self.waits[id] = {("task", parent) for parent in put.after if self.ended.get(parent) != "done"}

    def _done(self, c: Change, verb: str) -> None:
        """A life has ended well: all its effects are out, and those that come after it may start."""
        life: Life = c.id, self.claims[c.id, c.old.token or 0]
        play = self.jobs[number_of(c.old.args)]
        assert isinstance(play, Play)
        for act in play.acts:
            if act.what != "step" or act.how == "skip":
                continue
            made = len(self.outside.effects[life, act.label])
            if not made:
                raise Broken(f"task {c.id} is done and its step {act.label!r} ({act.how}) was never made")
        if verb == "finish":
            self.finished.add(life)
        for causes in self.waits.values():
            causes.discard(("task", c.id))

    def _is_over(self, id: int, how: str) -> None:
        self.ended[id] = how
        if how != "dead":
            self.waits[id].clear()

    def _of_waiting(self, c: Change, verb: str, ending: str | None) -> bool:
        """Judge what becomes of those that wait, are held or are started by a person; False: any other change."""
        old, new = c.old, c.new
        if old.token is not None and new.token is None and not c.ends:
            if verb == "rest":
                self._rests(c)
                return True
            if ending == "held" and old.again_due is None and verb == "tick":
                assert (new.rest, new.stop) == ("held", None), "in doubt, and the row says something else"
                self.actors[old.token >> 32].endings.pop((c.id, old.token))
                self.seen["doubts"] += 1
                return True
            return False
        if verb == "extend":
            assert (c.id, old.token) == self.finishing, "extended by somebody whose claim is lost"
            assert new == old._replace(due=self.clock.now() + NAMES[c.name]), "extended, and more than that was changed"
            self.seen["extended"] += 1
            return True
        if c.begins or c.ends or old.token is not None or new.token is not None:
            return False
        if verb in ("retry", "resolve"):
            assert new.due is not None, "started by a person, and not due"
            assert new.due <= self.clock.now() or old.due == new.due, "started by a person, and due later"
            self._started(c, verb)
            return True
        if old.rest == "waits" and new.rest == "cancelled" and verb == "cancel":
            self.lines[c.id, "cancelled"] += 1
            return True
        if verb == "put" and old.rest == new.rest == "waits":
            self._changed_while_waiting(c)
            return True
        moved = {old.rest, new.rest} & {"waits", "held"} and new.rest not in (old.rest, "cancelled")
        early = verb == "send" and old.rest is None and new.rest is None
        if moved or early:
            self._batch.append(c)
        return bool(moved or early)

    def _changed_while_waiting(self, c: Change) -> None:
        """What it does and when is changed; what it comes after isn't, and it waits on. (An event: see _moved.)"""
        put = self._put(c, c.new.args)
        assert put.mode in ("replace", "earliest", "extend"), "a key in use was overwritten"
        latest = MAX_MS if c.old.latest is None else max(c.old.latest, c.old.wished or 0)
        assert c.new.wished == self._joined(put, self._due_of(put), c.old.wished or 0, latest), (
            "not due as its mode says"
        )
        assert c.new.claims == c.old.claims, "a change is no claim"

    def _started(self, c: Change, verb: str) -> None:
        if verb == "retry":
            self.seen["retried"] += 1
            if c.id in self.parents:
                self.freed.add(c.id)
            self.waits[c.id].clear()

    def _rests(self, c: Change) -> None:
        """It waits for an event, or a time: its claim is over."""
        old, new = c.old, c.new
        assert (c.id, old.token) == self.finishing, "put to rest by somebody whose claim is lost"
        if old.again_due is not None:
            return self._next_life(c)
        assert (new.attempts, new.crashes, new.args) == (old.attempts, 0, old.args), "a wait is no attempt"
        events = self.connection.execute(
            "SELECT waits FROM nextdue_mark WHERE task = ? AND typeof(waits) = 'text' AND done IS NULL", (c.id,)
        ).fetchall()
        assert events or new.due is not None, "rests, and for nothing"
        for (event,) in events:
            assert event not in self.sent, f"waits for event {event!r}, which was sent before"
            self.waits[c.id].add(("event", event))
            self.until[(c.id, self.lives[c.id]), event] = MAX_MS if new.due is None else new.due
        self.seen["rests"] += 1
        return None

    # when a verb is through

    def _check_batch(self, verb: str) -> None:
        for c in self._batch:
            try:
                self._moved(c, verb)
            except AssertionError as exc:
                raise Broken(f"{words(exc)}\n{verb} at {self.clock.now()}\n{c}") from None
        rows = self.connection.execute("SELECT id, rest, reason FROM nextdue_task WHERE rest IN ('waits', 'held')")
        for id, rest, reason in rows.fetchall():
            failed = self._hopeless(id)
            if rest == "waits" and not self.waits[id]:
                raise Broken(f"task {id} waits, and all that it waits for has come\n{verb} at {self.clock.now()}")
            if rest == "waits" and id not in self.freed and failed:
                raise Broken(f"task {id} waits for task {failed[0]}, which is over\n{verb} at {self.clock.now()}")
            if rest == "held" and reason == "parent" and not self.waits[id]:
                raise Broken(f"task {id} is held though all that it comes after is done")

    def _failed(self, id: int) -> list[Any]:
        """Those that it comes after and that ended badly."""
        put = self.parents.get(id)
        return [] if put is None else [of for of in put.after if self.ended.get(of) in ("dead", "cancelled")]

    def _hopeless(self, id: int) -> list[Any]:
        """Those of them that it still waits for."""
        return [of for of in self._failed(id) if ("task", of) in self.waits[id]]

    def _moved(self, c: Change, verb: str) -> None:
        old, new, now = c.old, c.new, self.clock.now()
        failed = self._failed(c.id)
        if new.rest == "waits":
            assert verb == "put", "waits again"
            assert self.waits[c.id], "waits for nothing"
            assert new.wished == old.due, "another due than it was put with"
        elif new.rest == "held":
            assert failed, "held for a parent, and none of them is over"
            assert self.parents[c.id].if_dead == "hold", "held instead of cancelled"
            self.seen["held"] += 1
        elif new.stop is not None:
            assert failed, "cancelled for a parent, and none of them is over"
            assert self.parents[c.id].if_dead == "cancel", "cancelled instead of held"
            self.seen["cancelled"] += 1
        elif verb == "put":
            assert new.due == old.wished, "its next life isn't due as it was asked for"
        else:
            assert not self.waits[c.id], f"due though it waits for {sorted(map(str, self.waits[c.id]))}"
            expected = max(old.wished or 0, now) if old.due is None else min(old.due, now)
            assert new.due == expected, "what it waited for has come, and it isn't due then"
            self.seen["woken"] += 1

    # when all is over

    def check_end(self) -> None:
        """The user's own rows are there once for each life that ended with them, and for no other."""
        rows = self.connection.execute("SELECT task, life FROM own").fetchall()
        if len(set(rows)) != len(rows):
            raise Broken(f"a row of a task's own was doubled: {sorted(row for row in rows if rows.count(row) > 1)}")
        if set(rows) != self.finished:
            raise Broken(f"rows of tasks' own and their ends differ: {sorted(set(rows) ^ self.finished)}")
