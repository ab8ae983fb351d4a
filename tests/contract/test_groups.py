"""Limits and rates of groups: each sentence of the store's port about them."""

import pytest

from nextdue.records import Put, Serving
from nextdue.sqlite import tx
from nextdue.sqlite.tx import Finish
from tests.contract.places import LEASE_MS, buried, done, listed, outcomes, put, row

LIMITED = {"mail": Serving(LEASE_MS, limit=1), "call": LEASE_MS}
RATED = {"mail": Serving(LEASE_MS, rate_ms=1_000)}


class Plain:
    """The place's own connection, as tx.Wire."""

    def __init__(self, place):
        self.connection = place.store.database.connection

    def execute(self, sql, params):
        return self.connection.execute(sql, params).fetchall()


# tick: limits


def test_no_more_of_a_group_run_than_its_limit_in_all_workers(place):
    for grp in "aab":
        place.put(group=grp)
    hands = [place.hand(LIMITED) for _ in range(2)]
    claimed = [claim.id for hand in hands for claim in hand.claim()]
    assert claimed == [1, 3]
    assert place.store.get(2).state == "waiting"
    place.clock.advance(LEASE_MS // 2)
    assert hands[0].store.look(hands[0].id).due_ms > place.clock.now()
    (first,) = [claim for claim in hands[0].held.values() if claim.id == 1]
    answer = hands[0].tick([done(first)])
    assert answer.ring
    assert [claim.id for claim in hands[1].claim()] == [2]


def test_a_lease_that_expired_counts_until_it_is_taken_over(place):
    for _ in range(2):
        place.put(group="")
    lost, hand = place.hand(LIMITED), place.hand(LIMITED)
    assert [claim.id for claim in lost.claim()] == [1]
    hand.store.look(hand.id)
    place.clock.advance(LEASE_MS // 4)
    assert hand.claim() == []
    place.clock.advance(LEASE_MS)
    assert [claim.id for claim in hand.claim()] == [1]


@pytest.mark.parametrize("grp", [None, "", "a"])
def test_a_thousand_set_aside_delay_nobody(place, grp):
    """F117, F129: they stand in nobody's way and make nobody spin."""
    place.store.put_many(Put("mail", "default", 0, "[1]", group=grp), str([[n] for n in range(1_000)]), 1_000)
    free, hand = place.put("call"), place.hand(LIMITED)
    place.clock.advance(10)
    assert free in [claim.id for _ in range(2) for claim in hand.claim(4)]
    assert hand.store.look(hand.id).due_ms > place.clock.now()
    hand.tick(slots=4)
    assert hand.store.database.connection.execute("SELECT count(*) FROM nextdue_claimed").fetchone() == (0,)


def test_what_has_a_limit_is_claimed_ahead_within_it_and_what_has_a_rate_is_not(place):
    hand = place.hand({"mail": Serving(LEASE_MS, limit=3), "call": Serving(LEASE_MS, rate_ms=1_000)})
    mails = [place.put() for _ in range(5)]
    assert [claim.id for claim in hand.claim(1, ahead=9)] == mails[:3]
    place.clock.advance(1)
    late = place.put(group="b")
    calls = [place.put("call", group=grp) for grp in "cd"]
    assert [claim.id for claim in hand.claim(1, ahead=9)] == [late]
    assert [claim.id for claim in hand.claim(1, ahead=9)] == calls[:1]


@pytest.mark.parametrize("grp", [None, "", "a"])
def test_a_claim_reads_nothing_of_those_behind_it_in_its_group(place, grp):
    """F117: as long as the limit isn't reached, nobody has to be set aside, however many wait."""
    place.store.put([Put("mail", "default", 0, "[1]", group=grp)] * 20_000)
    hand = place.hand({"mail": Serving(LEASE_MS, limit=9)})
    thousands = []
    hand.store.database.connection.set_progress_handler(lambda: thousands.append(1), 1_000)
    assert len(hand.claim(8)) == 8
    assert len(thousands) < 10


@pytest.mark.parametrize("how", ["cancel", "replace", "extend", "expire"])
def test_who_was_to_follow_and_does_not_lets_the_next_one_follow(place, how):
    """F111: nothing stays blocked by what isn't there any more."""
    ids = [place.put(group="a", key=f"k{n}", expires_in_ms=2_000 if n == 1 else None) for n in range(4)]
    hand = place.hand(LIMITED)
    (claim,) = hand.claim()
    hand.tick([done(claim)])
    assert [row(place, id, "rest") for id in ids[1:]] == [None, "blocked", "blocked"]
    if how == "cancel":
        assert place.store.cancel(ids[1]) == "cancelled"
    elif how == "expire":
        place.clock.advance(2_000)
        assert hand.claim() == []
        assert outcomes(place, ids[1]) == ["expired"]
    else:
        put(place, key="k1", mode=how, delay_ms=90_000)
    assert [claim.id for claim in hand.claim()] == [ids[2]]


def test_who_follows_need_not_wait_for_a_queue_that_nobody_serves(place):
    ids = [place.put(group="a", queue=queue) for queue in ("default", "slow", "default")]
    hand, other = place.hand(LIMITED, ["default"]), place.hand(LIMITED, ["slow"])
    (claim,) = hand.claim(1)
    assert other.claim() == []
    assert hand.claim() == []
    hand.tick([done(claim)])
    other.die()
    assert [claim.id for claim in hand.claim()] == [ids[2]]


def test_who_buries_needs_not_know_the_limit(place):
    limit = {"mail": Serving(LEASE_MS, limit=2)}
    for _ in range(4):
        place.put(group="a")
    dead, alive, stranger = place.hand(limit), place.hand(limit), place.hand({"call": LEASE_MS})
    assert [len(hand.claim(1)) for hand in (dead, alive)] == [1, 1]
    assert alive.claim() == []
    dead.die()
    stranger.store.bury()
    assert [claim.id for claim in alive.claim()] == [3]


@pytest.mark.parametrize("mode", ["replace", "earliest", "extend"])
@pytest.mark.parametrize("aside", [False, True])
def test_new_arguments_count_in_their_own_group(place, mode, aside):
    """What waits changes over at once: the old group lets the next one go, the new one may have room."""
    hand = place.hand(LIMITED)
    place.put(group="a", due_ms=0)
    if not aside:
        hand.claim()
    first, _ = put(place, group="a")
    behind = place.put(group="a")
    hand.claim()
    assert row(place, first.id, "rest") == row(place, behind, "rest") == "blocked"
    if not aside:
        hand.tick([done(claim) for claim in hand.held.values()])
        assert (row(place, first.id, "rest"), row(place, behind, "rest")) == (None, "blocked")
    answer, ring = put(place, mode=mode, group="b", args="[2]")
    assert (answer.state, ring) == ("waiting", True)
    assert row(place, first.id, "grp", "rest", "wished") == ("b", None, None)
    assert {claim.id for claim in hand.claim()} == ({first.id} if aside else {first.id, behind})


@pytest.mark.parametrize("end", ["done", "dead", "expired", "finished"])
def test_a_next_life_counts_in_its_own_group(place, end):
    """While it runs it counts in the old one, which lets the next one go when it ends."""
    hand = place.hand(LIMITED)
    first, _ = put(place, group="a")
    (claim,) = hand.claim()
    behind = place.put(group="a")
    hand.claim()
    put(place, mode="again", group="b", args="[2]", expires_in_ms=1_000)
    assert row(place, first.id, "grp", "again_grp") == ("a", "b")
    if end == "done":
        hand.tick([done(claim, forget=False, rest="done")])
    elif end == "dead":
        place.store.cancel(first.id)
        put(place, mode="again", group="b", args="[2]")
        hand = buried(place, hand)
    elif end == "expired":
        hand.store.lives.forget(hand.id)
        hand.die()
        hand = place.hand(LIMITED)
        hand.claim()
        place.clock.advance(LEASE_MS)
        hand.claim()
    else:
        tx.settle(Plain(place), claim, Finish(5, now_ms=place.clock.now()))
    assert row(place, first.id, "args", "grp", "rest", "token") == ("[2]", "b", None, None)
    assert row(place, behind, "rest", "token") == (None, None)


def test_a_keyed_task_keeps_its_slot_when_it_is_asked_for_again(place):
    """Whoever asks for it again and again would put it off for ever."""
    hand, start = place.hand(RATED), place.clock.now()
    place.put(group="")
    first, _ = put(place, group="")
    other = place.put(group="")
    hand.claim()
    for mode in ("replace", "earliest", "again", "ignore"):
        put(place, mode=mode, group="")
        hand.claim()
        assert [row(place, id, "due") - start for id in (first.id, other)] == [1_000, 2_000]
    put(place, mode="replace", group="", delay_ms=5_000)
    assert row(place, first.id, "due") - start == 5_001


# tick: rates


def test_starts_keep_their_distance_and_those_too_early_get_the_next_slots(place):
    ids = [place.put(group="") for _ in range(4)]
    hand, start = place.hand(RATED), place.clock.now()
    assert [claim.id for claim in hand.claim()] == ids[:1]
    assert [place.store.get(id).due - start for id in ids[1:]] == [1_000, 2_000, 3_000]
    place.clock.advance(1_300)
    assert [claim.id for claim in hand.claim()] == [ids[1]]
    place.clock.advance(700)
    assert [claim.id for claim in hand.claim()] == [ids[2]]


def taken_over(place, served):
    """Two tasks whose worker is gone without a trace, beside another worker, which has one more; their leases end."""
    lost, hand = place.hand(served), place.hand(served)
    ids = [place.put(group="") for _ in range(2)]
    for _ in ids:
        lost.claim()
        place.clock.advance(1_000)
    hand.store.look(hand.id)
    lost.store.lives.forget(lost.id)
    lost.die()
    place.clock.advance(LEASE_MS)
    return ids, hand


def test_a_lease_that_is_taken_over_is_a_start_that_keeps_its_distance(place):
    ids, hand = taken_over(place, RATED)
    now = place.clock.now()
    (claim,) = hand.claim()
    assert (claim.id, claim.crashes) == (ids[0], 1)
    assert row(place, ids[1], "due", "rest", "token", "crashes") == (now + 1_000, None, None, 1)
    assert outcomes(place, ids[1]) == ["crashed"]
    place.clock.advance(1_000)
    assert [(c.id, c.crashes, c.claims) for c in hand.claim()] == [(ids[1], 1, 2)]


def test_a_lease_that_is_taken_over_counts_once_for_its_limit(place):
    """A lower limit holds for it too, and whoever it kept waiting comes when there is room."""
    ids, hand = taken_over(place, {"mail": Serving(LEASE_MS, limit=2)})
    behind = place.put(group="", due_ms=0)
    assert {claim.id for claim in hand.claim()} == {ids[0], behind}
    assert row(place, ids[1], "rest", "crashes") == ("blocked", 1)
    lower = place.hand(LIMITED)
    lower.store.look(lower.id)
    hand.store.lives.forget(hand.id)
    hand.die()
    place.clock.advance(LEASE_MS)
    for left in (2, 1, 0):
        assert len(lower.claim()) + len(lower.claim()) == 1
        lower.tick([done(claim) for claim in lower.held.values()])
        assert len(listed(place.store)) == left


def test_a_rate_does_not_wait_for_a_clock_that_was_set_back(place):
    """F007."""
    hand = place.hand(RATED)
    place.put()
    hand.claim()
    place.clock.step(-3_600_000)
    late = [place.put() for _ in range(2)]
    assert [claim.id for claim in hand.claim()] == late[:1]
    assert place.store.get(late[1]).due == place.clock.now() + 1_000


@pytest.mark.parametrize("anew", [False, True], ids=["goes-on", "starts-anew"])
def test_the_slots_that_a_clock_ahead_gave_away_come_back(place, anew):
    """F007: in their order and at their distances, in a worker that goes on and in one that starts after that."""
    hand = place.hand(RATED)
    place.clock.step(86_400_000)
    first, second, third = (place.put(group="") for _ in range(3))
    assert [claim.id for claim in hand.claim()] == [first]
    place.clock.step(-86_400_000)
    if anew:
        hand.store.lives.forget(hand.id)
        hand = place.hand(RATED)
    else:
        hand.store.look(hand.id)
    now = place.clock.now()
    assert [place.store.get(id).due - now for id in (second, third)] == [0, 1_000]
    assert [claim.id for claim in hand.claim()] == [second]
    assert hand.claim() == []
    place.clock.advance(1_000)
    assert [claim.id for claim in hand.claim()] == [third]


def test_a_slot_of_a_clock_that_was_ahead_keeps_nobody_from_coming_earlier(place):
    """F007: before a worker has seen to it."""
    hand = place.hand(RATED)
    place.clock.step(86_400_000)
    place.put(group="")
    hand.claim()
    place.clock.step(-86_400_000)
    id = place.put(group="", key="k", delay_ms=1_800_000)
    place.store.put([Put("mail", "default", 0, "[1]", group="", key="k", mode="earliest")])
    assert place.store.get(id).due == place.clock.now()


@pytest.mark.parametrize("gone", [slice(1, 6), slice(3, 6)])
def test_the_last_slots_are_given_anew_when_their_tasks_are_cancelled(place, gone):
    hand, start = place.hand(RATED), place.clock.now()
    ids = [place.put(group="") for _ in range(6)]
    hand.claim()
    for id in ids[gone]:
        place.store.cancel(id)
    new = [place.put(group="", delay_ms=200) for _ in range(2)]
    place.clock.advance(201)
    hand.claim()
    first = 1_000 * gone.start
    assert [place.store.get(id).due - start for id in new] == [first, first + 1_000]


def test_a_slot_of_a_cancelled_task_between_others_stays_unused(place):
    hand, start = place.hand(RATED), place.clock.now()
    ids = [place.put(group="") for _ in range(4)]
    hand.claim()
    place.store.cancel(ids[1])
    new = place.put(group="")
    hand.claim()
    assert [place.store.get(id).due - start for id in (ids[2], ids[3], new)] == [2_000, 3_000, 4_000]


# tick: the rates of single groups

SPECIAL = {"mail": Serving(LEASE_MS, rate_ms=1_000, rates_ms={"slow": 5_000, "free": 0})}


def starts(place, hand, ms):
    """When each group's tasks were claimed, in ms from now."""
    seen: dict[str, list[int]] = {}
    begun = place.clock.now()
    while place.clock.now() <= begun + ms:
        for claim in hand.claim():
            grp = row(place, claim.id, "grp")
            hand.tick([done(claim)])
            seen.setdefault(grp, []).append(place.clock.now() - begun)
        place.clock.advance(100)
    return seen


def test_a_group_may_have_another_rate_than_its_task_or_none(place):
    for grp in ("slow", "free", "other", None):
        for _ in range(3):
            place.put(group=grp)
    others = [0, 1_000, 2_000]
    assert starts(place, place.hand(SPECIAL), 12_000) == {
        "slow": [0, 5_000, 10_000],
        "free": [0, 0, 0],
        "other": others,
        "": others,
    }


def test_without_a_rate_of_the_task_only_those_groups_have_one(place):
    for grp in ("slow", "other", None):
        for _ in range(3):
            place.put(group=grp)
    hand = place.hand({"mail": Serving(LEASE_MS, rates_ms={"slow": 5_000})})
    assert starts(place, hand, 12_000) == {"slow": [0, 5_000, 10_000], "other": [0, 0, 0], "": [0, 0, 0]}


def test_a_group_with_a_rate_of_its_own_keeps_the_limit(place):
    for grp in ("slow", "free"):
        for _ in range(2):
            place.put(group=grp)
    hand = place.hand({"mail": SPECIAL["mail"]._replace(limit=1)})
    claims = hand.claim()
    assert [row(place, claim.id, "grp") for claim in claims] == ["slow", "free"]
    hand.tick([done(claim) for claim in claims])
    assert [row(place, claim.id, "grp") for claim in hand.claim()] == ["free"]


def test_nothing_of_a_task_with_such_rates_is_claimed_ahead(place):
    hand = place.hand({"mail": Serving(LEASE_MS, rates_ms={"slow": 5_000})})
    for _ in range(3):
        place.put(group="other")
    assert len(hand.claim(1, ahead=9)) == 1


@pytest.mark.parametrize("then", [{"a": 0}, None, {"a": 200}])
def test_another_rate_of_a_group_holds_from_the_next_start_of_a_worker(then, place):
    """No slot of the old rate is kept: what the group has no rate for is forgotten, and a quicker one begins anew."""
    place.put(group="a")
    hand = place.hand({"mail": Serving(LEASE_MS, rates_ms={"a": 60_000})})
    hand.tick([done(claim) for claim in hand.claim()])
    place.clock.advance(200)
    hand.store.serve({"mail": Serving(LEASE_MS, rates_ms=then)}, None)
    assert hand.store.database.connection.execute("SELECT count(*) FROM nextdue_rate").fetchone() == (
        int(then == {"a": 200}),
    )
    place.put(group="a")
    assert len(hand.claim()) == 1
    place.put(group="a")
    assert len(hand.claim()) == (then != {"a": 200})


def test_the_claim_of_what_has_no_rate_costs_nothing_for_the_rates_of_others(place):
    """Counted in steps of SQLite's machine."""

    def steps(others):
        for _ in range(100):
            place.put()
        hand, count = place.hand({"mail": LEASE_MS, **others}), []
        hand.store.look(hand.id)
        hand.store.database.connection.set_progress_handler(lambda: count.append(1), 1)
        claims = hand.tick(slots=100).claims
        hand.store.database.connection.set_progress_handler(None, 1)
        hand.tick([done(claim) for claim in claims])
        return len(count)

    steps({})
    place.put("call", group="slow", delay_ms=LEASE_MS)
    assert steps({"call": SPECIAL["mail"]}) <= steps({"call": LEASE_MS}) * 1.01
