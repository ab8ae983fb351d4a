"""The HTML of entries as a page shows it: written anew from what is on a list, so that nothing else can be in it.

It was sanitised when it was stored. This is the second wall, and it decides what only a page can: no request to
anybody (an image is a link to it), no way out of its box (every element is closed), headings below the page's own,
tables that scroll by themselves, text in its own direction, control characters shown.
"""

import re
from html import escape
from html.parser import HTMLParser

from markupsafe import Markup

from signal_feeds.texts import Language, say
from signal_feeds.web.shown import shown, web_link

MOST = 400_000
"""So many characters of an entry are shown."""
DEEPEST = 60
VOID = {"br", "hr", "wbr", "col"}
BLOCKS = {"p", "div", "blockquote", "li", "dd", "dt", "ul", "ol", "dl", "figure", "figcaption", "table", "pre"}
ALLOWED = VOID | BLOCKS | {
    "a", "abbr", "b", "caption", "cite", "code", "colgroup", "del", "details", "dfn", "em", "i", "ins", "kbd", "mark",
    "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strong", "sub", "summary", "sup", "tbody", "td", "tfoot",
    "th", "thead", "tr", "tt", "u", "var",
}  # fmt: skip
HEADINGS = {"h1": "h3", "h2": "h3", "h3": "h4", "h4": "h5", "h5": "h6", "h6": "h6"}
SILENT = {"script", "style", "template", "noscript", "iframe", "object", "svg", "math", "title", "textarea", "select"}
"""What is in these isn't text that anybody should read."""
NUMBERS = {"td": ("colspan", "rowspan"), "th": ("colspan", "rowspan"), "ol": ("start",), "li": ("value",)}
_NUMBER = re.compile(r"-?[0-9]{1,3}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,3}")


def safe(html: str, lang: Language) -> Markup:
    """What a page may hold of an entry, in a language only where something is said of it (an image without a name)."""
    writer = _Writer(lang)
    writer.feed(html[:MOST])
    writer.close()
    writer.close_down_to(0)
    if len(html) > MOST:
        writer.out.append(f'<p class="note">{escape(say(lang, "web.entry.long"))}</p>')
    return Markup("".join(writer.out))


class _Writer(HTMLParser):
    def __init__(self, lang: Language) -> None:
        super().__init__(convert_charrefs=True)
        self.lang = lang
        self.out: list[str] = []
        self.open: list[str] = []
        self.silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in reversed(attrs)}
        if self.silent or tag in SILENT:
            self.silent += [tag] if tag in SILENT else []
            return
        if tag in ("img", "audio", "video"):
            self.picture(given)
            return
        tag = HEADINGS.get(tag, tag)
        # Browsers rebuild a link within a link, and elements nested deeper than anybody reads.
        if tag not in ALLOWED | set(HEADINGS.values()) or (tag == "a" and "a" in self.open) or len(self.open) > DEEPEST:
            return
        if tag == "table":
            self.out.append('<div class="wide" tabindex="0">')
        self.out.append(f"<{tag}{self.attributes(tag, given)}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self.silent:
            if tag in self.silent:
                del self.silent[self.silent.index(tag) :]
            return
        tag = HEADINGS.get(tag, tag)
        if tag in self.open:
            self.close_down_to(len(self.open) - 1 - self.open[::-1].index(tag))

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.out.append(escape(shown(data)))

    def close_down_to(self, depth: int) -> None:
        while len(self.open) > depth:
            tag = self.open.pop()
            self.out.append(f"</{tag}></div>" if tag == "table" else f"</{tag}>")

    def picture(self, given: dict[str, str]) -> None:
        """A link to it in its place: loading it would tell its publisher who reads this, and when."""
        name = given.get("alt") or given.get("title")
        words = escape(
            shown(f"{say(self.lang, 'web.entry.image')}: {name}" if name else say(self.lang, "web.entry.image"))
        )
        url = web_link(given.get("src"))
        if url is None or "a" in self.open:
            self.out.append(f'<span class="picture">{words}</span>')
        else:
            self.out.append(f'<a class="picture" rel="{FOREIGN}" href="{escape(shown(url))}">{words}</a>')

    def attributes(self, tag: str, given: dict[str, str]) -> str:
        kept: dict[str, str] = {}
        if tag in BLOCKS or tag.startswith("h"):
            kept["dir"] = "auto"
        if given.get("dir", "").lower() in ("ltr", "rtl", "auto"):
            kept["dir"] = given["dir"].lower()
        if _LANGUAGE.fullmatch(given.get("lang", "")):
            kept["lang"] = given["lang"]
        if tag == "a":
            url = web_link(given.get("href"))
            kept |= {"rel": FOREIGN, "href": shown(url)} if url else {}
        for name in NUMBERS.get(tag, ()):
            if _NUMBER.fullmatch(given.get(name, "")):
                kept[name] = given[name]
        if tag in ("a", "abbr", "dfn") and given.get("title"):
            kept["title"] = shown(given["title"])
        return "".join(f' {name}="{escape(value)}"' for name, value in kept.items())


FOREIGN = "noreferrer noopener nofollow"
"""rel of all links that lead out."""
