"""The outcome of an attempt: entries, validators, counters and the line of its history, in the caller's transaction."""

import hashlib
from typing import NamedTuple

import msgspec

from signal_feeds.politeness import DAY_S, Next, is_local, is_moved
from signal_feeds.reasons import Reason
from signal_feeds.records import Answer, Item, Offer, Parsed, Source
from signal_feeds.store import SQL, Tx, one
from signal_feeds.urls import address_of

KEEP_ATTEMPTS = 50
"""So many lines of history a source has, and those of requests out of turn of the last day."""


class Times(NamedTuple):
    """When an attempt was made, UTC ms, and by whose wish if it was out of turn."""

    begun: int
    ended: int
    asked_by: str | None = None


class Counts(NamedTuple):
    """What an attempt brought; `moved`: the source has another URL now."""

    fresh: int = 0
    changed: int = 0
    moved: bool = False


def digest_of(body: bytes) -> str:
    """By what two bodies are told apart."""
    return hashlib.sha256(body).hexdigest()


def save_success(tx: Tx, source: Source, answer: Answer, parsed: Parsed | None, times: Times, then: Next) -> Counts:
    """A 200 or a 304. `parsed` is None where the body is the one that is stored."""
    fresh, changed, oldest = save_items(tx, source.number, parsed.items, times.ended) if parsed else (0, 0, None)
    moved = _moved(source, answer, parsed, oldest, times.ended)
    to_move = (parsed is None or oldest is not None) and is_moved(moved.times, moved.first, times.ended)
    has_moved = to_move and _move(tx, source, answer)
    if has_moved:
        moved = _Moved()
    whole = answer.status == 200
    tx.execute(
        SQL["succeeded"],
        {
            "number": source.number,
            "title": parsed.title if parsed else None,
            "site": parsed.site if parsed else None,
            "etag": answer.etag if whole else source.etag,
            "last_modified": answer.last_modified if whole else source.last_modified,
            "digest": digest_of(answer.body) if whole else source.digest,
            "hints": msgspec.json.encode(parsed.hints if parsed else source.hints).decode(),
            "fresh_s": answer.fresh_s,
            "ended": times.ended,
            "not_before": then.not_before_ms,
            "same_as": _same_as(tx, source, answer),
            "moved_to": moved.to,
            "moved_first": moved.first,
            "moved_times": moved.times,
        },
    )
    if source.last_error is not None:
        tx.execute(SQL["drop_offers"], {"number": source.number})
    status = None if source.kind == "fixture" else answer.status
    _add_attempt(tx, source, times, status, None, fresh, changed, parsed.cut if parsed else 0)
    return Counts(fresh, changed, has_moved)


def save_failure(
    tx: Tx,
    source: Source,
    reason: Reason,
    status: int | None,
    times: Times,
    then: Next,
    offers: tuple[Offer, ...] = (),
) -> None:
    """Anything else. Our own faults leave `failures` alone; a 304 without its representation drops the validators."""
    tx.execute(
        SQL["failed"],
        {
            "number": source.number,
            "local": is_local(reason),
            "reason": reason,
            "ended": times.ended,
            "not_before": then.not_before_ms,
        },
    )
    if reason == "bad_304":
        tx.execute(SQL["forget_validators"], {"number": source.number})
    if reason == "not_a_feed":
        tx.execute(SQL["drop_offers"], {"number": source.number})
    for offer in offers:
        tx.execute(SQL["add_offer"], {"number": source.number, **msgspec.structs.asdict(offer)})
    _add_attempt(tx, source, times, status, reason)


def save_items(tx: Tx, number: int, items: tuple[Item, ...], now_ms: int) -> tuple[int, int, int | None]:
    """Store what is new and what has changed: how many of each, and since when the oldest known entry is known."""
    keys = msgspec.json.encode([item.key for item in items]).decode()
    rows = tx.execute(SQL["known"], {"keys": keys, "number": number}).fetchall()
    known = {row[0]: row[1] for row in rows}
    turned = [item for item in items if known.get(item.key) != item.fingerprint]
    fresh = [item.key for item in turned if item.key not in known]
    tx.executemany(SQL["add_entry"], [{"number": number, "key": key, "now": now_ms} for key in fresh])
    ids = dict(tx.execute(SQL["entries"], {"keys": keys, "number": number}).fetchall()) if turned else {}
    revisions = [{**msgspec.structs.asdict(item), "entry": ids[item.key], "now": now_ms} for item in turned]
    tx.executemany(SQL["add_revision"], revisions)
    tx.executemany(SQL["turn"], revisions)
    tx.executemany(SQL["drop_words"], [{"entry": ids[item.key]} for item in turned if item.key in known])
    tx.executemany(SQL["add_words"], revisions)
    return len(fresh), len(turned) - len(fresh), min((row[2] for row in rows), default=None)


class _Moved(NamedTuple):
    to: str | None = None
    first: int | None = None
    times: int = 0


def _moved(source: Source, answer: Answer, parsed: Parsed | None, oldest: int | None, ended: int) -> _Moved:
    """Where its permanent redirects lead to, since when, and how often in a row; 0 times while that is a strange feed.

    Strange is one without an entry that was known before the redirects began. A page that holds the place of a lost
    domain is known after the first answer too.
    """
    if answer.moved_to is None:
        return _Moved()
    if answer.moved_to != source.moved_to:
        strange = parsed is not None and oldest is None and source.digest is not None
        return _Moved(answer.moved_to, ended, 0 if strange else 1)
    since = min(source.moved_first or ended, ended)
    strange = source.moved_times == 0 and (oldest is None or oldest >= since)
    return _Moved(answer.moved_to, since, 0 if strange else source.moved_times + 1)


def _same_as(tx: Tx, source: Source, answer: Answer) -> str | None:
    """Another source that this one leads to."""
    if answer.url == source.url:
        return None
    other = one(tx, "source_by_address", address=address_of(answer.url))
    return other[1] if other is not None and other[0] != source.number else None


def _move(tx: Tx, source: Source, answer: Answer) -> bool:
    address = address_of(str(answer.moved_to))
    other = one(tx, "source_by_address", address=address)
    if other is not None and other[0] != source.number:
        return False  # it is there already: shown as the same as that one
    tx.execute(SQL["readdress"], {"number": source.number, "url": answer.moved_to, "address": address})
    return True


def _add_attempt(
    tx: Tx,
    source: Source,
    times: Times,
    status: int | None,
    reason: Reason | None,
    fresh: int = 0,
    changed: int = 0,
    cut: int = 0,
) -> None:
    tx.execute(
        SQL["add_attempt"],
        {
            "number": source.number,
            **times._asdict(),
            "status": status,
            "reason": reason,
            "fresh": fresh,
            "changed": changed,
            "cut": cut,
        },
    )
    counted = times.ended - DAY_S * 1000
    tx.execute(SQL["purge_attempts"], {"number": source.number, "keep": KEEP_ATTEMPTS, "counted": counted})
