"""The idea itself: what becomes of a row, for every way in which a claim can end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextdue import due
from nextdue.clock import MAX_MS
from nextdue.records import Claim, Ending
from nextdue.task import Options, Retry

KINDS = ("done", "snoozed", "released", "held", "gave_up", "failed")


def never() -> float:
    """No randomness where none is wanted."""
    raise AssertionError("asked for a random number")


def claim(**fields) -> Claim:
    plain = {
        "id": 7,
        "token": 3 << 32 | 9,
        "name": "t",
        "args": "[]",
        "key": None,
        "attempts": 0,
        "crashes": 0,
        "claims": 1,
        "scheduled_for": 1000,
        "alone": 0,
    }
    return Claim(**{**plain, **fields})


CLAIMS = st.builds(
    claim,
    key=st.none() | st.just("k"),
    attempts=st.integers(0, 10**6),
    crashes=st.integers(0, 5),
    alone=st.integers(0, 1),
)
RETRIES = st.builds(
    Retry,
    base=st.integers(0, 10**6),
    cap=st.integers(0, 10**6),
    jitter=st.integers(0, 10**5),
    limit=st.none() | st.integers(1, 10**6),
)
RANDOM = st.floats(0, 1, exclude_max=True)


def endings(of: Claim) -> st.SearchStrategy[Ending]:
    def ending(kind: str) -> st.SearchStrategy[Ending]:
        delay = st.integers(0, MAX_MS) if kind == "snoozed" else st.none() | st.integers(0, MAX_MS)
        return st.builds(
            Ending,
            claim=st.just(of),
            kind=st.just(kind),
            ran_ms=st.none() | st.integers(0, 10**9),
            delay_ms=delay if kind in ("snoozed", "failed") else st.none(),
            reason=st.none() | st.just("why"),
            message=st.none() | st.just("more"),
            result=st.just("[1]") if kind == "done" else st.none(),
        )

    return st.sampled_from(KINDS).flatmap(ending)


# back-off


@given(st.integers(-5, 10**6), RETRIES, RANDOM)
def test_a_back_off_is_bounded_and_never_fails(failures, retry, random):
    """F104."""
    wait = due.backoff_ms(failures, retry, lambda: random)
    assert min(retry.base_ms, retry.cap_ms) <= wait <= retry.cap_ms + retry.jitter_ms


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [
        *((-1, 60), (0, 60), (1, 60), (2, 120), (3, 240), (6, 1920)),
        *((7, 3600), (12, 3600), (64, 3600), (1024, 3600), (10**6, 3600), (2**63, 3600)),
    ],
)
def test_the_default_back_off_doubles_from_a_minute_to_an_hour(failures, seconds):
    """F104: and up to half a minute more, so that a herd spreads."""
    assert due.backoff_ms(failures, Retry(), lambda: 0.0) == seconds * 1000
    assert due.backoff_ms(failures, Retry(), lambda: 0.999_999) == seconds * 1000 + 29_999


@given(st.integers(1, 10**6), RETRIES)
def test_a_later_failure_never_waits_less(failures, retry):
    waits = [due.backoff_ms(n, retry, lambda: 0.5) for n in (failures, failures + 1)]
    assert waits == sorted(waits)


def test_no_wait_at_all_may_be_asked_for():
    assert due.backoff_ms(5, Retry(base=0, jitter=0), lambda: 0.5) == 0


@pytest.mark.parametrize(
    ("crashes", "ms"),
    [(-1, 250), (0, 250), (1, 250), (2, 500), (3, 1000), (13, 1_024_000), (10**6, 1_024_000)],
)
def test_the_wait_after_a_crash_doubles_up_to_seventeen_minutes(crashes, ms):
    """F104."""
    assert due.crash_backoff_ms(crashes) == ms


# on_claim


@pytest.mark.parametrize(
    ("crashes", "alone", "verdict"),
    [
        (0, 0, None),
        (1, 0, None),
        (2, 0, "released"),
        (3, 0, "released"),
        (99, 0, "released"),
        (0, 1, None),
        (2, 1, None),
        (3, 1, "dead"),
        (99, 1, "dead"),
    ],
)
def test_a_task_is_tried_alone_before_it_is_dead(crashes, alone, verdict):
    """F082."""
    asked = claim(crashes=crashes, alone=alone, attempts=4)
    found = due.on_claim(asked)
    if verdict is None:
        assert found is None
        return
    assert found is not None
    assert (found.id, found.token, found.outcome) == (asked.id, asked.token, verdict)
    assert (found.attempts, found.crashes, found.alone, found.reason) == (4, crashes, True, "worker_died")
    if verdict == "dead":
        assert (found.rest, found.delay_ms) == ("dead", None)
        assert f"died {crashes} times" in str(found.message)
    else:
        assert (found.rest, found.delay_ms) == (None, 0)
        assert "tried alone" in str(found.message)


# settle


@given(st.data(), CLAIMS, RETRIES, RANDOM)
def test_every_ending_says_exactly_one_thing_of_the_row(data, claimed, retry, random):
    ending = data.draw(endings(claimed))
    said = due.settle(claimed, ending, Options(name="t", retry=retry), lambda: random)
    assert (said.id, said.token, said.ran_ms) == (claimed.id, claimed.token, ending.ran_ms)
    assert [said.delay_ms is not None, said.rest is not None, said.forget].count(True) == 1
    failed = ending.kind in ("failed", "gave_up")
    if not said.forget:
        assert said.attempts == claimed.attempts + failed
        assert said.crashes == (0 if ending.kind in ("done", "snoozed") else claimed.crashes)
        assert (said.reason, said.message) == (ending.reason, ending.message)
    assert said.delay_ms is None or said.delay_ms >= 0
    assert said.result == ending.result


@given(st.data(), CLAIMS, RETRIES)
def test_only_a_failure_asks_for_randomness(data, claimed, retry):
    ending = data.draw(endings(claimed).filter(lambda e: e.kind != "failed" or e.delay_ms is not None))
    due.settle(claimed, ending, Options(name="t", retry=retry), never)


@given(CLAIMS, RETRIES, RANDOM, st.none() | st.integers(0, MAX_MS))
def test_a_failure_comes_again_until_its_limit(claimed, retry, random, delay):
    options = Options(name="t", retry=retry)
    said = due.settle(claimed, Ending(claimed, "failed", delay_ms=delay), options, lambda: random)
    failures = claimed.attempts + 1
    if retry.limit is not None and failures >= retry.limit:
        assert (said.outcome, said.rest) == ("dead", "dead")
    elif delay is not None:
        assert (said.outcome, said.delay_ms) == ("failed", delay)
    else:
        assert (said.outcome, said.delay_ms) == ("failed", due.backoff_ms(failures, retry, lambda: random))


@pytest.mark.parametrize("limit", [1, 2, 12])
def test_the_limit_is_the_number_of_attempts(limit):
    options = Options(name="t", retry=Retry(limit=limit))
    ends = []
    for attempts in range(limit + 1):
        claimed = claim(attempts=attempts)
        ends.append(due.settle(claimed, Ending(claimed, "failed"), options, lambda: 0.0).outcome)
    assert ends == ["failed"] * (limit - 1) + ["dead"] * 2


@pytest.mark.parametrize(
    ("kind", "key", "outcome", "becomes"),
    [
        ("done", None, "done", (None, None, True)),
        ("done", "k", "done", (None, "done", False)),
        ("snoozed", None, "snoozed", (5, None, False)),
        ("released", "k", "released", (0, None, False)),
        ("held", None, "held", (None, "held", False)),
        ("gave_up", None, "dead", (None, "dead", False)),
        ("failed", None, "failed", (60_000, None, False)),
    ],
)
def test_what_becomes_of_a_row(kind, key, outcome, becomes):
    claimed = claim(key=key)
    ending = Ending(claimed, kind, ran_ms=1, delay_ms=5 if kind == "snoozed" else None)
    said = due.settle(claimed, ending, Options(name="t"), lambda: 0.0)
    assert said.outcome == outcome
    assert (said.delay_ms, said.rest, said.forget) == becomes


@pytest.mark.parametrize("kind", ["snoozed", "released", "held"])
def test_snoozing_stopping_and_waiting_for_a_person_are_no_attempts(kind):
    """F077."""
    claimed = claim(attempts=11, crashes=1)
    ending = Ending(claimed, kind, delay_ms=5 if kind == "snoozed" else None)
    assert due.settle(claimed, ending, Options(name="t", retry=Retry(limit=1)), never).attempts == 11


def test_a_failure_does_not_clear_a_task_of_killing_workers():
    claimed = claim(crashes=2, alone=1)
    said = due.settle(claimed, Ending(claimed, "failed"), Options(name="t"), lambda: 0.0)
    assert (said.crashes, said.alone) == (2, True)


# the worker's rules


@pytest.mark.parametrize(
    ("leases", "ms"), [([], 0), ([300_000], 100_000), ([300_000, 1_000], 333), ({5_000, 4_000}, 1_333)]
)
def test_leases_are_renewed_at_a_third_of_the_shortest(leases, ms):
    assert due.renew_every_ms(leases) == ms


@given(st.integers(0, 10**9), st.integers(1000, 10**9))
def test_an_expired_lease_is_believed_after_half_of_it_in_peace(steady, lease):
    assert (due.believed_lease_ms(steady) >= lease) == (steady >= lease / 2)
    assert due.believed_lease_ms(steady + due.disbelief_ms(lease, steady)) >= lease


@given(st.integers(-500, 10**6), st.integers(0, 500))
def test_claiming_ahead_is_what_was_finished_lately_within_the_limit(finished, free):
    rows = due.ahead(finished, free)
    assert 0 <= rows <= max(0, finished)
    assert free + rows <= max(due.MAX_CLAIMED, free)
    assert rows in (0, finished, due.MAX_CLAIMED - free)


@given(st.integers(0, 10**9))
def test_claims_pause_for_the_last_ten_seconds_of_each_overdue_minute(overdue):
    assert due.holds_for_alone(overdue) == (overdue % 60_000 >= 50_000)


@pytest.mark.parametrize(("overdue", "holds"), [(0, False), (49_999, False), (50_000, True), (59_999, True)])
def test_the_edges_of_that_pause(overdue, holds):
    assert due.holds_for_alone(overdue) is holds
    assert due.holds_for_alone(overdue + 60_000) is holds


@pytest.mark.parametrize("key", [None, "k"])
def test_what_was_cancelled_before_it_was_started_leaves_a_line(key):
    """F099: never silently; the row itself may be deleted."""
    of = claim(key=key)
    settled = due.settle(of, Ending(of, "cancelled"), Options(name="t"), never)
    assert (settled.outcome, settled.ran_ms) == ("cancelled", 0)
