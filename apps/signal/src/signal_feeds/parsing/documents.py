"""A document before it is parsed: what it is, without what could do harm, and not more of it than is wanted."""

import re
from typing import NamedTuple

from signal_feeds.reasons import Failed

MOST_TAGS = 500_000
"""A tag costs the parser 10 us and up: a document with more of them is refused."""
_ROOT = re.compile(r"<((?:[A-Za-z_][\w.-]*:)?(?:rss|rdf|feed|channel))(?=[\s>/])", re.I)
# The same behind a warning of the web server, or within a page: there it has to say what it is.
_MISPLACED_ROOT = re.compile(r"<((?:[A-Za-z_][\w.-]*:)?(?:rss|rdf|feed))\s[^<>]{0,2000}?(?:version|xmlns)[^<>]*>", re.I)
_LOOK = 65_536
"""Characters in which a misplaced root is looked for."""
_SPACE = re.compile(r"\s*")
_ENTITY = re.compile(
    r"""<!ENTITY\s+([A-Za-z_][\w.-]{0,39})\s+(?:"([^"&%<]{0,20}|&#\w{1,8};)"|'([^'"&%<]{0,20})')\s*>"""
)
_MOST_ENTITIES = 300
_MARK = re.compile(r"<!\[CDATA\[|<!--|<(/?)(?:[A-Za-z_][\w.-]*:)?(?:item|entry)(?=[\s>/])", re.I)
# References to characters that XML doesn't have: both of feedparser's parsers stumble over them.
_BAD_REFERENCE = re.compile(
    r"&#(?:0*(?:[0-8]|1[124-9]|2\d|3[01]|5529[6-9]|55[3-9]\d\d|56\d{3}|57[0-2]\d\d|573[0-3]\d|5734[0-3]|6553[45]"
    r"|(?!0)(?:1114(?:11[2-9]|1[2-9]\d|[2-9]\d\d)|111[5-9]\d{3}|11[2-9]\d{4}|1[2-9]\d{5}|[2-9]\d{6}|\d{8,}))"
    r"|[xX]0*(?:[0-8bBcCeEfF]|1[\da-fA-F]|[dD][89a-fA-F][\da-fA-F]{2}|[fF]{3}[eEfF]"
    r"|(?!0)(?:1[1-9a-fA-F]|[2-9a-fA-F][\da-fA-F])[\da-fA-F]{4}|(?!0)[\da-fA-F]{7,}))(?:;|(?![\da-fA-F]))"
)


class Document(NamedTuple):
    """A feed in XML, ready for the parser: no declaration, no document type but for short entities."""

    text: str
    around: str
    """What is not in the entries, as far as there are skipHours or skipDays to be found."""
    cut: int
    """How many entries were left out."""


def is_json(text: str) -> bool:
    """Whether this is an object of JSON, if it is anything."""
    return text.lstrip()[:1] == "{"


def document(text: str, most: int) -> Document:
    """The feed in `text`, of at most `most` entries. Raises Failed: not_a_feed, too_large."""
    start, entities = _prolog(text)
    root = _ROOT.match(text, start) or _MISPLACED_ROOT.search(text, start, start + _LOOK)
    if root is None:
        raise Failed("not_a_feed")
    end = text.rfind(f"</{root.group(1)}")
    end = text.find(">", end) + 1 if end > 0 else 0
    body = text[root.start() : end or len(text)]
    if "&#" in body:
        body = _BAD_REFERENCE.sub("", body)
    body, around, cut = _cut(body, most)
    if body.count("<") > MOST_TAGS:
        raise Failed("too_large")
    return Document(_doctype(entities) + body, around, cut)


def _prolog(text: str) -> tuple[int, dict[str, str]]:
    """Where the declaration, comments and the document type end, and the harmless entities of the latter."""
    at, entities = 0, dict[str, str]()
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if text.startswith("<?", at):
            end = text.find("?>", at)
            length = 2
        elif text.startswith("<!--", at):
            end = text.find("-->", at)
            length = 3
        elif text[at : at + 9].upper() == "<!DOCTYPE":
            end, length = _doctype_end(text, at), 1
            for name, quoted, single in _ENTITY.findall(text[at : max(end, at)]):
                if len(entities) < _MOST_ENTITIES:
                    entities.setdefault(name, quoted or single)
        else:
            return at, entities
        if end < 0:
            return at, entities
        at = end + length


def _doctype_end(text: str, at: int) -> int:
    """The index of the '>' of a document type, -1: it has none."""
    close, subset = text.find(">", at), text.find("[", at)
    if subset < 0 or close < subset:
        return close
    inner = re.compile(r"\]\s*>").search(text, subset)
    return inner.end() - 1 if inner else -1


def _doctype(entities: dict[str, str]) -> str:
    if not entities:
        return ""
    lines = "\n".join(f'<!ENTITY {name} "{value}">' for name, value in entities.items())
    return f"<!DOCTYPE feed [\n{lines}\n]>\n"


def _cut(text: str, most: int) -> tuple[str, str, int]:
    """The text with its first `most` entries, what stands around all entries, how many were left out."""
    if text.count("<") <= most and "<skip" not in text:
        return text, "", 0  # nothing to be found: no need to look
    begin = over = end = None
    count = at = 0
    while (mark := _MARK.search(text, at)) is not None:
        at = mark.end()
        if mark.group(1) is None:
            close = text.find("]]>" if mark.group() == "<![CDATA[" else "-->", at)
            if close < 0:
                break
            at = close + 3
        elif mark.group(1):
            end = mark.start()
        else:
            count += 1
            begin = mark.start() if begin is None else begin
            over = mark.start() if count == most + 1 else over
    if begin is None:
        return text, text, 0
    after = len(text) if end is None else text.find(">", end) + 1 or len(text)
    around = text[:begin] + text[after:]
    if over is None:
        return text, around, 0
    return text[:over] + text[after:], around, count - most
