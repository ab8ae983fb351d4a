"""What was approved, as Atom, JSON Feed and a page. The same content has the same bytes, so that validators hold."""

from pathlib import Path

from signal_feeds.publishing.feeds import atom, json_feed
from signal_feeds.publishing.files import Placed, place
from signal_feeds.publishing.page import index
from signal_feeds.publishing.records import MOST, Feed, Published, tag
from signal_feeds.store import SQL, Tx, one
from signal_feeds.texts import Language

__all__ = ["MOST", "Feed", "Placed", "Published", "approved", "atom", "feed_of", "index", "json_feed", "publish"]


def approved(tx: Tx, keep: bool, *, limit: int = MOST, offset: int = 0) -> list[Published]:
    """What is published, that which was decided last first.

    Approved revisions only. An entry that has changed is withdrawn until that is approved; with `keep` it stays in its
    approved form until that is decided, so that rejecting the change takes it out.
    """
    rows = tx.execute(SQL["approved"], {"keep": keep, "limit": limit, "offset": offset}).fetchall()
    return [Published._make(row) for row in rows]


def feed_of(tx: Tx, keep: bool, *, language: Language, title: str = "Signal", url: str | None = None) -> Feed:
    """Everything that the three forms are made of. `url`: where the files will be found, with a slash at its end."""
    (founded,) = one(tx, "founded")
    return Feed(tag("feed", str(founded)), title, language, url, tuple(approved(tx, keep)))


def publish(out: Path, feed: Feed) -> list[Placed]:
    """Write atom.xml, feed.json and index.html into a folder, made if only it is missing. Raises Unwritable.

    Each appears whole or not at all, none before all are on disk, and one that would be the same stays as it is.
    """
    return place(out, {"atom.xml": atom(feed), "feed.json": json_feed(feed), "index.html": index(feed)})
