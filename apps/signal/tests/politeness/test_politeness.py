"""The rules of a polite poller, as pure functions."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.signal.tests.samples import DAY, HOUR, MINUTE, NOW, source
from signal_feeds.politeness import (
    after_failure,
    after_success,
    allowed_from,
    first_due,
    is_gone,
    is_local,
    is_moved,
    regular_due,
    unskipped,
)
from signal_feeds.reasons import WORDS
from signal_feeds.records import Hints, Source

hints = st.builds(
    Hints,
    period_s=st.none() | st.integers(0, 10**9),
    skip_hours=st.lists(st.integers(0, 23), max_size=30).map(tuple),
    skip_days=st.lists(st.integers(0, 6), max_size=9).map(tuple),
)
instants = st.integers(NOW - 400 * DAY, NOW + 400 * DAY)
WEEK_AND_DAY = 8 * DAY


def test_success_without_hints_is_asked_again_after_the_interval() -> None:
    """Rule success: next due = end of the attempt + 30 min."""
    assert after_success(NOW, interval_s=1800, fresh_s=0, hints=Hints()) == (NOW + 30 * MINUTE, 0)


@given(instants, st.integers(60, 86_400), st.integers(0, 10**9), hints)
def test_success_is_never_sooner_than_the_interval_and_the_hints(
    ended: int, interval_s: int, fresh_s: int, hints: Hints
) -> None:
    """Rule success and acceptance 3: max(30 min, hints), hints capped at 24 h; jitter and skips only forwards."""
    due, not_before = after_success(ended, interval_s=interval_s, fresh_s=fresh_s, hints=hints)
    asked = min(max(fresh_s, hints.period_s or 0), 86_400)
    assert due >= ended + interval_s * 1000
    assert due >= not_before == (ended + asked * 1000 if asked else 0)
    assert due <= ended + max(interval_s, asked) * 1000 + WEEK_AND_DAY
    if not hints.skip_hours and not hints.skip_days:
        assert due == ended + max(interval_s, asked) * 1000


@given(instants, hints)
def test_skipped_hours_and_days_are_in_gmt_and_only_move_forwards(instant: int, hints: Hints) -> None:
    """Acceptance 9: skipHours and skipDays in GMT; all 24 listed = ignored."""
    at = unskipped(instant, hints)
    when = datetime.fromtimestamp(at / 1000, UTC)
    assert at >= instant
    assert len(set(hints.skip_hours)) == 24 or when.hour not in hints.skip_hours
    assert len(set(hints.skip_days)) == 7 or when.weekday() not in hints.skip_days
    assert at == instant or (when.minute, when.second) == (0, 0)
    assert unskipped(at, hints) == at


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (Hints(skip_hours=(0, 1)), NOW + 2 * HOUR),
        (Hints(skip_days=(1,)), NOW + DAY),
        (Hints(skip_hours=tuple(range(24))), NOW + 5),
        (Hints(skip_days=tuple(range(7))), NOW + 5),
        (Hints(skip_hours=tuple(range(24)), skip_days=(1, 2)), NOW + 2 * DAY),
        (Hints(skip_hours=(23,)), NOW + 5),
    ],
    ids=["hours", "day", "all-hours", "all-days", "all-hours-two-days", "another-hour"],
)
def test_skips_of_a_tuesday_at_midnight(skip: Hints, expected: int) -> None:
    assert unskipped(NOW + 5, skip) == expected


def test_skips_are_in_gmt_wherever_this_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acceptance 9: skipHours and skipDays in GMT."""
    try:
        with monkeypatch.context() as patched:
            patched.setenv("TZ", "Asia/Kathmandu")  # 5:45 ahead
            time.tzset()
            assert unskipped(NOW + 5, Hints(skip_hours=(0, 1), skip_days=(2,))) == NOW + 2 * HOUR
    finally:
        time.tzset()


@pytest.mark.parametrize(
    ("failures", "delay_s"), [(1, 60), (2, 120), (3, 240), (4, 480), (5, 960), (6, 1920), (7, 3600), (12, 3600)]
)
@pytest.mark.parametrize("jitter_s", [0, 30])
def test_failures_back_off(failures: int, delay_s: int, jitter_s: int) -> None:
    """Rule failure: min(3600, 60·2^min(failures-1, 6)) s and 0 to 30 s, both ends included."""
    then = after_failure(NOW, failures=failures, jitter_s=jitter_s)
    assert then == (NOW + (delay_s + jitter_s) * 1000, 0)


@given(instants, st.integers(1, 12), st.none() | st.integers(0, 10**12), st.booleans(), st.integers(0, 30))
def test_retry_after_lengthens_and_never_shortens(
    ended: int, failures: int, retry_after: int | None, gone: bool, jitter: int
) -> None:
    """Acceptance 5: Retry-After capped at 7 days, and no faster retry after an error."""
    plain = after_failure(ended, failures=failures, gone=gone, jitter_s=jitter)
    due, not_before = after_failure(ended, failures=failures, retry_after_s=retry_after, gone=gone, jitter_s=jitter)
    asked = min(retry_after or 0, 7 * 86_400)
    assert due == max(plain.due_ms, ended + asked * 1000)
    assert not_before == (ended + asked * 1000 if asked else 0)


def test_who_is_gone_is_asked_once_a_week() -> None:
    """Rule failure: it never gives up, a gone source is asked once in 7 days. Acceptance 10: three times over 24 h."""
    assert after_failure(NOW, failures=3, gone=True).due_ms == NOW + 7 * DAY
    assert is_gone(3, NOW, NOW + DAY)
    assert not is_gone(2, NOW, NOW + DAY)
    assert not is_gone(9, NOW, NOW + DAY - 1)
    assert not is_gone(0, None, NOW)


def test_who_has_moved() -> None:
    """Acceptance 11: 5 same answers over 48 h."""
    assert is_moved(5, NOW, NOW + 2 * DAY)
    assert not is_moved(4, NOW, NOW + 2 * DAY)
    assert not is_moved(50, NOW, NOW + 2 * DAY - 1)
    assert not is_moved(0, None, NOW)


@given(instants, st.text(max_size=60))
def test_first_requests_are_spread_over_half_an_hour(now: int, name: str) -> None:
    """Acceptance 13: a stable place within 30 min."""
    assert now <= first_due(now, name) < now + 30 * MINUTE
    assert first_due(now, name) == first_due(now, name)


def test_ten_thousand_first_requests_are_spread_evenly() -> None:
    """Acceptance 13: 10,000 by OPML."""
    minutes = [0] * 30
    for number in range(10_000):
        minutes[first_due(0, f"source-{number}") // MINUTE] += 1
    assert min(minutes) > 250
    assert max(minutes) < 420


def test_local_reasons() -> None:
    """Rule our own fault: store and internal."""
    assert {reason for reason in WORDS if is_local(reason)} == {"store", "internal"}
    assert not is_local(None)


successes = st.builds(
    lambda ended, fresh, hints: source(last_attempt=ended, last_ok=ended, fresh_s=fresh, hints=hints, digest="d"),
    instants,
    st.integers(0, 10**6),
    hints,
)


@given(successes, st.integers(60, 86_400))
def test_the_turn_after_a_success_is_the_due_that_was_set(asked: Source, interval_s: int) -> None:
    ended = asked.last_attempt or 0
    then = after_success(ended, interval_s=interval_s, fresh_s=asked.fresh_s, hints=asked.hints)
    assert regular_due(asked, interval_s) == then.due_ms


@given(
    instants,
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from(["timeout", "store", "internal", "http_gone", "http_throttled"]),
    st.none() | st.integers(0, 10**7),
    st.integers(0, 30),
    st.integers(0, 5),
    st.integers(0, 4 * DAY),
)
def test_the_turn_after_a_failure_is_at_most_a_jitter_before_the_due_that_was_set(
    ended: int,
    failures: int,
    faults: int,
    reason: str,
    retry_after: int | None,
    jitter: int,
    gone_times: int,
    gone_for: int,
) -> None:
    """What was made due by the formula is never taken for early, nor a due of ten minutes before for its turn.

    Rule our own fault: by a counter of their own.
    """
    gone_first = ended - gone_for if gone_times else None
    gone = reason == "http_gone" and is_gone(gone_times, gone_first, ended)
    count = faults if reason in ("store", "internal") else failures
    then = after_failure(ended, failures=count, retry_after_s=retry_after, gone=gone, jitter_s=jitter)
    row = source(
        last_attempt=ended,
        last_error=reason,
        failures=failures,
        faults=faults,
        not_before=then.not_before_ms,
        gone_first=gone_first,
        gone_times=gone_times,
    )
    assert then.due_ms - jitter * 1000 <= regular_due(row, 1800) <= then.due_ms


def test_a_source_that_was_never_asked_has_its_turn() -> None:
    assert regular_due(source(), 1800) == 0


def test_out_of_turn_the_servers_wishes_hold() -> None:
    row = source(not_before=NOW + HOUR, hints=Hints(skip_hours=(1, 2)))
    assert allowed_from(row, NOW) == NOW + 3 * HOUR
    assert allowed_from(row, NOW + 5 * HOUR) == NOW + 5 * HOUR
