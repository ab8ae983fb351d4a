"""One request to one source: conditional, bounded in time and size, and to no address that may not be dialled.

Every request is a GET on a connection of its own, which is closed after the answer: a host is asked twice an hour at
most. Nothing of one request is kept for another. Ports are free, as a request can't be made to say anything else.
"""

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import quote

import aiohttp
from aiohttp.http import StreamWriter
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from yarl import URL

from signal_feeds import urls
from signal_feeds.errors import BadSource
from signal_feeds.fetching import decoding
from signal_feeds.fetching.addresses import Gate, Network
from signal_feeds.fetching.freshness import fresh_s, retry_after_s
from signal_feeds.reasons import Failed, Reason, reason_of
from signal_feeds.records import Answer

TIMEOUT_S = 30.0
"""For everything together: names, redirects, headers, body."""
MOST_BYTES = 8 << 20
"""Of a body, packed and unpacked."""
HOPS = 5
HEADER_BYTES, HEADERS = 16_384, 256
"""Of one header, and how many."""
VALIDATOR_BYTES = 4_096
PERMANENT, REDIRECTS = (301, 308), (301, 302, 303, 307, 308)
ACCEPT = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml, "
    "application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.5"
)
_UNSENDABLE = re.compile(r"[^\x20-\x7e\x80-\xff]")
_CHECKED = re.compile(r"https?://[a-z0-9.-]+(?::[1-9][0-9]{0,4})?/[!$%-;=?-Z\[\]_a-z|~]{0,2000}")
"""URLs that urls.checked would leave as they are; nearly all. It takes as long as a tenth of a request."""


class Client:
    """Fetches; of one event loop. `contact`: a URL or an address for those who wonder who asks.

    `allow_net`: networks that may be dialled although they aren't global. `tls`: whom to trust, by default whom the
    system trusts. Nothing is open while nothing is fetched.
    """

    def __init__(
        self,
        *,
        contact: str = "",
        allow_net: Sequence[Network] = (),
        timeout_s: float = TIMEOUT_S,
        most_bytes: int = MOST_BYTES,
        tls: ssl.SSLContext | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._gate = Gate(allow_net)
        self._timeout_s, self._most_bytes, self._now_s = timeout_s, most_bytes, now_s
        self._tls: ssl.SSLContext | bool = True if tls is None else tls
        self._headers = {
            "User-Agent": agent(contact),
            "Accept": ACCEPT,
            "Accept-Encoding": decoding.ACCEPTED,
            "Connection": "close",
        }
        self._session: aiohttp.ClientSession | None = None
        self._running = 0

    async def fetch(self, url: str, *, etag: str | None = None, last_modified: str | None = None) -> Answer:
        """A 200 with its body or a 304. `etag`, `last_modified`: the validators of what is stored, as Answer had them.

        Raises Failed for everything else that a server or a network can do, TimeoutError, and BadSource for what isn't
        a URL.
        """
        given = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        validators = {name: value for name, value in given.items() if value is not None and _sendable(value)}
        self._running += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._follow(url if _CHECKED.fullmatch(url) else urls.checked(url), validators)
        finally:
            self._running -= 1
            if not self._running:
                await self.close()

    async def close(self) -> None:
        """Let go of everything. A later fetch begins anew."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _follow(self, url: str, validators: dict[str, str]) -> Answer:
        """Ask, and follow redirects."""
        passed, permanent = [url], True
        while True:
            response = await self._ask(url, validators)
            try:
                if response.status in REDIRECTS and (location := response.headers.get("Location", "").strip()):
                    permanent = permanent and response.status in PERMANENT
                    url = _next(url, location)
                    if url in passed or len(passed) > HOPS:
                        raise Failed("redirect_refused", status=response.status)
                    passed.append(url)
                    continue
                return await self._answer(response, url, url if permanent and len(passed) > 1 else None)
            finally:
                response.close()

    async def _ask(self, url: str, validators: dict[str, str]) -> aiohttp.ClientResponse:
        """One request, up to the end of the answer's headers."""
        if self._session is None:
            self._session = self._open()
        return await self._session.get(
            URL(url, encoded=True), headers=validators or None, allow_redirects=False, ssl=self._tls
        )

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=self._gate,
            socket_factory=self._gate.open,
            use_dns_cache=False,
            force_close=True,
            limit=0,
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
            max_headers=HEADERS,
            request_class=_Request,
            middlewares=(_once,),
        )

    async def _answer(self, response: aiohttp.ClientResponse, url: str, moved_to: str | None) -> Answer:
        status, headers = response.status, response.headers
        date, now_s = headers.get("Date"), int(self._now_s())
        if status not in (200, 304):
            after = retry_after_s(headers.get("Retry-After"), date, now_s)
            raise Failed(reason_of_status(status), status=status, retry_after_s=after)
        control = ",".join(headers.getall("Cache-Control", ()))
        return Answer(
            status=200 if status == 200 else 304,
            url=url,
            body=await self._body(response) if status == 200 else b"",
            content_type=_text(headers.get("Content-Type")) or "",
            etag=_validator(headers.get("ETag")),
            last_modified=_validator(headers.get("Last-Modified")),
            fresh_s=fresh_s(control, headers.get("Age"), headers.get("Expires"), date, now_s),
            moved_to=moved_to,
        )

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        """Decoded. Its size is looked at before it is read, and as it is read."""
        try:
            if response.content_length is not None and response.content_length > self._most_bytes:
                raise Failed("too_large")
            coding = ",".join(response.headers.getall("Content-Encoding", ()))
            body = decoding.Body(coding, self._most_bytes)
            async for data in response.content.iter_any():
                body.feed(data)
            return body.whole()
        except (Failed, aiohttp.ClientError) as error:
            raise Failed(reason_of(error), status=response.status) from error


class _Request(aiohttp.ClientRequest):
    """Writes its headers in latin-1, so that a validator goes back byte for byte; aiohttp would make UTF-8 of it."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        assert conn.protocol is not None
        writer = StreamWriter(conn.protocol, self.loop)
        lines = [f"{self.method} {self.url.raw_path_qs} HTTP/1.1", *map(": ".join, self.headers.items()), "", ""]
        await writer.write("\r\n".join(lines).encode("latin-1"))
        response = aiohttp.ClientResponse(
            self.method,
            self.original_url,
            writer=None,
            continue100=None,
            timer=self._timer,
            request_info=self.request_info,
            traces=self._traces,
            loop=self.loop,
            session=self._session,
            stream_writer=writer,
        )
        return response


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Makes an error one that aiohttp doesn't know: of its own it asks a server that hangs up again at once."""
    try:
        return await handler(request)
    except (aiohttp.ClientError, OSError) as error:
        raise Failed("too_large" if _headers_too_large(error) else reason_of(error)) from error


def _headers_too_large(error: BaseException | None) -> bool:
    """Whether that is at the root of it; of too many of them aiohttp says so by words alone."""
    while error is not None and not isinstance(error, LineTooLong):
        if isinstance(error, BadHttpMessage) and error.message.startswith("Too many"):
            break
        error = error.__cause__
    return error is not None


def _next(url: str, location: str) -> str:
    """Where a redirect leads. Raises Failed('redirect_refused')."""
    raw = location.encode("utf-8", "surrogateescape")
    try:
        target = urls.checked(urls.joined(url, quote(raw, safe="!#$%&'()*+,/:;=?@[]~")))
    except BadSource:
        raise Failed("redirect_refused") from None
    if url.startswith("https:") and not target.startswith("https:"):
        raise Failed("redirect_refused")
    return target


def reason_of_status(status: int) -> Reason:
    """Why an answer with this status is none: neither 200 nor 304."""
    by_status: dict[int, Reason] = {
        401: "http_auth",
        404: "http_missing",
        407: "http_auth",
        410: "http_gone",
        429: "http_throttled",
    }
    return by_status.get(status, "http_client" if 400 <= status < 500 else "http_server")


def agent(contact: str) -> str:
    """What User-Agent says; what may not stand there is percent-encoded."""
    try:
        number = version("nextdue-signal")
    except PackageNotFoundError:
        number = "0"
    written = quote(contact.strip(), safe="!#$%&'*+,/:;=?@[]~")
    return f"Signal/{number} (+{written})" if written else f"Signal/{number}"


def _text(value: str | None) -> str | None:
    """A header's value byte for byte, as latin-1; aiohttp reads them as UTF-8."""
    return None if value is None else value.encode("utf-8", "surrogateescape").decode("latin-1")


def _validator(value: str | None) -> str | None:
    text = _text(value)
    return text if text and _sendable(text) else None


def _sendable(value: str) -> bool:
    """Whether a validator can be sent back as it came."""
    return len(value) <= VALIDATOR_BYTES and not _UNSENDABLE.search(value)
