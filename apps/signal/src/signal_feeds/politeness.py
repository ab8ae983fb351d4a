"""When a source may be asked next: the rules of a polite poller, as pure functions of what is known of it.

Instants are UTC ms, durations seconds. Nothing here reads a clock; what is random is handed in.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zlib import crc32

import msgspec

from signal_feeds.reasons import WORDS
from signal_feeds.records import Hints, Source

HOUR_S, DAY_S, WEEK_S = 3_600, 86_400, 604_800
LOCAL = frozenset(code for code, words in WORDS.items() if words.kind == "local")
HINTS_AT_MOST_S = DAY_S
RETRY_AFTER_AT_MOST_S = WEEK_S
MOST_FAILURES = 12
JITTER_S = 30
"""At most so much is added to the delay after a failure."""
SPREAD_S = 1_800
"""The first requests of many new sources are spread over so long."""
GONE_TIMES, GONE_OVER_S = 3, DAY_S
"""So many answers 410, from the first to the last over so long, and a source counts as gone."""
MOVED_TIMES, MOVED_OVER_S = 5, 2 * DAY_S
"""The same with a permanent redirect, and its target becomes the source's URL."""
AHEAD_S = HOUR_S
"""What was done so far in the future was done by a clock that was ahead, and doesn't say when to ask again."""


class Next(NamedTuple):
    """When a source is asked next, and until when its server wants no request at all (0: it doesn't say)."""

    due_ms: int
    not_before_ms: int


def after_success(ended_ms: int, *, interval_s: int, fresh_s: int, hints: Hints) -> Next:
    """After a 200 or a 304: the interval, or what the server asked for if that is longer, from the attempt's end.

    >>> after_success(0, interval_s=1800, fresh_s=7200, hints=Hints(period_s=3600))
    Next(due_ms=7200000, not_before_ms=7200000)
    """
    asked_s = min(max(fresh_s, hints.period_s or 0), HINTS_AT_MOST_S)
    due = unskipped(ended_ms + max(interval_s, asked_s) * 1000, hints)
    return Next(due, ended_ms + asked_s * 1000 if asked_s else 0)


def after_failure(
    ended_ms: int, *, failures: int, retry_after_s: int | None = None, gone: bool = False, jitter_s: int = 0
) -> Next:
    """After the `failures`th failure in a row: 1, 2, 4 .. 60 minutes and the jitter; Retry-After if that is longer.

    >>> after_failure(0, failures=2, jitter_s=7), after_failure(0, failures=12, retry_after_s=10**9)
    (Next(due_ms=127000, not_before_ms=0), Next(due_ms=604800000, not_before_ms=604800000))
    """
    delay_s = WEEK_S if gone else min(HOUR_S, 60 << min(failures - 1, 6))
    asked_s = min(retry_after_s or 0, RETRY_AFTER_AT_MOST_S)
    due = ended_ms + max(delay_s + jitter_s, asked_s) * 1000
    return Next(due, ended_ms + asked_s * 1000 if asked_s else 0)


def unskipped(instant_ms: int, hints: Hints) -> int:
    """The first instant from here on whose hour and day (GMT) the publisher doesn't skip; all skipped: it counts not.

    RSS 2.0, skipHours and skipDays.
    """
    if not hints.skip_hours and not hints.skip_days:
        return instant_ms
    hours = set(hints.skip_hours) if len(set(hints.skip_hours)) < 24 else set()
    days = set(hints.skip_days) if len(set(hints.skip_days)) < 7 else set()
    at = datetime.fromtimestamp(instant_ms / 1000, UTC)
    first = True
    while at.hour in hours or at.weekday() in days:
        at = at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        first = False
    return instant_ms if first else int(at.timestamp()) * 1000


def regular_due(source: Source, interval_s: int) -> int:
    """When it would be asked if nobody wished otherwise, without jitter: earlier than that somebody made it due.

    Not kept anywhere, so that nothing can drift from the due of its task. 0 for one that was never asked.
    """
    ended = source.last_attempt
    if ended is None:
        return 0
    if source.last_error is None:
        return after_success(ended, interval_s=interval_s, fresh_s=source.fresh_s, hints=source.hints).due_ms
    local = is_local(source.last_error)
    count = max(1, source.faults if local else source.failures)
    gone = source.last_error == "http_gone" and is_gone(source.gone_times, source.gone_first, ended)
    due = after_failure(ended, failures=count, gone=gone).due_ms
    return max(due, source.not_before)


def allowed_from(source: Source, now_ms: int) -> int:
    """From when on its server wants to be asked, `now_ms` at the earliest."""
    return unskipped(now_ms if is_ahead(source, now_ms) else max(now_ms, source.not_before), source.hints)


def is_ahead(source: Source, now_ms: int) -> bool:
    """Whether its last attempt (or, before the first one, its adding) can't have been when it is said to have been."""
    return (source.added if source.last_attempt is None else source.last_attempt) > now_ms + AHEAD_S * 1000


def due_of_ahead(source: Source, interval_s: int, now_ms: int) -> int:
    """When to ask one that `is_ahead`: as if its last attempt ended within the next 30 minutes, so never early."""
    at = first_due(now_ms, source.id)
    if source.last_attempt is None:
        return at
    not_before = source.not_before and source.not_before - source.last_attempt + at
    return regular_due(msgspec.structs.replace(source, last_attempt=at, not_before=not_before), interval_s)


def is_gone(times: int, first_ms: int | None, at_ms: int) -> bool:
    """Whether 410 was said so often, the first time so long ago, that the source is asked once a week only."""
    return times >= GONE_TIMES and first_ms is not None and at_ms - first_ms >= GONE_OVER_S * 1000


def is_moved(times: int, first_ms: int | None, at_ms: int) -> bool:
    """Whether a permanent redirect was the same so often and so long that its target is believed."""
    return times >= MOVED_TIMES and first_ms is not None and at_ms - first_ms >= MOVED_OVER_S * 1000


def is_local(reason: str | None) -> bool:
    """Whether this failure was our own, so that the publisher isn't to be blamed."""
    return reason in LOCAL


def first_due(now_ms: int, source: str) -> int:
    """When a new source is asked for the first time: a stable place for its name within the next 30 minutes."""
    return now_ms + crc32(source.encode()) % (SPREAD_S * 1000)
