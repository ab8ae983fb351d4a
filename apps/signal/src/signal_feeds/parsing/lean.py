"""feedparser without what takes the square of a document's size: tags that nobody reads, and a search in authors."""

from typing import Any

import feedparser.api
import feedparser.mixin

from signal_feeds.parsing.drafts import LONGEST_AUTHOR

_mixin: Any = feedparser.mixin._FeedParserMixin
_sync_author_detail = _mixin._sync_author_detail


def _short_author(parser: Any, key: str = "author") -> None:
    """A long one is cut before an address is looked for in it: for 8 KB without one that took 20 s."""
    context = parser._get_context()
    author = context.get(key)
    if isinstance(author, str):
        context[key] = author[:LONGEST_AUTHOR]
    _sync_author_detail(parser, key)


def _no_tag(parser: Any, *ignored: Any) -> None:
    """Each was compared with all before it. The list itself is looked at when a category ends."""
    parser._get_context().setdefault("tags", [])


def install() -> None:
    """From now on, in this process."""
    feedparser.api.PREFERRED_XML_PARSERS[:] = ["signal_feeds.parsing.sax"]
    _mixin._add_tag = _no_tag
    _mixin._sync_author_detail = _short_author
