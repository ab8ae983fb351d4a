"""The page: what is approved, readable alone, in light and dark, without scripts."""

from html import escape

from signal_feeds.markup import outgoing
from signal_feeds.publishing.records import Feed, Published, rfc3339
from signal_feeds.texts import Language, say

SHORT = 600
"""So many characters of an entry's text are shown, the whole of one without a link."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1a; --paper: #fdfdfb; --faint: #5f5f58; --line: #dcdcd4; --link: #0b57a4 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e0; --paper: #171716; --faint: #a3a39a; --line: #3a3a36; --link: #8ab8f0 }
}
body { max-width: 42rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; color: var(--ink); background: var(--paper);
  font: 1.0625rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.2rem; line-height: 1.3; margin: 0 }
a { color: var(--link) }
article { padding: 1.25rem 0; border-top: 1px solid var(--line) }
article p { margin: .5rem 0 0; white-space: pre-line }
.about { color: var(--faint); font-size: .9rem; margin: .25rem 0 1.5rem }
article .about { margin: .25rem 0 0 }
"""
PAGE = """<!doctype html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="alternate" type="application/atom+xml" href="atom.xml" title="{title}">
<link rel="alternate" type="application/feed+json" href="feed.json" title="{title}">
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p class="about">{about} · <a href="atom.xml">Atom</a> · <a href="feed.json">JSON Feed</a></p>
</header>
<main>
{entries}
</main>
</body>
</html>
"""


def index(feed: Feed) -> bytes:
    """The feed as one page of its own."""
    lang = feed.language
    entries = "\n".join(_article(entry, lang) for entry in feed.entries) or f"<p>{escape(say(lang, 'page.none'))}</p>"
    about = say(lang, "page.about", count=len(feed.entries))
    return PAGE.format(
        lang=escape(lang), title=_text(feed.title), style=STYLE, about=escape(about), entries=entries
    ).encode()


def _article(entry: Published, lang: Language) -> str:
    title = escape(outgoing(entry.title).strip() or say(lang, "page.untitled"))
    heading = f'<a href="{_text(entry.link)}" rel="noopener">{title}</a>' if entry.link else title
    when = rfc3339(entry.published)
    by = " · ".join(dict.fromkeys(filter(None, (entry.source_name, entry.author))))
    text = f'<p dir="auto">{_text(shortened(entry.text) if entry.link else entry.text.strip())}</p>\n'
    return (
        f'<article>\n<h2 dir="auto">{heading}</h2>\n'
        f'<p class="about"><time datetime="{when}">{when[:10]}</time> · <bdi>{_text(by)}</bdi></p>\n{text}</article>'
    )


def shortened(text: str) -> str:
    """The beginning of a text, up to a word's end.

    >>> shortened("one two"), shortened("word " * 200)[-7:]
    ('one two', 'd word…')
    """
    text = text.strip()
    if len(text) <= SHORT:
        return text
    head, _, _ = text[:SHORT].rpartition(" ")
    return f"{(head or text[:SHORT]).rstrip()}…"


def _text(text: str) -> str:
    return escape(outgoing(text))
