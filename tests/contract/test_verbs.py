"""Keys in all modes, expiry, stops and pauses: each sentence of the store's port about them."""

import pytest

from nextdue.records import Settlement
from tests.contract.places import LEASE_MS, again, at_rest, buried, done, outcomes, put, row

MODES = ["replace", "earliest", "extend", "again"]


# put: a key that is in use


@pytest.mark.parametrize(
    ("mode", "delay", "at"),
    [
        ("replace", 9_000, 9_001),
        ("replace", 100, 101),
        ("earliest", 9_000, 5_001),
        ("earliest", 100, 101),
        ("extend", 9_000, 7_000),
        ("extend", 6_000, 6_001),
        ("extend", 100, 5_001),
        ("again", 100, 5_001),
    ],
)
def test_a_waiting_task_gets_the_arguments_and_the_due_of_its_mode(place, mode, delay, at):
    start = place.clock.now()
    first, _ = put(place, delay_ms=5_000, latest_ms=7_000)
    answer, _ = put(place, mode=mode, delay_ms=delay, args="[2]")
    assert answer == (first.id, False, "waiting")
    task = place.store.get(first.id)
    assert (task.due - start, task.args) == (at, "[1]" if mode == "again" else "[2]")


def test_extending_counts_its_latest_from_when_the_task_was_made(place):
    start = place.clock.now()
    first, _ = put(place, mode="extend", delay_ms=1_000, latest_ms=3_000)
    for _ in range(9):
        place.clock.advance(500)
        put(place, mode="extend", delay_ms=1_000, latest_ms=3_000)
    assert place.store.get(first.id).due == start + 3_000


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", [done, again, at_rest, lambda c: again(c, "snoozed"), lambda c: at_rest(c, "held")])
def test_a_running_task_gets_a_next_life_whatever_its_outcome(place, mode, end):
    """F110, F112: a change made during the run is never lost."""
    first, _ = put(place)
    hand = place.hand()
    (claim,) = hand.claim()
    before = row(place, first.id, "due", "token", "args", "lane", "claims")
    assert put(place, mode=mode, args="[2]")[0] == (first.id, False, "running")
    assert put(place, mode=mode, args="[3]", delay_ms=700)[0] == (first.id, False, "running")
    assert row(place, first.id, "due", "token", "args", "lane", "claims") == before
    wished = place.clock.now() + (701 if mode in ("replace", "extend") else 0)
    settlement = end(claim) if end is not done else done(claim, forget=False, rest="done")
    assert hand.tick([settlement]).lost == []
    assert row(place, first.id, "due", "args", "attempts", "crashes", "again_due") == (wished, "[3]", 0, 0, None)


def test_a_release_is_no_outcome_so_that_the_wish_waits_on(place):
    first, _ = put(place)
    hand = place.hand()
    (claim,) = hand.claim()
    put(place, mode="again", args="[2]")
    hand.tick([again(claim, "released", 0)])
    assert row(place, first.id, "args", "again_args") == ("[1]", "[2]")


def test_a_wish_outlives_the_worker(place):
    first, _ = put(place)
    hand = place.hand()
    hand.claim()
    put(place, mode="again", args="[2]")
    neighbour = buried(place, hand)
    assert row(place, first.id, "args", "again_args", "crashes") == ("[1]", "[2]", 1)
    place.clock.advance(250)
    (claim,) = neighbour.claim()
    neighbour.tick([done(claim, forget=False, rest="done")])
    assert (place.store.get(first.id).state, place.store.get(first.id).args) == ("waiting", "[2]")


def test_an_older_wish_never_comes_after_a_newer_one(place):
    first, _ = put(place)
    hand = place.hand()
    hand.claim()
    put(place, mode="replace", args="[2]")
    buried(place, hand)
    put(place, mode="replace", args="[3]")
    assert row(place, first.id, "args", "again_due", "again_args") == ("[3]", None, None)


def test_a_next_life_expires_by_its_own_wish(place):
    first, _ = put(place, expires_in_ms=1_000)
    hand = place.hand()
    (claim,) = hand.claim()
    place.clock.advance(5_000)
    put(place, mode="again", args="[2]")
    hand.tick([again(claim)])
    assert [(c.id, c.args) for c in hand.claim()] == [(first.id, "[2]")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", ["done", "dead", "cancelled"])
def test_what_is_over_starts_anew(place, mode, end):
    first, _ = put(place)
    hand = place.hand()
    (claim,) = hand.claim()
    hand.tick([at_rest(claim, end)])
    answer, ring = put(place, mode=mode, args="[2]")
    assert (answer, ring) == ((first.id, True, "waiting"), True)
    assert row(place, first.id, "args", "claims", "attempts", "rest") == ("[2]", 0, 0, None)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_held_stays_held(place, mode):
    first, _ = put(place)
    hand = place.hand()
    (claim,) = hand.claim()
    hand.tick([at_rest(claim, "held")])
    before = place.rows()
    assert put(place, mode=mode, args="[2]")[0] == (first.id, False, "held")
    assert place.rows() == before


# tick: expiry


@pytest.mark.parametrize("key", [None, "k"])
def test_what_is_past_its_expires_is_recorded_instead(place, key):
    id = place.put(expires_in_ms=1_000, key=key)
    hand = place.hand()
    place.clock.advance(1_000)
    answer = hand.tick(slots=4)
    assert (answer.claims, answer.expired) == ([], 1)
    assert outcomes(place, id) == ["expired"]
    view = place.store.get(id)
    assert (view.state, view.reason, view.args, view.key) == ("dead", "expired", "[1]", key)
    assert hand.tick(slots=4).expired == 0
    assert hand.store.look(hand.id).due_ms is None


def test_a_lost_lease_is_not_taken_over_after_its_expires(place):
    id = place.put(expires_in_ms=1_000)
    lost, hand = place.hand(), place.hand()
    lost.claim()
    hand.store.look(hand.id)
    place.clock.advance(LEASE_MS)
    assert hand.claim() == []
    assert outcomes(place, id) == ["crashed", "expired"]
    assert row(place, id, "rest", "token", "due") == ("dead", None, None)


# cancel, stops


@pytest.mark.parametrize("end", [again, lambda c: again(c, "snoozed"), lambda c: again(c, "released", 0)])
@pytest.mark.parametrize("key", [None, "k"])
def test_what_was_asked_to_stop_is_not_tried_again(place, end, key):
    id, hand = place.put(key=key), place.hand()
    (claim,) = hand.claim()
    assert place.store.cancel(id) == "running"
    assert hand.store.stops(hand.id) == hand.store.look(hand.id).stops == hand.tick().stops == [(id, claim.token)]
    hand.tick([end(claim)])
    assert place.store.get(id).state == "cancelled"
    assert outcomes(place, id) == ["cancelled"]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("known", [True, False])
def test_it_is_not_tried_again_either_when_its_worker_was_lost(place, key, known):
    """F034."""
    id = place.put(key=key)
    lost, hand = place.hand(), place.hand()
    lost.claim()
    place.store.cancel(id)
    if known:
        buried(place, lost)
    hand.store.look(hand.id)
    place.clock.advance(LEASE_MS)
    assert hand.claim() == []
    assert place.store.get(id).state == "cancelled"
    assert outcomes(place, id) == ["crashed", "cancelled"]


@pytest.mark.parametrize("end", ["settled", "released", "buried", "expired"])
def test_a_wish_after_the_stop_begins_a_next_life(place, end):
    first, _ = put(place)
    lost, hand = place.hand(), place.hand()
    (claim,) = lost.claim()
    put(place, mode="again", args="[2]")
    place.store.cancel(first.id)
    assert row(place, first.id, "again_due") is None
    put(place, mode="again", args="[3]")
    hand.store.look(hand.id)
    if end == "buried":
        buried(place, lost)
    elif end == "expired":
        place.clock.advance(LEASE_MS)
        hand.tick(slots=1)
    else:
        lost.tick([again(claim) if end == "settled" else again(claim, "released", 0)])
    assert row(place, first.id, "args", "rest", "stop", "token") == ("[3]", None, None, None)


# serve: pauses


def pause(place, kind, word, *, on=True):
    query = place.store.database.connection.execute
    query("BEGIN IMMEDIATE")
    if on:
        query("INSERT INTO nextdue_pause(kind, word, since) VALUES (?, ?, 0)", (kind, word))
    else:
        query("DELETE FROM nextdue_pause WHERE kind = ? AND word = ?", (kind, word))
    query("INSERT INTO nextdue_meta VALUES ('pauses', 1) ON CONFLICT(name) DO UPDATE SET value = value + 1")
    query("COMMIT")


@pytest.mark.parametrize("lane", [("queue", "default"), ("name", "mail")])
def test_nothing_is_claimed_from_a_paused_lane_from_the_commit_on(place, lane):
    id, hand = place.put(), place.hand()
    hand.store.look(hand.id)
    pause(place, *lane)
    assert hand.tick(slots=1).claims == []
    assert hand.store.look(hand.id).due_ms is None
    pause(place, *lane, on=False)
    assert [claim.id for claim in hand.claim()] == [id]


def test_what_runs_keeps_its_lease_while_its_queue_is_paused(place):
    """F025."""
    id, hand = place.put(), place.hand()
    (claim,) = hand.claim()
    pause(place, "queue", "default")
    hand.store.look(hand.id)
    place.clock.advance(1_000)
    assert hand.tick(renewed_ms=1, renew_every_ms=1).held == {(id, claim.token)}
    assert place.store.get(id).due == place.clock.now() + LEASE_MS


@pytest.mark.parametrize("lane", [("queue", "default"), ("name", "mail")])
def test_a_clock_set_back_makes_no_lease_longer_in_a_paused_lane(place, lane):
    """F007: when the pause is over, nobody waits for the end of a lease of another time."""
    id, dead, hand = place.put(), place.hand(), place.hand()
    dead.claim()
    dead.store.lives.forget(dead.id)
    dead.die()
    pause(place, *lane)
    hand.store.look(hand.id)
    place.clock.step(-86_400_000)
    hand.store.look(hand.id)
    assert row(place, id, "due") == place.clock.now() + LEASE_MS


def test_what_is_given_back_before_it_was_started_was_never_claimed(place):
    id, hand = place.put(), place.hand()
    for ran, claims in ((None, 0), (5, 1), (None, 1)):
        (claim,) = hand.claim()
        hand.tick([Settlement(claim.id, claim.token, "released", ran_ms=ran, delay_ms=0)], slots=0)
        assert row(place, id, "claims") == claims
