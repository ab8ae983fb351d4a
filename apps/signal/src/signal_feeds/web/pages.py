"""The pages that people read."""

import shlex
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response

from signal_feeds import editing, publishing, searching
from signal_feeds.errors import NothingAsked, UnknownEntry
from signal_feeds.records import Verdict
from signal_feeds.store import pages
from signal_feeds.web.health import is_held
from signal_feeds.web.view import View

ENTRIES, WAITING, SOURCES, OF_SOURCE = 50, 20, 100, 50
MOST_FOUND, REVISIONS = 200, 50
DIFFS_S = 0.5
"""For so long differences are worked out for one page; those that are left have a page of their own."""
AROUND = 120
"""So many characters that are the same stay on both sides of a change."""


def entries(view: View) -> Response:
    """What is published."""
    start = min(view.number("from", 0), 1_000_000)
    found = publishing.approved(view.tx, view.site.keep, limit=ENTRIES + 1, offset=start)
    more = view.at("/", **{"from": start + ENTRIES}) if len(found) > ENTRIES else None
    return view.draw("entries.html", entries=found[:ENTRIES], more=more, start=start)


def sources(view: View) -> Response:
    """Every source: how it is, and when it is asked next."""
    failing = view.request.query_params.get("show") == "failing"
    after = _whole(view.request.query_params.get("after", ""))
    found = pages.sources(view.tx, after=after, failing=failing, limit=SOURCES + 1)
    show = "failing" if failing else None
    more = view.at("/sources", show=show, after=found[SOURCES - 1].id) if len(found) > SOURCES else None
    count, failed = pages.tally(view.tx)
    return view.draw(
        "sources.html",
        collecting=is_held(view.site.lock),
        sources=found[:SOURCES],
        more=more,
        after=after,
        failing=failing,
        count=count,
        failed=failed,
    )


def source(view: View) -> Response:
    """One source with its history."""
    found = pages.source(view.tx, _number(view))
    if found is None:
        raise HTTPException(404)
    before = view.number("before", pages.LAST)
    headlines = pages.entries_of(view.tx, found.number, before=before, limit=OF_SOURCE + 1)
    path = f"/source/{found.number}"
    more = view.at(path, before=headlines[OF_SOURCE - 1].id) if len(headlines) > OF_SOURCE else None
    return view.draw(
        "source.html",
        source=found,
        attempts=pages.attempts(view.tx, found.number, limit=50),
        offers=[(*offer, command("add", offer[0])) for offer in pages.offers(view.tx, found.number)],
        entries=headlines[:OF_SOURCE],
        more=more,
        commands=[command("why", found.id), command("refresh", found.id, "--by", "ME")],
    )


def queue(view: View) -> Response:
    """What waits for a word, with what has changed in it, and the command that says the word."""
    changed = view.request.query_params.get("show") == "changed"
    found = editing.queue(view.tx, changed=changed, after=view.number("after", 0), limit=WAITING + 1)
    until = time.monotonic() + DIFFS_S
    waiting = [_waiting(view, one, until) for one in found[:WAITING]]
    show = "changed" if changed else None
    more = view.at("/queue", show=show, after=found[WAITING - 1].id) if len(found) > WAITING else None
    count = editing.waiting(view.tx, changed=changed)
    return view.draw("queue.html", waiting=waiting, changed=changed, more=more, count=count)


def entry(view: View) -> Response:
    """One entry, what it said before, and what has changed."""
    try:
        found = editing.look(view.tx, _number(view))
    except UnknownEntry:
        raise HTTPException(404) from None
    seen = view.number("from", 0)
    older = seen if any(one.id == seen for one in found.revisions) and seen != found.revision else None
    diff = editing.diff(found, older)
    return view.draw(
        "entry.html",
        entry=found,
        current=found.current,
        revisions=found.revisions[::-1][:REVISIONS],
        diff=None if diff is None else _shortened(diff),
        commands=_decisions(found.id, found.current.fingerprint, found.current.verdict),
    )


def search(view: View) -> Response:
    """Entries with these words in them."""
    asked = _whole(view.request.query_params.get("q", ""))[:1000]
    limit = min(max(view.number("most", searching.PAGE), 1), MOST_FOUND)
    hits, nothing = [], False
    if asked:
        try:
            hits = searching.search(view.tx, asked, limit=limit + 1)
        except NothingAsked:
            nothing = True
    more = view.at("/search", q=asked, most=limit + 2 * searching.PAGE) if len(hits) > limit < MOST_FOUND else None
    return view.draw("search.html", asked=asked, hits=hits[:limit], more=more, nothing=nothing)


def command(*words: str) -> str:
    """What to type into a shell."""
    return shlex.join(["signal", *words])


class _Waiting(NamedTuple):
    entry: editing.Waiting
    text: str
    diff: "tuple[tuple[str, Sequence[editing.Part]], ...] | None"
    later: bool
    """There is a difference, and it takes too long for this page."""
    commands: "list[tuple[str, str]]"


def _waiting(view: View, one: editing.Waiting, until: float) -> _Waiting:
    whole, diff = editing.look(view.tx, one.id), None
    in_time = time.monotonic() < until
    if one.changed and in_time:
        diff = editing.diff(whole)
    return _Waiting(
        one,
        whole.current.text,
        None if diff is None else _shortened(diff),
        one.changed and not in_time,
        _decisions(one.id, one.fingerprint),
    )


def _decisions(entry: int, fingerprint: str, verdict: Verdict | None = None) -> list[tuple[str, str]]:
    """What may be said of a text, other than what was said already, and what to type to say it."""
    said = (str(entry), "--fingerprint", fingerprint[: editing.SHORT])
    left = [verb for verb, done in (("approve", "approved"), ("reject", "rejected")) if done != verdict]
    return [(verb, command(verb, *said)) for verb in left]


def _shortened(diff: editing.Diff) -> tuple[tuple[str, Sequence[editing.Part]], ...]:
    """The fields that differ, each with its parts; of long stretches that are the same only the ends stay."""
    fields = (("title", diff.title), ("link", diff.link), ("text", diff.text))
    return tuple((name, list(_ends(parts))) for name, parts in fields if any(part.op != "same" for part in parts))


def _ends(parts: Sequence[editing.Part]) -> Iterator[editing.Part]:
    for at, part in enumerate(parts):
        if part.op != "same" or len(part.text) <= 3 * AROUND:
            yield part
            continue
        if at:
            yield editing.Part("same", part.text[:AROUND])
        yield editing.Part("same", "")
        if at + 1 < len(parts):
            yield editing.Part("same", part.text[-AROUND:])


def _number(view: View) -> int:
    text = view.request.path_params["number"]
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise HTTPException(404)
    return int(text)


def _whole(text: str) -> str:
    """Without halves of surrogate pairs and NUL, which SQLite can't take."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "")
