"""One request of a page: its language, its moment, the rows as they are in it, and how a page is drawn."""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from signal_feeds.errors import NotAFolder
from signal_feeds.reasons import WORDS
from signal_feeds.store import SQL, Store, Tx
from signal_feeds.texts import Language, say
from signal_feeds.web import times
from signal_feeds.web.language import chosen, preferred
from signal_feeds.web.safe import FOREIGN, safe
from signal_feeds.web.shown import brief, finished, web_link

log = logging.getLogger("signal.web")


class Site(NamedTuple):
    """What is served: the database, the lock of its worker, and how it is shown."""

    path: Path
    lock: Path
    language: Language = "en"
    keep: bool = False
    """Whether a changed entry stays published in its approved form."""
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


class View:
    """What a page needs while it is made. `tx` reads one state of the database, whoever writes meanwhile."""

    def __init__(self, site: Site, request: Request, tx: Tx | None) -> None:
        self.site, self.request, self._tx = site, request, tx
        self.chosen = chosen(request)
        self.lang: Language = self.chosen or preferred(request.headers.get("accept-language", ""), site.language)
        self.now = site.now_ms()

    @property
    def tx(self) -> Tx:
        """The rows."""
        assert self._tx is not None
        return self._tx

    def number(self, name: str, default: int) -> int:
        """A number of the query; `default` where it is none or none that SQLite could hold."""
        text = self.request.query_params.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else default

    def at(self, path: str, **query: object) -> str:
        """The address of another page, in the language that this one was asked for in."""
        asked = {name: value for name, value in query.items() if value not in (None, "", False)}
        if self.chosen:
            asked.setdefault("lang", self.chosen)
        return f"{path}?{urlencode(asked)}" if asked else path

    def other(self) -> str:
        """This page in the other language."""
        query = dict(self.request.query_params) | {"lang": "en" if self.lang == "ru" else "ru"}
        return f"{self.request.url.path}?{urlencode(query)}"

    def draw(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        html = PAGES.get_template(template).render(
            view=self,
            lang=self.lang,
            at=self.at,
            say=lambda key, **words: say(self.lang, key, **words),
            ago=lambda ms: moment(ms, times.ago(ms, self.now, self.lang)),
            ahead=lambda ms: moment(ms, times.ahead(ms, self.now, self.lang)),
            took=lambda ms: times.took(ms, self.lang),
            day=lambda ms: moment(ms, times.date(ms)),
            safe=lambda html: safe(html, self.lang),
            reason=lambda code: reason_words(code, self.lang),
            **values,
        )
        headers = {"Content-Language": self.lang, "Vary": "Accept-Language", "Cache-Control": "no-cache"}
        return HTMLResponse(html, status, headers)


def reason_words(reason: str, lang: Language) -> str:
    """Why an attempt failed; a newer Signal may have reasons that this one doesn't know."""
    words = next((words for code, words in WORDS.items() if code == reason), None)
    return reason if words is None else words.ru if lang == "ru" else words.en


def moment(ms: int, words: str) -> Markup:
    """The element for an instant."""
    return Markup('<time datetime="{}">{}</time>').format(times.iso(ms), words)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("signal_feeds.web"),
        autoescape=True,
        finalize=finished,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"brief": brief, "web_link": web_link}
    environment.globals["foreign"] = FOREIGN
    return environment


PAGES = _environment()


@contextmanager
def rows(path: Path) -> Iterator[Tx]:
    """One state of the database. Opened for each request, so that a file that was made or replaced is seen.

    Raises NotAFolder where there is none, or none with Signal's tables; sqlite3.Error if it can't be read.
    """
    store = Store(path)
    try:
        connection = store.connection()
        connection.execute("BEGIN")
        if connection.execute(SQL["installed"]).fetchone() is None:
            raise NotAFolder("folder.other", path=path)
        yield connection
    finally:
        store.close()


Page = Callable[[View], Response]


def page(site: Site, make: Page) -> Callable[[Request], Response]:
    """An endpoint: it runs in a thread, and says so in a page where there is nothing to read."""

    def endpoint(request: Request) -> Response:
        try:
            with rows(site.path) as tx:
                return make(View(site, request, tx))
        except NotAFolder:
            return View(site, request, None).draw("nothing.html", 503)
        except sqlite3.Error as error:
            log.error("%s can't be read: %s", site.path, error)
            return View(site, request, None).draw("unreadable.html", 503)

    return endpoint
