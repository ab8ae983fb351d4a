"""Requests out of turn: who may have one, and when.

A wish is a row, written by `signal refresh`; only the collector dials, and it asks `permit` whoever made a source due.
"""

from typing import NamedTuple

from signal_feeds.errors import NotYet
from signal_feeds.politeness import AHEAD_S, DAY_S, HOUR_S, allowed_from, first_due, is_ahead, regular_due
from signal_feeds.records import Source
from signal_feeds.store import SQL, Tx, one

APART_S = 300
"""No request out of turn sooner than this after the last one of any kind."""
A_DAY, AN_HOUR = 6, 30
"""Requests out of turn: of one source a day, of all in an hour."""


class Permit(NamedTuple):
    """Whether a source may be asked now: then `until` is None. `asked_by`: whose wish it is, if it is out of turn."""

    until: int | None = None
    asked_by: str | None = None


def permit(tx: Tx, source: Source, now_ms: int, interval_s: int, under_way: int = 0) -> Permit:
    """What the collector may do with a source that is due. An early one without a wish goes back to its turn.

    `under_way`: so many requests out of turn are being made, and aren't in the history yet.
    """
    turn, never = regular_due(source, interval_s), source.last_attempt is None
    wish = one(tx, "wished", number=source.number) if never or now_ms < turn else None
    if wish is not None and never:
        turn = first_due(source.added, source.id)  # before it, it is out of turn as well
    if now_ms >= turn:
        return Permit()
    if wish is None:
        return Permit() if is_ahead(source, now_ms) else Permit(until=turn)
    at = allowed_at(tx, source, now_ms, under_way)
    return Permit(asked_by=wish[1]) if at <= now_ms else Permit(until=min(at, turn))


def allowed_at(tx: Tx, source: Source, now_ms: int, others: int = 0) -> int:
    """When a request out of turn is allowed; `now_ms` if it is now.

    `others`: so many are granted to other sources, and aren't in the history yet.
    """
    at = allowed_from(source, now_ms)
    if source.last_attempt is not None and not is_ahead(source, now_ms):
        at = max(at, source.last_attempt + APART_S * 1000)
    for name, most, over_s, granted in (("forced_of", A_DAY, DAY_S, 0), ("forced", AN_HOUR, HOUR_S, others)):
        span = {"since": now_ms - over_s * 1000, "until": now_ms + AHEAD_S * 1000}
        begun = [row[0] for row in tx.execute(SQL[name], {"number": source.number, **span}).fetchall()]
        begun += [now_ms] * granted
        if len(begun) >= most:
            at = max(at, begun[-most] + over_s * 1000 + 1)
    return at


def wish(tx: Tx, source: Source, who: str, now_ms: int) -> None:
    """Note that `who` wants this source asked now. Raises NotYet, which says when it will be allowed."""
    at = allowed_at(tx, source, now_ms, others=one(tx, "wishes_of_others", number=source.number)[0])
    if at > now_ms:
        raise NotYet(source.id, at)
    tx.execute(SQL["wish"], {"number": source.number, "now": now_ms, "who": who})
