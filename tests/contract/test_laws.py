"""The laws that one process can show, by their numbers. Times in ms."""

import pytest

from nextdue.clock import MAX_MS
from nextdue.errors import StoreError
from nextdue.records import Put, Settlement
from nextdue.testing.crashes import Killed
from nextdue.testing.worlds.faults import Trap
from tests.contract.places import LEASE_MS, again, at_rest, done, listed

MAIL = Put("mail", "default", 0, "[1]")
HOUR_MS = 3_600_000


# 1. Durability


def test_law_1_what_is_put_is_there_for_everybody_on_return(place):
    id = place.put()
    many, _ = place.store.put_many(MAIL, "[[2], [3]]", 2)
    other = place.open()
    assert [task.id for task in listed(other)] == [id, *many]


def test_law_1_facts_are_written_through_to_the_disk(place):
    """FULL for puts, settlements and cancellations; claims may be forgotten by a power cut: their rows are due."""

    def full(store):
        return store.database.connection.execute("PRAGMA synchronous").fetchone()[0] == 2

    hand = place.hand()
    place.put()
    assert full(place.store)
    (claim,) = hand.claim()
    assert not full(hand.store)
    hand.tick([done(claim)])
    assert full(hand.store)
    place.store.cancel(place.put())
    assert full(place.store)


def test_law_1_a_crash_of_the_caller_after_the_return_loses_nothing(place):
    caller = place.open()
    caller.put([MAIL])
    caller.database.connection.close()
    assert len(listed(place.store)) == 1


def test_law_1_what_nobody_understands_stays(place):
    """F091, F092: unknown names, unknown queues and arguments that fit nothing wait untouched for who knows them."""
    hand = place.hand({"mail": LEASE_MS}, ["default"])
    place.put("no_such_task")
    place.put(queue="elsewhere")
    place.put("no_such_task", args='{"a": [null]}')
    before = place.rows()
    for _ in range(3):
        assert hand.store.look(hand.id).due_ms is None
        assert hand.claim() == []
        place.clock.advance(HOUR_MS)
    assert place.rows() == before


# 3. One transaction


@pytest.mark.parametrize("where", ["before", "inside", "after"])
def test_law_3_a_tick_is_done_whole_or_not_at_all(place, where):
    """F039, F050: torn anywhere, the settlements, history and claims of a tick are all there or none."""
    kept = gone = 0
    for steps in range(1, 2_000, 60):
        hand = place.hand()
        place.put()
        (claim,) = hand.claim(1)
        place.put()
        before = place.rows()
        trap = Trap(hand.store)
        trap.arm(where, 0, steps)
        with pytest.raises(Killed):
            hand.tick([done(claim)], slots=5)
        tasks, runs = place.rows()
        if [tasks, runs] == before:
            kept += 1
        else:
            gone += 1
            assert claim.id not in [row[0] for row in tasks]
            assert claim.id in [run[1] for run in runs]
            assert all(task.state == "running" for task in listed(place.store))
        hand.die()
        place.hand().store.bury()
        for task in listed(place.store):
            place.store.cancel(task.id)
    assert (kept > 0) is (where != "after")
    assert (gone > 0) is (where != "before")


def test_law_3_many_are_put_all_or_none(place):
    with pytest.raises(StoreError):
        place.store.put_many(MAIL, "[[1], [2, [3]]", 3)
    assert listed(place.store) == []


# 4. Claims


def test_law_4_two_claims_never_share_a_row(place):
    """F045, F047, F074."""
    ids = [place.put() for _ in range(20)]
    first, second = place.hand(), place.hand()
    claimed = [claim.id for hand in (first, second, first, second) for claim in hand.claim(7)]
    assert sorted(claimed) == ids


def test_law_4_a_claim_says_so_in_its_row(place):
    id, hand = place.put(), place.hand()
    place.clock.advance(5)
    (claim,) = hand.claim()
    task = place.store.get(id)
    assert (task.state, task.due, task.claims) == ("running", place.clock.now() + LEASE_MS, 1)
    assert (task.worker, claim.token >> 32, claim.claims) == (hand.id, hand.id, 1)
    assert claim.scheduled_for == place.clock.START


def test_law_4_no_token_comes_twice(place):
    place.put()
    tokens = []
    for _ in range(3):
        hand = place.hand()
        for _ in range(3):
            (claim,) = hand.claim()
            tokens.append(claim.token)
            hand.tick([again(claim, "released", 0)])
        hand.store.resign(hand.id)
    assert len(set(tokens)) == len(tokens)


# 5. The token


LATE = [done, again, at_rest, lambda claim: again(claim, "snoozed"), lambda claim: at_rest(claim, "held")]


@pytest.mark.parametrize("settlement", LATE)
def test_law_5_a_late_settlement_is_lost_and_changes_nothing(place, settlement):
    """F027: whoever was stopped for longer than its lease comes back to a row that another one holds."""
    place.put()
    stopped, taker = place.hand(), place.hand()
    (old,) = stopped.claim()
    taker.store.look(taker.id)
    place.clock.advance(LEASE_MS + 1)
    (new,) = taker.claim()
    before = place.rows()
    answer = stopped.tick([settlement(old)])
    assert answer.lost == [(old.id, old.token)]
    assert place.rows() == before
    assert taker.tick([done(new)]).lost == []
    assert stopped.tick([settlement(old)]).lost == [(old.id, old.token)]


def test_law_5_of_several_settlements_only_the_lost_ones_are_refused(place):
    for _ in range(3):
        place.put()
    hand = place.hand()
    a, b, c = hand.claim()
    forged = Settlement(b.id, b.token + 1, "done", ran_ms=0, forget=True)
    answer = hand.tick([done(a), forged, again(c)])
    assert answer.lost == [(b.id, b.token + 1)]
    assert {task.id: task.state for task in listed(place.store)} == {b.id: "running", c.id: "waiting"}


def test_law_5_nobody_but_its_owner_touches_a_running_row(place):
    id = place.put(key="k", args="[1]")
    hand = place.hand()
    hand.claim()
    before = place.rows()
    (answer,), ring = place.store.put([MAIL._replace(key="k", args="[2]")])
    assert (answer.id, answer.created, answer.state, ring) == (id, False, "running", False)
    assert place.rows() == before
    assert place.store.cancel(id) == "running"
    asked = "SELECT due, token, args, stop FROM nextdue_task"
    due, token, args, stop = place.store.database.connection.execute(asked).fetchone()
    assert (due - LEASE_MS, token, args, stop) == (place.clock.now(), hand.held[id].token, "[1]", place.clock.now())


# 6. Leases and deaths


def test_law_6_an_expired_lease_is_taken_by_the_ordinary_claim(place):
    """F032, F033: no rescuer, no row about the worker is needed."""
    place.put()
    dead, taker = place.hand(), place.hand()
    dead.claim()
    dead.store.lives.forget(dead.id)
    dead.die()
    place.store.database.connection.execute("DELETE FROM nextdue_worker WHERE id = ?", (dead.id,))
    taker.store.look(taker.id)
    place.clock.advance(LEASE_MS - 1)
    assert taker.claim() == []
    place.clock.advance(1)
    (claim,) = taker.claim()
    assert (claim.claims, claim.crashes) == (2, 1)
    assert [run.outcome for run in place.store.runs()] == ["crashed"]


def test_law_6_a_death_is_noticed_at_once(place):
    """F029, F037."""
    id = place.put()
    dead, neighbour = place.hand(), place.hand()
    dead.claim()
    dead.die()
    assert neighbour.store.bury() == [id]
    task = place.store.get(id)
    assert (task.state, task.due, task.crashes, task.attempts) == ("waiting", place.clock.now() + 250, 1, 0)
    assert task.reason == "worker_died"
    assert neighbour.store.bury() == []


def test_law_6_a_stopped_worker_is_not_dead(place):
    place.put()
    stopped, neighbour = place.hand(), place.hand()
    stopped.claim()
    place.clock.advance(LEASE_MS // 2)
    assert neighbour.store.bury() == []
    assert neighbour.claim() == []


def test_law_6_no_lease_is_taken_right_after_a_clock_step(place):
    """F007: after a step every lease looks expired, though it isn't the owners that are late."""
    place.put()
    owner, neighbour = place.hand(), place.hand()
    (claim,) = owner.claim()
    neighbour.store.look(neighbour.id)
    place.clock.advance(LEASE_MS // 2)
    place.clock.step(HOUR_MS)
    look = neighbour.store.look(neighbour.id)
    assert look.due_ms is None
    assert look.retry_at_ms is not None
    assert neighbour.claim() == []
    assert owner.tick([done(claim)]).lost == []


def test_law_6_no_lease_is_taken_right_after_a_long_wait_for_the_lock(place):
    place.put()
    owner, neighbour = place.hand(), place.hand()
    owner.claim()
    neighbour.store.look(neighbour.id)
    place.clock.advance(LEASE_MS + 1)
    neighbour.store.steady.waited(100)
    assert neighbour.claim() == []
    retry_at = neighbour.store.look(neighbour.id).retry_at_ms
    place.clock.advance(retry_at - place.clock.now())
    assert len(neighbour.claim()) == 1


def test_law_6_a_clock_set_back_makes_no_lease_longer(place):
    """F007: of the dead; the living renew theirs."""
    id = place.put()
    dead, neighbour = place.hand(), place.hand()
    dead.claim()
    dead.store.lives.forget(dead.id)
    dead.die()
    neighbour.store.look(neighbour.id)
    place.clock.step(-24 * HOUR_MS)
    neighbour.store.look(neighbour.id)
    assert place.store.get(id).due <= place.clock.now() + LEASE_MS


# 7. Renewal


def test_law_7_renewal_comes_before_the_claim_of_the_same_tick(place):
    """A worker that comes back late renews its rows instead of taking them from itself."""
    place.put()
    hand = place.hand()
    (claim,) = hand.claim()
    renewed = place.clock.now()
    place.clock.advance(2 * LEASE_MS)
    answer = hand.tick(slots=5, renewed_ms=renewed, renew_every_ms=LEASE_MS // 3)
    assert answer.claims == []
    assert answer.held == {(claim.id, claim.token)}
    assert place.store.get(claim.id).due == place.clock.now() + LEASE_MS


def test_law_7_nothing_is_renewed_before_it_is_time(place):
    place.put()
    hand = place.hand()
    (claim,) = hand.claim()
    due, now = place.store.get(claim.id).due, place.clock.now()
    place.clock.advance(LEASE_MS // 3)
    assert hand.tick(renewed_ms=now, renew_every_ms=LEASE_MS // 3).held is None
    assert place.store.get(claim.id).due == due
    place.clock.advance(1)
    assert hand.tick(renewed_ms=now, renew_every_ms=LEASE_MS // 3).held == {(claim.id, claim.token)}
    assert place.store.get(claim.id).due == place.clock.now() + LEASE_MS


def test_law_7_a_worker_learns_that_a_lease_is_lost(place):
    for _ in range(2):
        place.put()
    stopped, taker = place.hand(), place.hand()
    a, b = stopped.claim()
    taker.store.look(taker.id)
    place.clock.advance(LEASE_MS + 1)
    (taken,) = taker.claim(1)
    answer = stopped.tick(renewed_ms=1, renew_every_ms=1)
    assert answer.held == {(claim.id, claim.token) for claim in (a, b) if claim.id != taken.id}


def test_law_7_each_row_is_renewed_by_its_own_lease(place):
    leases = {"mail": LEASE_MS, "export": 5 * LEASE_MS}
    hand = place.hand(leases)
    ids = {place.put(name): lease for name, lease in leases.items()}
    hand.claim()
    place.clock.advance(1_000)
    hand.tick(renewed_ms=1, renew_every_ms=1)
    assert all(place.store.get(id).due == place.clock.now() + lease for id, lease in ids.items())


# 8. Crashes


def test_law_8_what_must_be_tried_alone_is_claimed_by_none_beside_others(place):
    id, other = place.put(), place.put()
    hand = place.hand()
    first, second = hand.claim()
    hand.tick([again(first, "released", 0, alone=True, crashes=2), again(second, "released", 0)])
    look = hand.store.look(hand.id)
    assert (look.due_ms, look.alone_due_ms) == (place.clock.now(), place.clock.now())
    assert [claim.id for claim in hand.claim()] == [other]
    (claim,) = hand.claim(alone=True)
    assert (claim.id, claim.alone, claim.crashes) == (id, 1, 2)


def test_law_8_rows_with_crashes_are_never_claimed_ahead(place):
    risky, dead = place.put(), place.hand()
    dead.claim()
    dead.die()
    hand = place.hand()
    hand.store.bury()
    place.clock.advance(1_000)
    early = [place.put(priority=1) for _ in range(2)]
    late = [place.put() for _ in range(2)]
    assert [claim.id for claim in hand.claim(2, ahead=2)] == [*early, late[0]]
    assert [claim.id for claim in hand.claim(1, ahead=5)] == [risky, late[1]]


def test_law_8_each_crash_is_counted_and_waits_twice_as_long(place):
    id = place.put()
    waits, crashes = [], []
    neighbour = place.hand()
    for _ in range(4):
        hand = place.hand()
        hand.claim(1)
        hand.die()
        neighbour.store.bury()
        task = place.store.get(id)
        waits.append(task.due - place.clock.now())
        crashes.append((task.crashes, task.attempts, task.claims))
        place.clock.advance(waits[-1])
    assert waits == [250, 500, 1_000, 2_000]
    assert crashes == [(n, 0, n) for n in (1, 2, 3, 4)]


# 10. Claims and sleep go by the same rows


@pytest.mark.parametrize("queues", [None, ["default"], ["slow"], []])
@pytest.mark.parametrize("names", [[], ["mail"], ["export"], ["mail", "export"]])
def test_law_10_look_speaks_of_what_tick_claims(place, names, queues):
    """F117, F129."""
    hand = place.hand(dict.fromkeys(names, LEASE_MS), queues)
    for name in ("mail", "export", "stranger"):
        for queue in ("default", "slow"):
            place.put(name, queue)
            place.clock.advance(10)
    look = hand.store.look(hand.id)
    claims = hand.claim()
    assert look.due_ms == min((claim.scheduled_for for claim in claims), default=None)
    served = [q for q in ("default", "slow") if queues is None or q in queues]
    assert {(c.name, place.store.get(c.id).queue) for c in claims} == {(n, q) for n in names for q in served}
    assert hand.claim() == []


def test_law_10_a_lane_made_later_is_open_to_who_knows_its_name(place):
    hand = place.hand()
    assert hand.store.look(hand.id).due_ms is None
    id = place.put(priority=-7, queue="new")
    assert hand.store.look(hand.id).due_ms == place.clock.now()
    assert [claim.id for claim in hand.claim()] == [id]


def test_law_10_rows_leased_by_another_hide_no_due_one(place):
    """F117: 60 rows leased by another, one ready."""
    for _ in range(60):
        place.put()
    place.hand().claim(60)
    id, hand = place.put(), place.hand()
    assert [claim.id for claim in hand.claim(50)] == [id]


# 11. Time


def test_law_11_a_delay_is_never_early(place):
    """Now is cut to milliseconds, so that a delay counts from the next one."""
    assert place.store.get(place.put(delay_ms=0)).due == place.clock.now()
    id = place.put(delay_ms=500)
    hand = place.hand()
    hand.claim()
    place.clock.advance(500)
    assert hand.claim() == []
    place.clock.advance(1)
    assert [claim.id for claim in hand.claim()] == [id]


def test_law_11_no_claim_before_the_due(place):
    """F023."""
    place.put(due_ms=place.clock.now() + 5_000)
    hands = [place.hand({"mail": 1_000}) for _ in range(3)]
    for _ in range(5):
        assert [hand.claim() for hand in hands] == [[], [], []]
        place.clock.advance(999)
    place.clock.advance(5)
    assert sum(len(hand.claim()) for hand in hands) == 1


def test_law_11_sums_are_clamped(place):
    """F105, F107."""
    far = place.put(delay_ms=MAX_MS)
    last = place.put(due_ms=MAX_MS)
    assert [place.store.get(id).due for id in (far, last)] == [MAX_MS, MAX_MS]
    id, hand = place.put(), place.hand()
    (claim,) = hand.claim()
    hand.tick([again(claim, delay_ms=MAX_MS)])
    assert place.store.get(id).due == MAX_MS
    assert hand.store.look(hand.id).due_ms == MAX_MS
    endless = place.hand({"mail": MAX_MS})
    place.put()
    (claim,) = endless.claim()
    assert place.store.get(claim.id).due == MAX_MS


def test_law_11_the_store_tells_the_time(place):
    """Its own clock, when nobody puts one in its place: whole milliseconds of UTC."""
    import time

    store = type(place.store)(place.path)
    try:
        before = time.time_ns() // 1_000_000 - 1
        now = store.now_ms()
        assert before <= now <= time.time_ns() // 1_000_000 + 1
    finally:
        store.close()
