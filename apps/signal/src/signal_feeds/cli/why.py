"""`signal why`: what is known of one source, in words."""

import argparse
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from signal_feeds import politeness
from signal_feeds.app import Signal
from signal_feeds.cli.output import pairs, say, table
from signal_feeds.cli.parsers import command
from signal_feeds.cli.sources import when_due
from signal_feeds.politeness import DAY_S, GONE_OVER_S, GONE_TIMES, MOST_FAILURES, MOVED_TIMES, is_local
from signal_feeds.reasons import kind_of
from signal_feeds.records import Source
from signal_feeds.store.listing import Listed, listed_one
from signal_feeds.texts import Language, local, relative, span
from signal_feeds.texts import reason as reason_in
from signal_feeds.texts import say as words

ATTEMPTS = 10
"""So many of its last attempts are shown."""


def why(signal: Signal, args: argparse.Namespace) -> int:
    """When it is asked next and why then, and how it went so far."""
    found, lang, now = listed_one(signal.store, args.name), signal.settings.language, signal.now_ms()
    source = found.source
    say(f"{source.id}  {source.title or ''}".rstrip())
    for line in pairs([(words(lang, f"why.{key}"), text) for key, text in _facts(signal, found, lang, now)]):
        say(f"  {line}")
    offers = signal.store.rows("offers", number=source.number)
    if offers:
        say(words(lang, "why.offers"))
        for url, title, _ in offers:
            say(f"  {_adding(args, url)}")  # to be copied into a shell: nothing of others but the URL, quoted
            if title:
                say(f"    {title}")
    attempts = signal.store.rows("attempts", number=source.number, limit=ATTEMPTS)
    if attempts:
        say(words(lang, "why.attempts"))
        for line in table(
            [words(lang, f"attempt.{key}") for key in _COLUMNS], [_attempt(row, lang) for row in attempts]
        ):
            say(f"  {line}")
    return 0


def _adding(args: argparse.Namespace, url: str) -> str:
    """What to type to add it, in this folder."""
    folder = [] if args.folder is None else ["--folder", args.folder]
    return shlex.join(["signal", *folder, "add", url])


def _facts(signal: Signal, found: Listed, lang: Language, now: int) -> Iterator[tuple[str, str]]:
    source = found.source
    yield "url", source.url
    if source.given != source.url:
        yield "given", source.given
    yield "origin", words(lang, f"origin.{source.origin}")
    yield "state", words(lang, "state.orphaned") if source.orphaned else words(lang, f"state.{found.state}")
    if due := when_due(found, lang, now):
        yield "due", due
        if found.due_ms is not None:
            yield "because", because(signal, source, found.due_ms, lang)
        if source.kind == "http":
            yield "network", words(lang, "why.only")
    yield "ok", words(lang, "why.never") if source.last_ok is None else _when(source.last_ok, lang, now)
    yield "failures", f"{source.failures}/{MOST_FAILURES}"
    if source.faults:
        yield "faults", f"{source.faults}/{MOST_FAILURES}"
    if source.last_error is not None:
        kind = words(lang, f"kind.{kind_of(source.last_error)}")
        yield "error", f"{source.last_error}: {reason_in(lang, source.last_error)} ({kind})"
    if source.not_before > now:
        yield "not_before", _when(source.not_before, lang, now)
    if source.moved_to is not None and source.moved_first is not None:
        since = relative(lang, source.moved_first, now)
        yield (
            "moved",
            words(lang, "why.moved_to", url=source.moved_to, count=source.moved_times, most=MOVED_TIMES, since=since),
        )
    if source.gone_first is not None:
        since = relative(lang, source.gone_first, now)
        yield "gone", words(lang, "why.gone_since", count=source.gone_times, since=since)
    if source.same_as is not None:
        yield "same_as", words(lang, "why.same", name=source.same_as, this=source.id)


def because(signal: Signal, source: Source, due_ms: int, lang: Language) -> str:
    """Why it is due then, in a sentence."""
    interval_s = signal.settings.interval_of(source)
    wish = signal.store.rows("wished", number=source.number)
    if wish:
        return words(lang, "because.wish", who=wish[0]["asked_by"])
    if source.last_attempt is None:
        return words(lang, "because.first" if source.kind == "http" else "because.file")
    if politeness.is_ahead(source, signal.now_ms()):
        return words(lang, "because.ahead")
    turn = politeness.regular_due(source, interval_s)
    if due_ms + 1000 < turn:
        return words(lang, "because.early", turn=local(turn))
    if source.last_error is None:
        return _after_success(source, interval_s, lang)
    if source.last_error == "http_gone" and politeness.is_gone(
        source.gone_times, source.gone_first, source.last_attempt
    ):
        return words(lang, "because.gone", count=GONE_TIMES, over=span(lang, GONE_OVER_S * 1000))
    if source.not_before >= due_ms:
        return words(lang, "because.server", until=local(source.not_before))
    local_fault = is_local(source.last_error)
    count = max(1, source.faults if local_fault else source.failures)
    delay = politeness.after_failure(0, failures=count).due_ms
    return words(lang, "because.fault" if local_fault else "because.failure", count=count, span=span(lang, delay))


def _after_success(source: Source, interval_s: int, lang: Language) -> str:
    asked_s = min(max(source.fresh_s, source.hints.period_s or 0), DAY_S)
    if asked_s > interval_s:
        key = "because.fresh" if source.fresh_s >= (source.hints.period_s or 0) else "because.feed"
        reason = words(lang, key, span=span(lang, asked_s * 1000))
    else:
        reason = words(lang, "because.interval", span=span(lang, interval_s * 1000))
    due = (source.last_attempt or 0) + max(asked_s, interval_s) * 1000
    if politeness.unskipped(due, source.hints) != due:
        at = f"{datetime.fromtimestamp(due / 1000, UTC):%Y-%m-%d %H:%M} GMT"
        reason += words(lang, "because.skips", at=at)
    return reason


def _when(ms: int, lang: Language, now: int) -> str:
    return f"{local(ms)}, {relative(lang, ms, now)}"


_COLUMNS = ("begun", "outcome", "fresh", "changed", "by")


def _attempt(row: Any, lang: Language) -> tuple[str, ...]:
    status = str(row["status"]) if row["status"] else ""
    if row["reason"] is not None:
        status = f"{row['reason']} ({status})" if status else row["reason"]
    changed = str(row["changed"] or "") + (f" {words(lang, 'attempt.cut', count=row['cut'])}" if row["cut"] else "")
    fresh = "" if row["reason"] is not None else str(row["fresh"])
    return local(row["begun"]), status or "ok", fresh, changed.strip(), row["asked_by"] or ""


def add_commands(commands: Any) -> None:
    """See cli.main.MODULES."""
    more = "Also what its last attempts came to, and the feeds that it offers if it is a page."
    parser = command(commands, "why", "when a source is asked next and why then, in words", more)
    parser.add_argument("name", metavar="NAME", help="of a source, as signal list shows it")
    parser.set_defaults(run=why)
