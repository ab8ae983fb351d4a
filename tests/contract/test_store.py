"""Each sentence of the store's port that is no law."""

import pytest

from nextdue.records import Put
from tests.contract.places import LEASE_MS, again, at_rest, done, listed

MAIL = Put("mail", "default", 0, "[1]")
KEYED = MAIL._replace(key="k", remember_ms=10_000)


def put(place, **changes):
    (stored,), ring = place.store.put([KEYED._replace(**changes)])
    return stored, ring


# put


def test_puts_are_answered_in_their_order(place):
    puts = [MAIL, KEYED, MAIL, KEYED, KEYED._replace(key="l"), MAIL]
    stored, _ = place.store.put(puts)
    assert [s.created for s in stored] == [True, True, True, False, True, True]
    assert stored[1].id == stored[3].id
    assert len({s.id for s in stored}) == 5
    for one, answer in zip(puts, stored, strict=True):
        assert place.store.get(answer.id).key == one.key


def test_a_put_of_nothing(place):
    assert place.store.put([]) == ([], False)
    assert place.store.put_many(MAIL, "[]", 0) == (range(0), False)


def test_ids_are_never_used_again(place):
    ids = []
    for _ in range(3):
        ids.append(place.put())
        place.store.cancel(ids[-1])
    assert ids == sorted(set(ids))


def end_waiting(place, hand):
    return "waiting"


def end_running(place, hand):
    hand.claim()
    return "running"


def end_held(place, hand):
    (claim,) = hand.claim()
    hand.tick([at_rest(claim, "held")])
    return "held"


def end_done(place, hand):
    (claim,) = hand.claim()
    hand.tick([done(claim, forget=False, rest="done")])
    return "done"


def end_dead(place, hand):
    (claim,) = hand.claim()
    hand.tick([at_rest(claim, "dead", attempts=3)])


def end_cancelled(place, hand):
    place.store.cancel(1)


def end_forgotten(place, hand):
    end_done(place, hand)
    place.clock.advance(10_001)


@pytest.mark.parametrize("end", [end_waiting, end_running, end_held, end_done])
def test_a_key_in_use_answers_what_exists_and_changes_nothing(place, end):
    """F110, F111, F116."""
    first, _ = put(place)
    state = end(place, place.hand())
    before = place.rows()
    assert put(place, args="[2]", priority=5, delay_ms=7) == ((first.id, False, state), False)
    assert place.rows() == before


@pytest.mark.parametrize("end", [end_dead, end_cancelled, end_forgotten])
def test_a_key_whose_task_is_over_starts_a_new_life(place, end):
    put(place)
    end(place, place.hand())
    again, ring = put(place, args="[2]", delay_ms=500)
    assert again.created
    assert ring
    task = place.store.by_key("mail", "k")
    assert (task.id, task.state, task.args, task.due) == (again.id, "waiting", "[2]", place.clock.now() + 501)
    assert (task.attempts, task.crashes, task.claims, task.scheduled_for, task.reason) == (0, 0, 0, None, None)


def test_a_key_belongs_to_its_name(place):
    stored, _ = place.store.put([KEYED, KEYED._replace(name="export")])
    assert [s.created for s in stored] == [True, True]
    assert place.store.by_key("mail", "k").id == stored[0].id
    assert place.store.by_key("export", "k").id == stored[1].id
    assert place.store.by_key("mail", "l") is None


def test_a_ring_is_for_the_nearest_of_its_lane(place):
    assert put(place, key=None, delay_ms=1_000)[1]
    assert not put(place, key=None, delay_ms=2_000)[1]
    assert put(place, key=None, delay_ms=500)[1]
    for lane in ({"queue": "slow"}, {"priority": 1}, {"name": "export"}):
        assert put(place, key=None, delay_ms=9_000, **lane)[1], lane


def test_a_ring_is_not_hidden_by_those_of_the_same_put(place):
    assert place.store.put([MAIL, MAIL, MAIL])[1]
    assert place.store.put_many(MAIL._replace(queue="slow"), "[[1], [2]]", 2)[1]
    assert not place.store.put_many(MAIL._replace(queue="slow"), "[[1], [2]]", 2)[1]


def test_a_ring_is_not_hidden_by_an_overdue_row_that_nobody_knows(place):
    place.put("stranger", due_ms=1)
    assert put(place, key=None, delay_ms=1_000)[1]


def test_a_ring_is_not_hidden_by_a_lease_that_cannot_be_believed(place):
    place.put()
    place.hand().claim()
    place.clock.step(10 * LEASE_MS)
    assert put(place, key=None)[1]


def test_many_get_ids_in_their_order(place):
    ids, _ = place.store.put_many(MAIL._replace(delay_ms=9), '[["a"], ["b"], [{"c": 1}]]', 3)
    assert [place.store.get(id).args for id in ids] == ['["a"]', '["b"]', '[{"c":1}]']
    assert {place.store.get(id).due for id in ids} == {place.clock.now() + 10}


# enlist, resign


def test_numbers_of_workers_are_never_used_again(place):
    numbers = []
    for _ in range(3):
        hand = place.hand()
        numbers.append(hand.id)
        hand.store.resign(hand.id)
    assert numbers == sorted(set(numbers))


def test_an_orderly_worker_leaves_nothing_to_bury(place):
    hand, neighbour = place.hand(), place.hand()
    hand.store.resign(hand.id)
    hand.die()
    assert neighbour.store.bury() == []


# tick


def test_claims_go_by_priority_then_due_then_age(place):
    now = place.clock.now()
    wished = [(0, 5), (7, 9), (-3, 1), (7, 2), (0, 5), (7, 2), (0, 4)]
    ids = [place.put(priority=priority, due_ms=now - 100 + due) for priority, due in wished]
    by_rank = [id for _, id in sorted(zip([(-p, d) for p, d in wished], ids, strict=True))]
    assert [claim.id for claim in place.hand().claim()] == by_rank


def test_a_fair_claim_takes_the_oldest_due(place):
    """F120."""
    now = place.clock.now()
    flood = [place.put(priority=10, due_ms=now - 50) for _ in range(5)]
    old = place.put(priority=-10, due_ms=now - 60)
    hand = place.hand()
    assert [claim.id for claim in hand.claim(1)] == flood[:1]
    assert [claim.id for claim in hand.claim(1, fair=True)] == [old]


def test_no_more_is_claimed_than_asked_for(place):
    for priority in range(4):
        for _ in range(4):
            place.put(priority=priority)
    hand = place.hand()
    assert [len(hand.claim(slots)) for slots in (0, 1, 5)] == [0, 1, 5]
    assert len(hand.claim(2, ahead=3)) == 5


def test_until_leaves_what_falls_due_later(place):
    early, late = place.put(), place.put(delay_ms=9)
    start = place.clock.now()
    place.clock.advance(100)
    hand = place.hand()
    assert [claim.id for claim in hand.claim(until_ms=start)] == [early]
    assert [claim.id for claim in hand.claim()] == [late]


def test_a_done_row_without_a_key_goes_into_history(place):
    id, hand = place.put(), place.hand()
    (claim,) = hand.claim()
    place.clock.advance(40)
    hand.tick([done(claim, ran_ms=40, result='{"n":1}')])
    task, (run,) = place.store.get(id), place.store.runs(task=id)
    assert (task.state, listed(place.store)) == ("done", [])
    assert (run.outcome, run.result, run.claim, run.worker) == ("done", '{"n":1}', 1, hand.id)
    assert (run.started, run.ended) == (place.clock.now() - 40, place.clock.now())
    assert run.scheduled_for == place.clock.START


def test_a_done_row_with_a_key_stays_until_it_is_forgotten(place):
    put(place)
    hand = place.hand()
    end_done(place, hand)
    place.clock.advance(10_000 - 1)
    place.put()
    (claim,) = hand.claim()
    hand.tick([done(claim)])
    assert place.store.by_key("mail", "k").state == "done"
    place.clock.advance(1)
    place.put()
    (claim,) = hand.claim()
    hand.tick([done(claim)])
    assert place.store.by_key("mail", "k") is None


def test_a_retry_keeps_its_row(place):
    """F050, F110: the same row and key from the first try to the last."""
    stored, _ = put(place)
    hand = place.hand()
    for attempt in (1, 2, 3):
        (claim,) = hand.claim()
        assert claim.attempts == attempt - 1
        hand.tick([again(claim, delay_ms=1_000, reason="timeout", message="TimeoutError: slow")])
        task = place.store.by_key("mail", "k")
        assert (task.id, task.state, task.attempts) == (stored.id, "waiting", attempt)
        assert (task.due, task.reason) == (place.clock.now() + 1_001, "timeout")
        place.clock.advance(1_001)
    assert [run.outcome for run in place.store.runs(task=stored.id)] == ["failed"] * 3


def test_a_settlement_that_says_nothing_of_them_keeps_attempts_crashes_and_lane(place):
    """What is given back by a worker that doesn't know the row's story loses none of it."""
    place.put()
    hand = place.hand()
    (claim,) = hand.claim()
    hand.tick([again(claim, attempts=2, crashes=2, alone=True, delay_ms=0)])
    (claim,) = hand.claim(alone=True)
    hand.tick([again(claim, "released", 0, attempts=None, crashes=None, alone=None)])
    (claim,) = hand.claim(alone=True)
    assert (claim.attempts, claim.crashes, claim.alone) == (2, 2, 1)


def test_a_tick_rings_for_a_row_that_is_nearest_again(place):
    first, second = place.put(), place.put(delay_ms=5_000)
    hand = place.hand()
    (claim,) = hand.claim()
    assert hand.tick([again(claim, delay_ms=100)]).ring
    place.clock.advance(101)
    (claim,) = hand.claim()
    assert not hand.tick([again(claim, delay_ms=60_000)]).ring
    assert {task.id for task in listed(place.store)} == {first, second}


def test_the_history_is_bounded(place):
    """F121: each settling purges at most twice what it settles, so that a bound set later is reached step by step."""
    hand = place.hand()
    for _ in range(10):
        place.put()
        (claim,) = hand.claim()
        hand.tick([done(claim)])
    hand.store.keep_rows = 3
    counts = []
    for _ in range(10):
        place.put()
        (claim,) = hand.claim()
        hand.tick([done(claim)])
        counts.append(len(place.store.runs()))
    assert counts[:3] == [9, 8, 7]
    assert counts[-1] <= 4
    hand.store.keep_rows, hand.store.keep_ms = 100_000, 1_000
    place.clock.advance(1_001)
    for _ in range(4):
        place.put()
        (claim,) = hand.claim()
        hand.tick([done(claim)])
    assert len(place.store.runs()) == 4


def test_a_line_written_by_a_clock_far_ahead_holds_up_no_other(place):
    """F121: the oldest line seems to have ended in the future; those behind it go when their time is over."""
    hand = place.hand()
    hand.store.keep_ms = 1_000

    def one() -> None:
        place.put()
        (claim,) = hand.claim()
        hand.tick([done(claim)])

    place.clock.advance(3_600_000)
    one()
    place.clock.advance(-3_600_000)
    for _ in range(3):
        one()
    place.clock.advance(1_001)
    for _ in range(4):
        one()
    assert len(place.store.runs()) == 4


def test_no_history_is_kept_of_a_store_that_keeps_none(place):
    hand = place.hand()
    hand.store.keep_rows = 0
    place.put()
    (claim,) = hand.claim()
    hand.tick([done(claim)])
    assert place.store.runs() == []
    assert place.store.get(claim.id) is None


# look, get, find, runs, cancel


def test_looking_writes_nothing(place):
    place.put()
    hand = place.hand()
    hand.claim()
    hand.store.look(hand.id)
    before = place.rows(), place.store.database.connection.execute("PRAGMA data_version").fetchone()
    for _ in range(3):
        hand.store.look(hand.id)
        place.clock.advance(LEASE_MS)
    assert (place.rows(), place.store.database.connection.execute("PRAGMA data_version").fetchone()) == before


def test_nobody_is_found_under_an_unknown_id(place):
    assert place.store.get(99) is None
    assert place.store.runs(task=99) == []
    assert place.store.cancel(99) == "gone"


def test_lists_go_by_name_queue_and_state_nearest_due_first(place):
    now = place.clock.now()
    a = place.put(due_ms=now + 30)
    b = place.put(due_ms=now + 10, queue="slow")
    c = place.put("export", due_ms=now - 20, priority=9)
    d = place.put()
    place.hand({"export": LEASE_MS}).claim()

    def ids(**wishes):
        return [task.id for task in listed(place.store, **wishes)]

    assert ids() == [d, b, a, c]
    assert ids(limit=2) == [d, b]
    assert ids(name="mail") == [d, b, a]
    assert ids(queue="slow") == [b]
    assert ids(state="running") == [c]
    assert ids(name="mail", queue="default", state="waiting") == [d, a]


def test_runs_are_shown_newest_first(place):
    hand = place.hand()
    ids = [place.put() for _ in range(3)]
    for claim in hand.claim():
        hand.tick([done(claim)])
    assert [run.task for run in place.store.runs()] == ids[::-1]
    assert [run.task for run in place.store.runs(limit=1)] == ids[-1:]


def test_cancelling(place):
    waiting = place.put()
    keyed, _ = put(place)
    assert place.store.cancel(waiting) == "cancelled"
    assert place.store.cancel(keyed.id) == "cancelled"
    assert place.store.get(waiting).state == "cancelled"
    assert place.store.by_key("mail", "k").state == "cancelled"
    before = place.rows()
    assert [place.store.cancel(id) for id in (waiting, keyed.id)] == ["cancelled", "cancelled"]
    assert place.rows() == before
    assert place.hand().claim() == []


def test_what_is_done_is_not_cancelled(place):
    stored, _ = put(place)
    state = end_done(place, place.hand())
    before = place.rows()
    assert place.store.cancel(stored.id) == state
    assert place.rows() == before


def test_nothing_is_lost_by_not_closing(place):
    id, hand = place.put(), place.hand()
    hand.claim()
    other = place.open()
    del other
    hand.store.close()
    neighbour = place.hand()
    assert neighbour.store.bury() == [id]
