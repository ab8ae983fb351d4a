"""Every change of every row, as SQLite's own triggers see it inside the transaction, held against the laws."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nextdue.clock import MAX_MS
from nextdue.due import MAX_CRASHES
from nextdue.records import Claim, Ending, Mode, Put
from nextdue.testing import FakeClock
from nextdue.testing.worlds.account import FIELDS, Change, Row, watch, words
from nextdue.testing.worlds.groups import LIMITS, NAMES, RATES, Groups

CHANGING: tuple[Mode, ...] = ("replace", "earliest", "extend", "again")
"""The modes of a put that change a task which holds the key."""
MODES: tuple[Mode, ...] = (*CHANGING, "ignore", "reject")


class Broken(AssertionError):
    """A law is broken."""


@dataclass
class Actor:
    """A worker as the judge knows it; by its number, so that a restarted one is another."""

    number: int
    names: tuple[str, ...]
    queues: tuple[str, ...] | None
    dead: bool = False
    """Its end can be seen by its neighbours."""
    gone_at: int = MAX_MS
    excused_until: int = -1
    """Up to when (monotonic) it may have been unable to renew its leases."""
    endings: dict[tuple[int, int], Ending] = field(default_factory=dict)
    stopping: bool = False
    active: Mapping[Claim, int] = field(default_factory=dict)
    """What its executor is running."""

    def serves(self, name: str, queue: str) -> bool:
        return name in self.names and (self.queues is None or queue in self.queues)


class Judge:
    """Reads what was changed since it last looked and raises Broken."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        self.connection, self.clock = watch(path), clock
        self.actors: dict[int, Actor] = {}
        self.changes = 0
        self.done = 0
        self.groups = Groups()
        self.running: dict[int, dict[int, None]] = {}
        """The tasks that each worker holds."""
        self.paused: set[tuple[str, str]] = set()
        self.asked: list[Put] = []
        """What the caller that puts just now asked for."""
        self.finishing: tuple[int, int] | None = None
        """(id, token) of the claim that settles itself just now."""
        self.lines: Counter[tuple[int, str]] = Counter()
        """The lines of the history that each task must have, by outcome."""
        self._seen = 0
        self._tokens: set[int] = set()
        self._lanes: dict[int, tuple[str, int]] = {}
        self._select = (
            "SELECT seq, id, name, "
            + ", ".join([*(f"old_{f}" for f in FIELDS), *(f"new_{f}" for f in FIELDS)])
            + " FROM audit WHERE seq > ? ORDER BY seq"
        )

    def broken(self, what: str) -> None:
        raise Broken(what)

    def observe(self, verb: str, number: int | None = None) -> int:
        """Judge what this verb, called by this worker (None: a caller), changed; answers how many rows."""
        rows = self.connection.execute(self._select, (self._seen,)).fetchall()
        actor = None if number is None else self.actors.get(number)
        fresh: set[int] = set()
        for row in rows:
            seq, id, name, *cells = row
            change = Change(seq, id, name, Row(*cells[: len(FIELDS)]), Row(*cells[len(FIELDS) :]))
            self._seen = change.seq
            self._judge(change, verb, actor, fresh)
            self._hold(change)
            self.groups.note(change.id, change.name, change.old, change.new)
        self._tokens |= fresh
        self.changes += len(rows)
        return len(rows)

    def _hold(self, c: Change) -> None:
        if c.old.token != c.new.token:
            if c.old.token is not None:
                self.running[c.old.token >> 32].pop(c.id)
            if c.new.token is not None:
                self.running.setdefault(c.new.token >> 32, {})[c.id] = None

    def _judge(self, c: Change, verb: str, actor: Actor | None, fresh: set[int]) -> None:
        try:
            if c.begins:
                assert verb in ("put", "raw"), "put by a strange verb"
                assert c.new.token is None, "put as a row that runs already"
            elif c.ends:
                self._deleted(c, verb, actor)
            elif c.new.token is not None and c.new.token != c.old.token:
                self._claimed(c, verb, actor, fresh)
            elif c.old.token is not None and c.new.token is None:
                self._ended(c, verb, actor)
            elif c.old.token is not None:
                self._changed_while_running(c, verb, actor)
            elif verb == "tick" and not self._follows(c):
                self._refused(c, actor)
            elif not self._follows(c):
                self._changed_at_rest(c, verb)
        except AssertionError as exc:
            who = f"worker {actor.number}" if actor else "a caller"
            raise Broken(f"{words(exc)}\n{verb} by {who} at {self.clock.now()}\n{c}") from None

    def _claimed(self, c: Change, verb: str, actor: Actor | None, fresh: set[int]) -> None:
        old, new, now = c.old, c.new, self.clock.now()
        assert verb == "tick", "claimed by another verb than tick"
        assert actor is not None
        assert new.token is not None
        assert new.token >> 32 == actor.number, "the token is not the worker's own"
        assert new.token not in self._tokens, "a token was used twice"
        fresh.add(new.token)
        assert old.due is not None, "a row at rest was claimed"
        assert old.due <= now, f"claimed {old.due - now} ms early"
        assert self.open(actor, c.name, self.lane(new.lane)[0]), "claimed from a lane that isn't open"
        assert not actor.stopping, "claimed while stopping"
        assert new.due == now + NAMES[c.name], "due isn't the end of the lease"
        assert new.claims == old.claims + 1, "a claim is counted once"
        assert new.attempts == old.attempts, "a claim is no attempt"
        assert new.crashes == old.crashes + (old.token is not None), "only taking over is a crash"
        assert old.expires is None or old.expires > now, "started after it had expired"
        assert old.stop is None, "tried again although it was asked to stop"
        same = ("args", "again_due", "again_args", "key", "lane")
        assert all(getattr(old, f) == getattr(new, f) for f in same), "changed by a claim"
        if old.token is not None:
            assert c.name not in LIMITS, "taken over without a look at its limit and its rate"
            self._may_take_over(c, actor)
            return
        if c.name in LIMITS:
            assert not self.groups.full(c.name, new.grp), "more of a group run than its limit"
            assert not self.groups.too_early(c.name, new.grp, now), "started before its slot"
            self.groups.started(c.name, new.grp, now)

    def _may_take_over(self, c: Change, actor: Actor) -> None:
        assert c.old.token is not None
        assert c.old.token >> 32 != actor.number, "took over its own row"
        owner = self.actors[c.old.token >> 32]
        assert owner.gone_at < MAX_MS or owner.excused_until >= self.clock.monotonic_ms() - NAMES[c.name], (
            f"the lease of worker {owner.number} was stolen, which lives and could renew it"
        )

    def _next_life(self, c: Change) -> None:
        """What was asked for while it ran begins, whatever became of it."""
        old, new = c.old, c.new
        assert (new.due, new.args, new.rest) == (old.again_due, old.again_args, None), "a wish was lost"
        assert (new.attempts, new.crashes, new.claims, new.again_due, new.again_args) == (0, 0, 0, None, None), (
            "a next life begins with what was counted before"
        )
        assert new.grp == old.again_grp, "a next life in another group than it was asked for"

    def _ended(self, c: Change, verb: str, actor: Actor | None) -> None:
        old, new, now = c.old, c.new, self.clock.now()
        assert old.token is not None
        assert new.stop is None, "the wish to stop outlives the attempt"
        owner = self.actors[old.token >> 32]
        if verb == "bury":
            return self._buried(c, owner)
        if verb == "finish":
            return self._finished(c)
        assert verb == "tick", "ended by a strange verb"
        if actor is not owner:
            return self._over(c, actor)
        ending = owner.endings.pop((c.id, old.token), None)
        stopped = old.stop is not None and old.rest is None
        if old.again_due is not None and (ending is not None or new.again_due is None):
            assert ending or stopped or old.crashes >= MAX_CRASHES, "a release is no end"
            return self._next_life(c)
        assert (new.args, new.again_due, new.again_args) == (old.args, old.again_due, old.again_args), (
            "its arguments or its next life were changed by its end"
        )
        failed = ending is not None and ending.kind in ("failed", "gave_up")
        assert new.attempts == old.attempts + failed, "attempts are tries that failed"
        if stopped:
            assert new.rest is not None, "to be tried again although it was asked to stop"
            assert old.key is not None or new.rest == "dead"
        if ending is None:
            self._unstarted(c, owner)
        elif ending.kind == "done":
            assert (new.rest, new.crashes) == ("done", 0), "done, and the row says something else"
            assert old.key is not None, "a row without a key stays though it is done"
        elif ending.kind == "cancelled":
            assert (new.rest, old.key is not None) == ("cancelled", True), "cancelled, and the row says something else"
        elif ending.kind == "gave_up":
            assert new.rest == "dead"
        elif stopped:
            assert new.rest in ("cancelled", "dead"), "stopped, and the row is at rest as something else"
        elif ending.kind == "snoozed":
            assert (new.due, new.crashes) == (now + (ending.delay_ms or 0) + 1, 0), (
                "a snooze is due after its delay and forgives crashes"
            )
        else:
            assert new.rest == "dead" or (new.due is not None and new.due > now), "it failed and is due at once"
        return None

    def _finished(self, c: Change) -> None:
        """It settled itself; a change of it that was asked for begins."""
        assert (c.id, c.old.token) == self.finishing, "settled by somebody whose claim is lost"
        if c.old.again_due is not None:
            return self._next_life(c)
        assert (c.new.rest, c.new.crashes) == ("done", 0), "done, and the row says something else"
        assert c.old.key is not None, "a row without a key stays though it is done"
        return None

    def _buried(self, c: Change, owner: Actor) -> None:
        old, new, now = c.old, c.new, self.clock.now()
        assert owner.dead, "buried alive"
        self.lines[c.id, "crashed"] += 1
        self.lines[c.id, "cancelled"] += old.stop is not None
        if old.stop is not None and old.again_due is not None:
            return self._next_life(c)
        assert (new.crashes, new.attempts) == (old.crashes + 1, old.attempts), (
            "the death of its worker is one crash and no attempt"
        )
        if old.stop is not None:
            assert (new.due, new.rest) == (None, "cancelled"), "to be tried again although it was asked to stop"
            return None
        assert new.due == now + (250 << min(old.crashes, 12)), "it isn't due after the back-off of its crashes"
        assert (new.args, new.again_due, new.again_args) == (old.args, old.again_due, old.again_args), "a wish was lost"
        return None

    def _over(self, c: Change, actor: Actor | None) -> None:
        """Not started any more, by another than who held it last: it has expired, or was asked to stop."""
        old, new, now = c.old, c.new, self.clock.now()
        late = old.expires is not None and old.expires <= now
        assert actor is not None
        assert self.open(actor, c.name, self.lane(old.lane)[0]), "settled by a worker that doesn't serve its lane"
        assert old.due is not None
        assert old.due <= now, "settled before it was due"
        if c.name in LIMITS and not late and old.stop is None:
            return self._put_in_line(c, actor)
        assert late or old.stop is not None, "settled by another than its owner"
        self.lines[c.id, "cancelled" if old.stop is not None else "expired"] += 1
        if old.token is not None:
            self._may_take_over(c, actor)
        if old.again_due is not None:
            self._next_life(c)
        else:
            assert (new.due, new.rest) == (None, "cancelled" if old.stop is not None else "dead"), (
                "over, and the row says something else"
            )
        return None

    def _put_in_line(self, c: Change, actor: Actor) -> None:
        """Its lease is over: before it is started again its limit and its rate are asked."""
        self._may_take_over(c, actor)
        self.lines[c.id, "crashed"] += 1
        assert c.new == c.old._replace(token=None, crashes=c.old.crashes + 1), (
            "taking over is a crash and changes nothing else"
        )

    def _unstarted(self, c: Change, owner: Actor) -> None:
        """Given back, or refused by the rule of crashes."""
        assert c.new.crashes == c.old.crashes, "giving back is no crash"
        if c.new.rest is None:
            assert c.new.claims in (c.old.claims - 1, c.old.claims), (
                "giving back leaves its claims, or takes back one"
            )  # it ran if its worker's grace was over
        running = {(claim.id, claim.token) for claim in owner.active}
        assert (c.id, c.old.token) not in running, "given back while it runs"
        if c.new.rest is None:
            assert c.new.due == self.clock.now(), "given back for later"
        elif c.new.rest == "cancelled":
            assert c.old.stop is not None, "cancelled though nobody asked for that"
        else:
            assert c.new.rest == "dead"
            assert c.old.crashes >= MAX_CRASHES, "an innocent died"
            assert self.lane(c.old.lane)[1] == 1, "declared dead without having been tried alone"

    def _changed_while_running(self, c: Change, verb: str, actor: Actor | None) -> None:
        old, new = c.old, c.new
        if verb == "put":
            wish: dict[str, Any] = {"again_due": 0, "again_args": None, "latest": 0, "expires": 0, "again_grp": 0}
            assert old._replace(**wish) == new._replace(**wish), "a running row was changed by another than its owner"
            put = self._put(c, new.again_args)
            due, latest = self._due_of(put), old.latest
            if old.again_due is None:
                latest = None if put.latest_ms is None else self.clock.now() + put.latest_ms
            before, bound = due if old.again_due is None else old.again_due, MAX_MS if latest is None else latest
            assert new.again_due == self._joined(put, due, before, bound), "the wish isn't due as its mode says"
            assert (new.latest, new.again_grp) == (latest, put.group), (
                "a wish with another latest moment or group than it was asked for"
            )
        elif verb == "cancel":
            asked: dict[str, Any] = {"stop": 0, "again_due": None, "again_args": None}
            assert old._replace(**asked) == new._replace(**asked), "a running row was changed by another than its owner"
            assert new.stop is not None, "cancelled while it runs, and not asked to stop"
            assert new.again_due is None, "cancelled, and its next life goes on"
        else:
            assert old._replace(due=0) == new._replace(due=0), "a running row was changed by another than its owner"
            assert new.due == self.clock.now() + NAMES[c.name], "a renewal isn't as long as the lease"
            assert old.due is not None
            assert old.token is not None
            owned = verb == "tick" and actor is not None and actor.number == old.token >> 32
            assert new.due < old.due or owned, "renewed by another than its owner"

    def _put(self, c: Change, args: str | None) -> Put:
        """The put that asked for this."""
        found = [p for p in self.asked if (p.name, p.key, p.args) == (c.name, c.old.key, args)]
        assert found, "arguments that nobody gave"
        assert found[0].mode in CHANGING or c.new.rest is None, "a put that leaves alone what exists has changed it"
        return found[0]

    def _keeps_slot(self, c: Change, put: Put) -> bool:
        """Whether it stays where it is because its rate allows no earlier start."""
        earlier = c.old.due is not None and self._due_of(put) < c.old.due
        return earlier and c.name in RATES and c.old.grp == put.group and c.new.due == c.old.due

    def _has_slot(self, c: Change, put: Put) -> bool:
        """Whether a slot is its own, which an earlier due would lose."""
        slot = self.groups.slots[c.name, c.old.grp or ""].get(c.id)
        return slot is not None and c.old.grp == put.group and self.clock.now() < slot and self._due_of(put) < slot

    def _due_of(self, put: Put) -> int:
        return self.clock.now() + put.delay_ms + (put.delay_ms > 0) if put.due_ms is None else put.due_ms

    def _joined(self, put: Put, due: int, before: int, latest: int) -> int:
        """The due of a wish that meets another one; extending goes no further than `latest`."""
        if put.mode == "replace":
            return due
        if put.mode == "extend":
            return min(max(due, before), latest)
        return min(due, before)

    def _follows(self, c: Change) -> bool:
        """Whether it was set aside by its limit and is due again."""
        return c.old.rest == "blocked" and c.new == c.old._replace(due=c.old.wished, rest=None, wished=None)

    def _changed_at_rest(self, c: Change, verb: str) -> None:
        old, new = c.old, c.new
        if verb == "cancel":
            assert old.due is not None or old.rest in ("held", "dead", "blocked"), "what is over was cancelled"
            assert (new.rest, new.again_due) == ("cancelled", None), "cancelled, and the row says something else"
            self.lines[c.id, "cancelled"] += 1
        else:
            self._put_at_rest(c, verb)

    def _refused(self, c: Change, actor: Actor | None) -> None:
        """A row that was due isn't claimed: it has expired, or its group has no room or no slot for it."""
        old, new, now = c.old, c.new, self.clock.now()
        assert old.due is not None
        assert old.due <= now, "a row at rest was changed by a strange verb"
        if new.rest != "blocked" and (new.rest is not None or new.args != old.args):
            return self._over(c, actor)
        rest: dict[str, Any] = {"due": 0, "rest": None, "wished": None, "grp": None}
        assert old._replace(**rest) == new._replace(**rest), "waiting in line changes nothing else"
        assert c.name in LIMITS, "set aside without a limit"
        if new.rest == "blocked":
            assert (new.wished, new.due) == (old.due, None), "set aside with another due than it had"
            assert self.groups.full(c.name, new.grp), "set aside though there was room"
        else:
            assert self.groups.too_early(c.name, new.grp, now), "put off though its slot had come"
            assert new.due is not None
            assert new.due > now, "put off to a slot that is past"
            assert self.groups.given(c.id, c.name, new.grp, new.due), "two got one slot"
        return None

    def _put_at_rest(self, c: Change, verb: str) -> None:
        old, new, now = c.old, c.new, self.clock.now()
        assert verb in ("put", "raw"), "a row at rest was changed by a strange verb"
        put = self._put(c, new.args)
        before = old.due if old.due is not None else old.wished
        if before is not None and old.rest in (None, "blocked"):
            assert put.mode in ("replace", "earliest", "extend"), "a key in use was overwritten"
            latest = MAX_MS if old.latest is None else max(old.latest, before)
            expected = self._joined(put, self._due_of(put), before, latest)
            free = old.due is not None or old.grp != put.group
            at = new.due if free else new.wished
            assert at == expected or self._keeps_slot(c, put), "not due as its mode says"
            assert at == before or not self._has_slot(c, put), "gave up the slot of its rate"
            assert (new.rest, new.again_due, new.claims) == (None if free else old.rest, None, old.claims), (
                "an overwritten row waits and keeps its claims"
            )
            assert new.grp == put.group, "counted in another group than it was asked for"
            return
        ended = old.rest == "done" and ((old.gone_at is not None and old.gone_at <= now) or put.mode in CHANGING)
        assert old.rest in ("dead", "cancelled") or ended, "a key in use was overwritten"
        assert (new.attempts, new.crashes, new.claims, new.again_due) == (0, 0, 0, None), (
            "a new life begins with what was counted before"
        )

    def _deleted(self, c: Change, verb: str, actor: Actor | None) -> None:
        old = c.old
        assert old.again_due is None, "a wish was lost"
        if old.token is not None:
            owner = self.actors[old.token >> 32]
            assert old.key is None, "a key was forgotten"
            if verb == "finish":
                assert (c.id, old.token) == self.finishing, "settled by somebody whose claim is lost"
                self.done += 1
                return
            if verb == "bury":
                assert owner.dead, "buried alive"
                assert old.stop is not None, "deleted by a strange verb"
                self.lines[c.id, "cancelled"] += 1
                return
            assert verb == "tick", "deleted by a strange verb"
            assert actor is owner, "settled by another than its owner"
            ending = owner.endings.pop((c.id, old.token), None)
            if old.stop is not None and (ending is None or ending.kind not in ("done", "gave_up")):
                self.lines[c.id, "cancelled"] += 1
                return
            assert ending is not None, "deleted without an end"
            assert ending.kind == "done", f"deleted although it {ending.kind}"
            self.done += 1
        elif old.due is not None or old.rest == "blocked":
            raise AssertionError("a waiting task was deleted")
        elif old.gone_at is not None and old.gone_at <= self.clock.now():
            assert old.rest in ("done", "cancelled"), "only what is done or cancelled is forgotten"
        else:
            assert (verb, old.rest) in (("cancel", "cancelled"), ("tick", "cancelled")), "a task was deleted"
            assert old.key is None, "a key was forgotten"

    def lane(self, id: int) -> tuple[str, int]:
        """Queue of a lane, and whether its tasks are tried alone."""
        if id not in self._lanes:
            self._lanes = {
                lane: (queue, alone)
                for lane, queue, alone in self.connection.execute("SELECT id, queue, alone FROM nextdue_lane")
            }
        return self._lanes[id]

    def open(self, actor: Actor, name: str, queue: str) -> bool:
        """Whether this worker serves the lane and nobody paused it."""
        return actor.serves(name, queue) and not self.paused & {("queue", queue), ("name", name)}
