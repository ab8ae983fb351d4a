"""Lists of sources in OPML 2.0: read whatever is good of a file, write one that others read."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import count
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element
from xml.parsers import expat

from signal_feeds import urls
from signal_feeds.errors import BadSource, Unreadable
from signal_feeds.markup import add as element
from signal_feeds.markup import document
from signal_feeds.records import Source
from signal_feeds.store import SQL, Tx

LARGEST = 32 * 1024 * 1024
"""Bytes of a file."""
BATCH = 300
"""So many sources one transaction adds: others must not wait long for the write lock."""
LONGEST_NAME = 40
_NAMESPACE = "urn:nextdue:signal"


class Outline(NamedTuple):
    """A feed as a file lists it. `name`: what Signal called it that wrote the file."""

    line: int
    title: str
    url: str
    name: str


class Listed(NamedTuple):
    """What a file lists, and why nothing more could be read of it, "" if all was."""

    outlines: tuple[Outline, ...]
    broken: str


class Left(NamedTuple):
    """An outline that was left out, and why."""

    outline: Outline
    reason: BadSource


class Imported(NamedTuple):
    """The names of the new sources, and what was left out."""

    added: tuple[str, ...]
    left: tuple[Left, ...]


def read(data: bytes) -> Listed:
    """The feeds of a file, however deep they lie in its folders; what comes before a break where it is broken.

    A folder isn't a feed, and one without feeds isn't told of. Entities that a file declares mean nothing here, so
    that they can neither swell nor read other files. Raises Unreadable for a file that is too large.
    """
    if len(data) > LARGEST:
        raise Unreadable("file.large", most=f"{LARGEST:,}")
    found: list[Outline] = []
    reader = _Reader(found)
    try:
        reader.parse(_without_entities(_in_utf8(data)))
    except (expat.ExpatError, LookupError, ValueError) as error:
        return Listed(tuple(found), _why(error))
    return Listed(tuple(found), "" if reader.root == "opml" else f"not OPML: it begins with <{reader.root[:40]}>")


def add_all(
    begin: Callable[[], AbstractContextManager[Any]],
    add: Callable[[Tx, str, str], Source],
    outlines: Sequence[Outline],
) -> Imported:
    """Add what can be added, some hundreds in one transaction. `add(tx, url, name)` raises BadSource for what can't.

    Again with the same list: all are there already, and nothing changes.
    """
    added: list[str] = []
    left: list[Left] = []
    for at in range(0, len(outlines), BATCH):
        with begin() as tx:
            names = _Names(row[0] for row in tx.execute(SQL["names"], {}).fetchall())
            for outline in outlines[at : at + BATCH]:
                try:
                    source = add(tx, outline.url, names.free(outline))
                except BadSource as error:
                    left.append(Left(outline, error))
                    continue
                names.take(source.id)
                added.append(source.id)
                if outline.title:
                    tx.execute(SQL["entitle"], {"number": source.number, "title": outline.title})
    return Imported(tuple(added), tuple(left))


def write(sources: Iterable[Source]) -> bytes:
    """A file of the sources that are asked over the network and still declared; the same sources, the same bytes."""
    root = Element("opml", {"version": "2.0", "xmlns:signal": _NAMESPACE})
    element(element(root, "head"), "title", "Signal")
    body = element(root, "body")
    for source in sorted(sources, key=lambda source: source.id):
        if source.kind == "http" and not source.orphaned:
            title = source.title or source.id
            attributes = {"text": title, "title": title, "xmlUrl": source.url, "signal:name": source.id}
            element(body, "outline", type="rss", **attributes, **({"htmlUrl": source.site} if source.site else {}))
    return document(root)


class _Reader:
    """Collects outlines from the events of expat; nesting costs nothing."""

    def __init__(self, found: list[Outline]) -> None:
        self.found, self.root = found, ""

    def parse(self, data: bytes) -> None:
        self.expat = _parser()
        self.expat.StartElementHandler = self.start
        self.expat.Parse(data, True)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.root = self.root or tag.lower()
        if tag.lower() != "outline":
            return
        given = {name.lower(): value.strip() for name, value in attributes.items()}
        title = " ".join((given.get("text") or given.get("title") or "").split())
        # Some write url; one that says that it is a feed, and not where, is told of as such.
        is_feed = given.get("type", "").lower() in ("rss", "atom")
        url = given.get("xmlurl") or (given.get("url", "") if is_feed else given.get("xmlurl"))
        if url is not None:
            self.found.append(Outline(self.expat.CurrentLineNumber, title, url, given.get("signal:name", "")))


class _Names:
    """Names for new sources, from their titles or hosts; looked for in memory, for thousands may share a host."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self.next: dict[str, Iterator[int]] = {}

    def free(self, outline: Outline) -> str:
        """One that is free; a URL that is none is left for whoever checks it."""
        base = slug(outline.name) or slug(outline.title) or urls.readable(urls.host_of(outline.url)) or "feed"
        if base not in self.taken:
            return base
        numbers = self.next.setdefault(base, count(2))
        return next(name for name in (f"{base}-{number}" for number in numbers) if name not in self.taken)

    def take(self, name: str) -> None:
        self.taken.add(name)


def slug(title: str) -> str:
    """A name made of a title.

    >>> slug("The Old New Thing"), slug("C++ / v. 2.0"), slug("!")
    ('the-old-new-thing', 'c-v.-2.0', '')
    """
    words = re.sub(r"[^\w.]+", "-", title.lower()).strip("-._")
    return words[:LONGEST_NAME].strip("-._")


def _parser() -> expat.XMLParserType:
    parser = expat.ParserCreate()
    # As if there were a DTD elsewhere, which is never read: an entity that nobody declared is then left out, where it
    # would end the file. Lists in the wild have &nbsp; and &copy; in their titles.
    parser.UseForeignDTD(True)
    parser.ExternalEntityRefHandler = lambda *where: 1
    return parser


def _in_utf8(data: bytes) -> bytes:
    """UTF-16 in UTF-8, so that bytes can be cut out of it; anything else is left to expat."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16").lstrip()
        return re.sub(r"^<\?xml[^>]*\?>", "", text).encode()
    return data.lstrip()


class _End(Exception):
    """Enough was read."""


def _without_entities(data: bytes) -> bytes:
    """The document without the entities and defaults that its DOCTYPE declares. Raises ExpatError."""
    ends: list[int] = []
    parser = _parser()

    def note(*what: object) -> None:
        ends.append(parser.CurrentByteIndex)

    def stop(*what: object) -> None:
        raise _End

    parser.StartDoctypeDeclHandler = parser.EndDoctypeDeclHandler = note
    parser.StartElementHandler = stop
    with suppress(_End):
        parser.Parse(data, True)
    if len(ends) < 2:
        return data
    start, end = ends  # of [...], equal where there is none
    # Blanks and line ends, so that lines keep their numbers.
    return data[:start] + re.sub(rb"[^\n]", b" ", data[start:end]) + data[end:]


def _why(error: Exception) -> str:
    if isinstance(error, expat.ExpatError):
        return f"broken XML in line {error.lineno}: {expat.ErrorString(error.code)}"
    return f"unreadable: {error}"
