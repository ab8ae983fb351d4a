"""What was approved as Atom and JSON Feed, the sources as OPML: documents with validators of their own."""

import hashlib
import re
import sqlite3
import threading
from collections.abc import Callable
from email.utils import formatdate, parsedate_to_datetime

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from signal_feeds import opml, publishing
from signal_feeds.errors import NotAFolder
from signal_feeds.store import SQL, Tx, sources_in
from signal_feeds.web.view import Site, log, rows


class Document:
    """A document that is made anew for each request, and told apart from what it was by its bytes."""

    def __init__(self, site: Site, media_type: str, make: Callable[[Site, Tx], bytes]) -> None:
        self.site, self.media_type, self.make = site, media_type, make
        self._known: tuple[str, int] = "", 0
        self._lock = threading.Lock()

    def endpoint(self, request: Request) -> Response:
        """GET and HEAD. 304 by If-None-Match, and only where there is none by If-Modified-Since (RFC 9110, 13.2.2)."""
        try:
            with rows(self.site.path) as tx:
                body = self.make(self.site, tx)
        except NotAFolder:
            return PlainTextResponse("There is no database here; make one by: signal init\n", 503)
        except sqlite3.Error as error:
            log.error("%s can't be read: %s", self.site.path, error)
            return PlainTextResponse("The database can't be read just now.\n", 503)
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        modified_s, now_s = self.modified_s(etag), self.site.now_ms() // 1000
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if modified_s <= now_s:
            headers["Last-Modified"] = formatdate(modified_s, usegmt=True)
        if self.is_known(request, etag, modified_s if modified_s <= now_s else None):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=self.media_type)

    def modified_s(self, etag: str) -> int:
        """From when on this content was served, in whole seconds.

        Entries are withdrawn too, so no time of theirs says when the document became what it is. It is known from
        when this server saw it first; the second in which it changed isn't over then, so it is the next one.
        """
        with self._lock:
            if self._known[0] != etag:
                self._known = etag, max(self.site.now_ms() // 1000, self._known[1]) + 1
            return self._known[1]

    def is_known(self, request: Request, etag: str, modified_s: int | None) -> bool:
        """Whether the client has this content already, as it says."""
        match = request.headers.get("if-none-match")
        if match is not None:
            return match.strip() == "*" or etag in re.findall(r'"[^"]*"', match)
        since = request.headers.get("if-modified-since")
        if since is None or modified_s is None:
            return False
        try:
            return parsedate_to_datetime(since).timestamp() >= modified_s
        except (ValueError, OverflowError):
            return False


def atom(site: Site, tx: Tx) -> bytes:
    """The published feed as Atom."""
    return publishing.atom(publishing.feed_of(tx, site.keep, language=site.language))


def json_feed(site: Site, tx: Tx) -> bytes:
    """The published feed as JSON Feed."""
    return publishing.json_feed(publishing.feed_of(tx, site.keep, language=site.language))


def outlines(site: Site, tx: Tx) -> bytes:
    """The sources as OPML."""
    return opml.write(sources_in(tx.execute(SQL["sources"], {})))
