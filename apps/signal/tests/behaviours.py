"""What the test server's paths do. Give one to `Server.put` under any path, or use those of PATHS by their names.

/feed/20                 an RSS feed of 20 entries, with ETag and Last-Modified; 304 to those who send one back
/304                     'not modified' to everybody
/status/429              any status; ?retry-after=60 and other headers by their names
/redirect/301/3          three redirects (each to the next lower number), then /feed/1
/to?url=...&status=301   one redirect to any URL
/loop, /spin             two that lead to each other; one that leads to itself
/drip/headers            a header without end, a byte every 20 ms; /drip/body the same in the body; /drip/start
                         in the status line; /drip/chunks in chunks; ?every=0.02
/hang                    never a byte
/bomb/gzip               64 MiB of zeros, or ?mib=1000; gzip, deflate, br, identity (chunked)
/cut/gzip                a feed that ends in the middle, in a body of the right length; gzip, deflate, br, chunked,
/cut/length              or in one shorter than Content-Length
/encoded/gzip            a whole feed; gzip, deflate, raw-deflate, br, two-members, double, unknown, broken
/long?bytes=9000000      a body of so many bytes
/claim?bytes=9000000     says that it has so many, and sends none
/headers?count=10000     so many headers; ?bytes=100000 one so long
/garbage, /silence, /reset, /half    not HTTP; closes without a byte; a reset; closes within the headers
/cookie                  a feed that sets cookies
/log                     what was asked so far, as JSON, without itself
"""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import brotli  # type: ignore[import-untyped]

from apps.signal.tests.server import Exchange, Script

DAY = "Tue, 01 Dec 2026 00:00:00 GMT"
MIB = 1 << 20


@lru_cache(maxsize=64)
def feed(entries: int, name: str = "a feed", tag: str = "") -> bytes:
    """An RSS 2.0 document of so many entries; another `tag` makes them others."""
    items = "".join(
        f"<item><title>Entry {tag}{number} of {name}</title><link>https://example.org/{tag}{number}</link>"
        f"<guid>https://example.org/{tag}{number}</guid><pubDate>{DAY}</pubDate>"
        f"<description>&lt;p&gt;Text of {tag}{number}.&lt;/p&gt;</description></item>\n"
        for number in range(entries)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel>'
        f"<title>{name}</title><link>https://example.org/</link><description>made up</description>\n{items}"
        "</channel></rss>\n"
    ).encode()


def message(
    status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, length: int | None = None
) -> bytes:
    """A whole HTTP message; header values are latin-1. `length`: what Content-Length claims."""
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    if status in (204, 304) or status < 200:
        body = b""
    else:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def answer(body: bytes = b"", status: int = 200, **headers: str) -> Script:
    """Always the same: `answer(b'...', etag='"1"', retry_after='60')`."""
    whole = message(status, body, {"Content-Type": "application/rss+xml", **_names(headers)})
    return lambda exchange: whole


def raw(data: bytes) -> Script:
    """These bytes, and the end of the connection."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(data)

    return script


def conditional(body: bytes, **headers: str) -> Script:
    """A 200 with these headers; a 304 with them to who sends the ETag or, without one, the Last-Modified back."""
    named = _names(headers)
    full, same = message(200, body, {"Content-Type": "application/rss+xml", **named}), message(304, b"", named)
    etag, modified = (named.get(name, "").encode("latin-1") for name in ("Etag", "Last-Modified"))

    def script(exchange: Exchange) -> bytes:
        sent = exchange.request.header("if-none-match")
        if sent is not None:
            return same if etag and sent == etag else full
        return same if modified and exchange.request.header("if-modified-since") == modified else full

    return script


def in_turn(*scripts: Script) -> Script:
    """The first request to the first, and so on; the last one stays."""
    return lambda exchange: scripts[min(exchange.number, len(scripts)) - 1](exchange)


def redirect(status: int, to: str, **headers: str) -> Script:
    """To any URL, relative or not."""
    return answer(b"elsewhere", status, location=to, **headers)


def _names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-").title(): value for name, value in headers.items()}


# the paths


def _feed(exchange: Exchange, entries: str = "1", *words: str) -> bytes:
    return conditional(feed(int(entries)), etag=f'"of {entries}"', last_modified=DAY)(exchange)  # type: ignore[return-value]


_NOT_MODIFIED = message(304)


def _not_modified(exchange: Exchange, *words: str) -> bytes:
    return _NOT_MODIFIED


def _status(exchange: Exchange, status: str) -> bytes:
    return message(int(status), b"so it is", exchange.request.query)


def _redirects(exchange: Exchange, status: str, left: str) -> bytes:
    to = f"/redirect/{status}/{int(left) - 1}" if int(left) > 1 else "/feed/1"
    return message(int(status), b"", {"Location": to})


def _to(exchange: Exchange) -> bytes:
    query = exchange.request.query
    return message(int(query.get("status", "302")), b"", {"Location": query["url"]})


def _spin(exchange: Exchange, to: str = "/spin") -> bytes:
    return message(301, b"", {"Location": to})


async def _drip(exchange: Exchange, where: str) -> None:
    start, byte = {
        "start": (b"HTTP/1.1 200 ", b"O"),
        "headers": (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        "body": (message(200, length=MIB), b"x"),
        "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    }[where]
    await exchange.send(start)
    while exchange.open:
        await exchange.send(byte)
        await asyncio.sleep(float(exchange.request.query.get("every", "0.02")))


async def _hang(exchange: Exchange) -> None:
    await exchange.until_gone()


@lru_cache(maxsize=8)
def _bomb_parts(encoding: str, mib: int) -> tuple[bytes, bytes]:
    """What a bomb begins with, and what of it stands for each further MiB."""
    zeros = bytes(MIB)
    if encoding == "identity":
        return b"", zeros
    if encoding == "br":
        return brotli.compress(bytes(mib * MIB), quality=1), b""
    # After a full flush nothing refers to what was before: the same bytes again are the same MiB again.
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    first = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    return first, packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)


async def _bomb(exchange: Exchange, encoding: str) -> None:
    mib = int(exchange.request.query.get("mib", "64"))
    first, more = _bomb_parts(encoding, mib)
    await exchange.send(
        f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    for part in [first, *[more] * (mib - 1 if more else 0)]:
        if part:
            await exchange.send(b"%x\r\n%b\r\n" % (len(part), part))
    await exchange.send(b"0\r\n\r\n")


def encoded(body: bytes, how: str) -> tuple[str, bytes]:
    """The Content-Encoding, and the body in it; some are broken."""
    bare = zlib.compressobj(9, zlib.DEFLATED, -15)
    half = len(body) // 2
    ways: dict[str, Callable[[], tuple[str, bytes]]] = {
        "gzip": lambda: ("gzip", gzip.compress(body)),
        "x-gzip": lambda: ("x-gzip", gzip.compress(body)),
        "deflate": lambda: ("deflate", zlib.compress(body)),
        "raw-deflate": lambda: ("deflate", bare.compress(body) + bare.flush()),
        "br": lambda: ("br", brotli.compress(body)),
        "identity": lambda: ("identity", body),
        "two-members": lambda: ("gzip", gzip.compress(body[:half]) + gzip.compress(body[half:])),
        "double": lambda: ("gzip, gzip", gzip.compress(gzip.compress(body))),
        "unknown": lambda: ("zpaq", body),
        "broken": lambda: ("gzip", gzip.compress(body)[:20] + b"\xff" * 40),
        "plain": lambda: ("gzip", body),
        "padded": lambda: ("gzip", gzip.compress(body) + bytes(100)),
        "trailing": lambda: ("gzip", gzip.compress(body) + b"rubbish"),
        "checksum": lambda: ("gzip", gzip.compress(body)[:-8] + bytes(4) + len(body).to_bytes(4, "little")),
    }
    return ways[how]()


def _encoded(exchange: Exchange, how: str) -> bytes:
    coding, body = encoded(feed(20), how)
    return message(200, body, {"Content-Type": "application/rss+xml", "Content-Encoding": coding})


async def _cut(exchange: Exchange, how: str) -> None:
    if how == "length":
        await exchange.send(message(200, feed(20)[:1000], length=len(feed(20))))
    elif how == "chunked":
        await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n")
    else:
        coding, body = encoded(feed(20), how)
        await exchange.send(message(200, body[: len(body) * 2 // 3], {"Content-Encoding": coding}))


def _long(exchange: Exchange) -> bytes:
    return message(200, b"x" * int(exchange.request.query["bytes"]), {"Content-Type": "text/xml"})


async def _claim(exchange: Exchange) -> None:
    await exchange.send(message(200, length=int(exchange.request.query["bytes"])))
    await exchange.until_gone()


def _headers(exchange: Exchange) -> bytes:
    query = exchange.request.query
    count, length = int(query.get("count", "1")), int(query.get("bytes", "1"))
    return message(200, feed(1), {f"X-{number}": "x" * length for number in range(count)})


async def _silence(exchange: Exchange) -> None:
    return


async def _reset(exchange: Exchange) -> None:
    exchange.abort()


def _cookie(exchange: Exchange) -> bytes:
    body = feed(1)
    head = message(200, body, {"Set-Cookie": "a=1; Path=/", "set-cookie": "b=2; Domain=localhost; Path=/"})
    return head


def _log(exchange: Exchange) -> bytes:
    requests: list[Any] = [request.as_json() for request in exchange.server.seen() if request.path != "/log"]
    state = {"requests": requests, "connections": exchange.server.connections, "closed": exchange.server.closed}
    return message(200, json.dumps(state).encode(), {"Content-Type": "application/json", "Connection": "close"})


PATHS: dict[str, Callable[..., Any]] = {
    "feed": _feed,
    "304": _not_modified,
    "status": _status,
    "redirect": _redirects,
    "to": _to,
    "spin": _spin,
    "loop": lambda exchange, at="1": _spin(exchange, "/loop/2" if at == "1" else "/loop/1"),
    "drip": _drip,
    "hang": _hang,
    "bomb": _bomb,
    "encoded": _encoded,
    "cut": _cut,
    "long": _long,
    "claim": _claim,
    "headers": _headers,
    "garbage": raw(b"\x16\x03\x01 this is not HTTP\r\n\r\n"),
    "silence": _silence,
    "reset": _reset,
    "half": raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/x"),
    "cookie": _cookie,
    "log": _log,
}


@lru_cache(maxsize=100_000)
def behaviour(path: str) -> Script:
    """By the path's first word, the others are its arguments; 404 for one that isn't there."""
    word, *arguments = path.strip("/").split("/")
    found = PATHS.get(word)
    if found is None:
        return answer(b"nothing here", 404)
    return lambda exchange: found(exchange, *arguments)
