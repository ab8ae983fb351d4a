"""Any sequence of verbs does to the store what it does to the model. Hypothesis prints how to repeat a failure."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nextdue.records import Put
from nextdue.sqlite.inspect import check
from tests.contract.model import Model, Served, Task
from tests.contract.places import Hand, Place, again, at_rest, done

NAMES = ("mail", "mail", "mail", "export", "stranger")
LEASES = {"mail": 60_000, "export": 90_000}
DELAYS = st.sampled_from([0, 0, 0, 1, 70_000])
KEYS = st.none() | st.sampled_from(["a", "b"])
ROLES = st.tuples(
    st.sampled_from([LEASES, LEASES, {"mail": 60_000}, {"export": 90_000}]),
    st.sampled_from([None, None, ("default",), ("slow",)]),
)
OLD = ["done", "failed", "snoozed", "dead", "held", "released"]


def settlement(kind, claim, alone):
    match kind:
        case "done":
            forget = claim.key is None
            return done(
                claim, forget=forget, rest=None if forget else "done", attempts=claim.attempts, crashes=0, alone=0
            )
        case "failed":
            return again(claim, alone=alone)
        case "snoozed" | "released":
            return again(claim, kind, 0 if kind == "released" else 3_000)
        case _:
            return at_rest(claim, kind)


class StoreAndModel(RuleBasedStateMachine):
    @initialize(role=ROLES)
    def begin(self, role):
        self.folder = tempfile.TemporaryDirectory()
        self.place = Place("sqlite", Path(self.folder.name))
        self.clock = self.place.clock
        self.model = Model()
        self.hands: list[tuple[Hand, Served]] = []
        self.known: list = []
        self.puts = 0
        self.enlist(role)

    def teardown(self):
        if hasattr(self, "place"):
            findings = check(self.place.store.database)
            self.place.close()
            self.folder.cleanup()
            assert findings == []

    # callers

    @rule(
        name=st.sampled_from(NAMES),
        queue=st.sampled_from(["default", "slow"]),
        priority=st.sampled_from([0, 0, 5]),
        delay=DELAYS,
        key=KEYS,
        mode=st.sampled_from(["ignore", "reject", "replace", "earliest", "extend", "again"]),
        latest=st.sampled_from([None, 500, 80_000]),
    )
    def put(self, name, queue, priority, delay, key, mode, latest):
        self.puts += 1
        put = Put(name, queue, priority, f"[{self.puts}]", delay_ms=delay)
        if key:
            put = put._replace(key=key, remember_ms=2_000, mode=mode, latest_ms=latest)
        (answer,), ring = self.place.store.put([put])
        now = self.clock.now()
        task = Task(answer.id, name, queue, priority, put.args, now + delay + (delay > 0), key, put.remember_ms or 0)
        task.latest = now + latest if key and latest is not None else None
        expected = self.model.put(task, now, put.mode)
        assert (answer.created, answer.state, answer.id) == (*expected, task.id)
        moved = answer.state == "waiting" and put.mode in ("replace", "earliest", "extend")
        assert ring is ((answer.created or moved) and self.model.nearest(task.id))

    @rule(count=st.integers(1, 4), delay=DELAYS, name=st.sampled_from(NAMES))
    def put_many(self, count, delay, name):
        calls = "[" + ",".join(f"[{n}]" for n in range(count)) + "]"
        ids, ring = self.place.store.put_many(Put(name, "default", 0, "[]", delay_ms=delay), calls, count)
        due = self.clock.now() + delay + (delay > 0)
        for n, id in enumerate(ids):
            self.model.put(Task(id, name, "default", 0, f"[{n}]", due), self.clock.now())
        assert ring is self.model.nearest(ids[0])

    @precondition(lambda self: self.model.tasks or self.model.runs)
    @rule(data=st.data())
    def cancel(self, data):
        ids = sorted({*self.model.tasks, *(id for id, _ in self.model.runs)})
        id = data.draw(st.sampled_from(ids))
        assert self.place.store.cancel(id) == self.model.cancel(id, self.clock.now())

    # time

    @rule(ms=st.sampled_from([1, 500, 3_001, 70_000, 100_000]))
    def advance(self, ms):
        self.clock.advance(ms)

    # workers

    @precondition(lambda self: len(self.hands) < 3)
    @rule(role=ROLES)
    def enlist(self, role):
        leases, queues = role
        hand = self.place.hand(leases, None if queues is None else list(queues))
        self.hands.append((hand, Served(hand.id, leases, queues)))

    @precondition(lambda self: len(self.hands) > 1)
    @rule(data=st.data())
    def die_and_be_buried(self, data):
        dead, served = self.hands.pop(data.draw(st.integers(0, len(self.hands) - 1)))
        dead.die()
        assert sorted(self.hands[0][0].store.bury()) == sorted(self.model.bury(served.number, self.clock.now()))

    @rule(data=st.data(), slots=st.integers(0, 3), ahead=st.integers(0, 4), fair=st.booleans())
    def tick(self, data, slots, ahead, fair):
        hand, served = data.draw(st.sampled_from(self.hands))
        alone = data.draw(st.sampled_from([False, False, False, True]))
        now, monotonic = self.clock.now(), self.clock.monotonic_ms()
        self._look(hand, served)
        settlements = self._settlements(data, hand)
        renewing = data.draw(st.booleans())
        answer = hand.tick(
            settlements,
            slots=slots,
            ahead=ahead,
            fair=fair,
            alone=alone,
            renewed_ms=now + 1 if renewing else now,
            renew_every_ms=1,
        )
        assert sorted(answer.lost) == sorted(self.model.settle(served, settlements, now))
        left = {s.id for s in settlements if (s.id, s.token) not in answer.lost} & self.model.tasks.keys()
        waiting = [id for id in sorted(left) if self.model.tasks[id].state() == "waiting"]
        rung = any(self.model.nearest(id) for id in waiting)
        held = self.model.renew(served, now) if renewing else None
        rows = self.model.claimable(served, now, monotonic, alone=int(alone), fair=fair)
        claimed = self.model.claim(served, rows, hand.id << 32 | hand.ticks, now, slots, ahead)
        assert [claim.id for claim in answer.claims] == claimed
        assert answer.ring or not rung or any(id in claimed for id in waiting)
        if held is not None:
            assert answer.held == held | {(claim.id, claim.token) for claim in answer.claims}
        for claim in answer.claims:
            self.known.append(claim)
            task = self.model.tasks[claim.id]
            assert (claim.attempts, claim.crashes, claim.claims) == (task.attempts, task.crashes, task.claims)
            assert (claim.scheduled_for, claim.alone, claim.key) == (task.scheduled_for, task.alone, task.key)

    def _settlements(self, data, hand):
        """Some of what it holds, and sometimes a claim of long ago, whoever made it."""
        found = {}
        for claim in hand.held.values():
            if data.draw(st.booleans()):
                kind, alone = data.draw(st.sampled_from(OLD)), data.draw(st.sampled_from([False, False, True]))
                found[claim.id] = settlement(kind, claim, alone)
        live = {claim.token for other, _ in self.hands for claim in other.held.values()}
        stale = [claim for claim in self.known if claim.token not in live and claim.id not in found]
        if stale and data.draw(st.booleans()):
            claim = data.draw(st.sampled_from(stale))
            found[claim.id] = settlement(data.draw(st.sampled_from(OLD)), claim, False)
        return list(found.values())

    def _look(self, hand, served):
        now, monotonic = self.clock.now(), self.clock.monotonic_ms()
        look = hand.store.look(hand.id)
        expected = [self.model.look(served, now, monotonic, alone=alone) for alone in (0, 1)]
        assert [look.due_ms, look.alone_due_ms] == expected
        doubted = [
            t
            for t in self.model.tasks.values()
            if t.token is not None
            and (t.due or 0) <= now
            and served.serves(t)
            and not self.model.believes(served, t, monotonic)
        ]
        assert (look.retry_at_ms is not None) is bool(doubted)
        if served.steady_since is None:
            served.steady_since = monotonic

    @invariant()
    def rows_are_the_same(self):
        if not hasattr(self, "place"):
            return
        rows = self.place.store.database.connection.execute(
            "SELECT t.id, t.due, t.rest, t.token, t.attempts, t.crashes, t.claims, t.scheduled_for, t.gone_at, "
            "t.args, t.again_due, t.again_args, t.latest, t.stop, l.queue, l.name, l.priority, l.alone "
            "FROM nextdue_task t JOIN nextdue_lane l ON l.id = t.lane "
            "ORDER BY t.id"
        ).fetchall()
        expected = [
            (
                *(t.id, t.due, t.rest, t.token, t.attempts, t.crashes, t.claims, t.scheduled_for, t.gone_at),
                *(t.args, t.again_due, t.again_args, t.latest, t.stop, *t.lane()),
            )
            for _, t in sorted(self.model.tasks.items())
        ]
        assert rows == expected
        runs = [(run.task, run.outcome) for run in self.place.store.runs(limit=1_000)]
        assert sorted(runs) == sorted(self.model.runs)


StoreAndModel.TestCase.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
TestStoreAndModel = StoreAndModel.TestCase
