"""The editor's queue: what waits for a word, and the word, bound to the text that the editor saw.

A decision is one of one fingerprint (title, link and text) of one entry. So a change of any of them waits anew, and a
text that comes back comes back with its decision.
"""

import re
from typing import NamedTuple

from signal_feeds.editing.diffs import Diff, Part, words_between
from signal_feeds.errors import BadFingerprint, Changed, UnknownEntry
from signal_feeds.records import Verdict
from signal_feeds.store import SQL, Tx, one

__all__ = ["Diff", "Entry", "Part", "Revision", "Waiting", "approve", "diff", "look", "queue", "reject", "waiting"]

PAGE = 50
SHORT = 12
"""So many digits of a fingerprint are shown, and enough to type."""
_HEX = re.compile(rf"[0-9a-f]{{{SHORT},64}}")


class Waiting(NamedTuple):
    """An entry that waits for a decision."""

    id: int
    source: str
    source_number: int
    source_title: str | None
    fingerprint: str
    title: str
    link: str | None
    published: int
    """UTC ms; when it was seen first if its feed doesn't say."""
    seen: int
    changed: bool
    """Something was decided of an earlier text of it."""


class Revision(NamedTuple):
    """One text of an entry, and the verdict on it."""

    id: int
    fingerprint: str
    title: str
    link: str | None
    author: str
    html: str
    text: str
    published: int | None
    seen: int
    verdict: Verdict | None
    decided: int | None


class Entry(NamedTuple):
    """An entry with all its revisions, the one seen last at the end."""

    id: int
    revision: int
    key: str
    first_seen: int
    source: str
    source_number: int
    source_title: str | None
    revisions: tuple[Revision, ...]

    @property
    def current(self) -> Revision:
        """What its source says now."""
        return next(revision for revision in self.revisions if revision.id == self.revision)

    @property
    def before(self) -> Revision | None:
        """What the current text is compared with: the last one decided, else the last; None: it is the first."""
        others = [revision for revision in self.revisions if revision.id != self.revision]
        decided = [revision for revision in others if revision.verdict is not None]
        return next(reversed(decided or others), None)


def queue(tx: Tx, *, changed: bool = False, after: int = 0, limit: int = PAGE) -> list[Waiting]:
    """Entries whose current text has no decision, those that came first first; `after` an entry's id, for pages.

    `changed`: only those of which an earlier text has one.
    """
    values = {"changed": changed, "after": after, "limit": limit}
    rows = tx.execute(SQL["waiting"], values).fetchall()
    return [Waiting._make((*row[:-1], bool(row[-1]))) for row in rows]


def waiting(tx: Tx, *, changed: bool = False) -> int:
    """How many there are in all."""
    (count,) = one(tx, "count_waiting", changed=changed)
    return int(count)


def look(tx: Tx, entry: int) -> Entry:
    """One entry with all that it ever said. Raises UnknownEntry."""
    row = one(tx, "entry", entry=entry) if abs(entry) < 2**63 else None
    if row is None:
        raise UnknownEntry("entry.unknown", id=entry)
    revisions = tx.execute(SQL["revisions"], {"entry": entry}).fetchall()
    return Entry._make((*row, tuple(map(Revision._make, revisions))))


def approve(tx: Tx, entry: int, fingerprint: str, now_ms: int) -> Entry:
    """Approve this text, which is published from now on. `fingerprint`: its first 12 hex digits or more.

    Again: nothing changes. Raises UnknownEntry, BadFingerprint, and Changed if the entry isn't that text (any more).
    """
    return _decide(tx, entry, fingerprint, "approved", now_ms)


def reject(tx: Tx, entry: int, fingerprint: str, now_ms: int) -> Entry:
    """Reject this text: it isn't published, and doesn't wait any longer. Raises as approve() does."""
    return _decide(tx, entry, fingerprint, "rejected", now_ms)


def diff(entry: Entry, seen: int | None = None) -> Diff | None:
    """From the revision numbered `seen` (None: from `before`) to the current one; None where there is no other."""
    before = entry.before if seen is None else next((r for r in entry.revisions if r.id == seen), None)
    if before is None:
        return None
    now = entry.current
    return Diff(
        words_between(before.title, now.title),
        words_between(before.link or "", now.link or ""),
        words_between(before.text, now.text),
    )


def _decide(tx: Tx, number: int, fingerprint: str, verdict: Verdict, now_ms: int) -> Entry:
    prefix = fingerprint.strip().lower()
    if not _HEX.fullmatch(prefix):
        raise BadFingerprint("entry.fingerprint", text=fingerprint, least=SHORT, id=number)
    entry = look(tx, number)
    current = entry.current
    meant = [revision for revision in entry.revisions if revision.fingerprint.startswith(prefix)]
    if meant != [current]:
        raise _changed(entry, meant)
    values = {"entry": number, "fingerprint": current.fingerprint, "verdict": verdict, "now": now_ms}
    tx.execute(SQL["decide"], values)
    return look(tx, number)


def _changed(entry: Entry, meant: list[Revision]) -> Changed:
    current = entry.current
    seen = next((revision.id for revision in meant if revision.id != current.id), None)
    if len(meant) > 1:
        # A publisher can make two texts that begin with the same 12 digits; then the short form says nothing.
        key = "entry.two"
    elif seen is not None:
        key = "entry.changed"
    else:
        key = "entry.never"
    return Changed(key, entry=entry.id, seen=seen, now=current.id)
