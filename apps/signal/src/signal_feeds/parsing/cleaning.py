"""HTML that may be shown: nothing that runs, nothing that loads but images, no depth that hurts."""

import html
import re
from functools import lru_cache

import nh3

from signal_feeds.parsing.encoding import without_controls
from signal_feeds.urls import canonical_link

LONGEST = 1_000_000
"""Characters of one entry; what is over is cut off."""
MOST_REFERENCES = 50_000
"""Ampersands of one entry, the same: nh3 is quadratic in them too."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TAGS = _names(
    "a abbr article aside b bdi bdo blockquote br caption center cite code col colgroup dd del details dfn div dl "
    "dt em figcaption figure footer h1 h2 h3 h4 h5 h6 header hgroup hr i img ins kbd li main mark nav ol p pre q rp "
    "rt ruby s samp section small span strike strong sub summary sup table tbody td tfoot th thead time tr tt u ul "
    "var wbr"
)
_DROPPED = _names(
    "script style iframe object applet noscript noembed noframes template svg math select textarea title audio "
    "video canvas"
)
"""Tags that go with all that is in them."""
_ATTRIBUTES = {
    "*": {"dir", "lang", "title"},
    "a": {"href", "hreflang"},
    "img": {"src", "alt", "width", "height"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
    "ol": {"start", "reversed"},
    "li": {"value"},
    "time": {"datetime"},
}
# What is set whatever was there: an image is asked for late, and without telling where it is shown.
_SET = {"img": {"referrerpolicy": "no-referrer", "loading": "lazy"}}
_REL = "noopener noreferrer nofollow"

# nh3 is quadratic in depth, and in the formatting with attributes that is open when a block begins.
_LIGHT, _HEAVY, _PRODUCT = 400, 2_000, 100_000
_OPEN = re.compile(r"<[A-Za-z]")
_FORMATTING = re.compile(r"<(?:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)[\s/]", re.I)
_DEEPEST = 100
_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|iframe|noscript|noembed|noframes|template|textarea|title|xmp)\b.*?(?:</\1|\Z)"
    r"|<(/?)([A-Za-z][A-Za-z0-9]*)([^>]*)(?:>|\Z)|<",
    re.I | re.S,
)
_PLAIN_TAGS = _names("p div blockquote ul ol li pre h1 h2 h3 h4 h5 h6 dl dt dd b i em strong code a")
_ENDED_BY_NEXT = _names("p li dt dd a")
_URL = re.compile(r"""\s(?:href|src)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)

# Tags as nh3 writes them: lower case, values in double quotes.
_REST = r"""(?=[\s>])[^>"]*(?:"[^"]*"[^>"]*)*>"""
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|cite|code|del|dfn|em|i|img|ins|kbd|mark|q|rp|rt|ruby|s|samp|small|span|strike|strong|sub"
    rf"|sup|time|tt|u|var|wbr){_REST}"
)
_CELL_TAG = re.compile(rf"</?t[dh]{_REST}")
_BLOCK_TAG = re.compile(rf"</?[a-z][a-z0-9]*{_REST}")
# The references that nh3 writes; a no-break space is visible as a space.
_REFERENCES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&nbsp;", " "), ("&amp;", "&"))


def clean(source: str, base: str) -> str:
    """`source` as safe HTML, links and images resolved by `base`, an http or https URL or ''.

    >>> clean('<a href="/x" onclick="y()">z</a><script>w</script>', "https://example.org/a/")
    '<a href="https://example.org/x" rel="noopener noreferrer nofollow">z</a>'
    """
    if len(source) > LONGEST:
        source = source[:LONGEST]
    if source.count("&") > MOST_REFERENCES:
        source = "&".join(source.split("&", MOST_REFERENCES)[:MOST_REFERENCES])
    if source.count("<") > _LIGHT and _is_heavy(source):
        source = _rebuilt(source)
    return without_controls(_cleaner(base).clean(source))


def text_of(cleaned: str) -> str:
    """What is visible of what `clean` gave: one line for each block, single spaces, no empty lines.

    >>> text_of("<p>a <b>b</b>c<br>d</p>  <ul><li>1 &lt; 2</li></ul>")
    'a bc\\nd\\n1 < 2'
    """
    text = cleaned
    if "<" in text:
        text = _BLOCK_TAG.sub("\n", _CELL_TAG.sub(" ", _INLINE_TAG.sub("", text)))
    if "&" in text:
        for reference, character in _REFERENCES:
            text = text.replace(reference, character)
    return "\n".join(line for part in text.split("\n") if (line := " ".join(part.split())))


def plain(source: str) -> str:
    """HTML as text in one line, for titles."""
    if "<" not in source and "&" not in source:
        return " ".join(source.split())
    return " ".join(text_of(clean(source, "")).split())


def html_of(text: str) -> str:
    """Plain text as HTML: paragraphs and ends of lines."""
    parts = re.split(r"\n[ \t\r]*\n\s*", text.replace("\r\n", "\n").strip())
    return "".join(f"<p>{html.escape(part, quote=False).replace(chr(10), '<br>')}</p>" for part in parts if part)


@lru_cache(maxsize=64)
def _cleaner(base: str) -> nh3.Cleaner:
    sound = canonical_link(base) if base else None
    return nh3.Cleaner(
        tags=_TAGS,
        clean_content_tags=_DROPPED,
        attributes=_ATTRIBUTES,
        set_tag_attribute_values=_SET,
        url_schemes={"http", "https", "mailto"},
        url_relative=("rewrite_with_base", sound) if sound else "deny",
        link_rel=_REL,
    )


def _is_heavy(source: str) -> bool:
    """Whether it might keep nh3 busy. An upper bound: what no tokenizer would take for a tag counts too."""
    opened = len(_OPEN.findall(source))
    return opened > _HEAVY or opened * len(_FORMATTING.findall(source)) > _PRODUCT


def _rebuilt(source: str) -> str:
    """The same in a few tags without attributes but for URLs, well nested and at most _DEEPEST deep.

    What comes out has no comments, no raw text and no odd quotes in it: there is one way only to read it.
    """
    pieces, open_tags, at = list[str](), list[str](), 0
    for token in _TOKEN.finditer(source):
        pieces.append(_escaped(source[at : token.start()]))
        at = token.end()
        ends, name = token.group(2), (token.group(3) or "").lower()
        if token.group() == "<":
            pieces.append("&lt;")
        elif name in ("br", "hr"):
            pieces.append(f"<{name}>")
        elif name == "img" and not ends:
            pieces.append(f"<img{_url(token.group(4), 'src')}>")
        elif name not in _PLAIN_TAGS:
            pieces.append(" ")
        elif ends:
            while name in open_tags:
                pieces.append(f"</{open_tags[-1]}>")
                if open_tags.pop() == name:
                    break
        else:
            if name in _ENDED_BY_NEXT and open_tags and open_tags[-1] == name:
                pieces.append(f"</{open_tags.pop()}>")
            if len(open_tags) < _DEEPEST:
                open_tags.append(name)
                pieces.append(f"<{name}{_url(token.group(4), 'href') if name == 'a' else ''}>")
    pieces.append(_escaped(source[at:]))
    pieces += [f"</{name}>" for name in reversed(open_tags)]
    return "".join(pieces)


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _url(attributes: str, name: str) -> str:
    found = _URL.search(attributes)
    if found is None:
        return ""
    value = next(group for group in found.groups() if group is not None)
    return f' {name}="{html.escape(html.unescape(value))}"'
