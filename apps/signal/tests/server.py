"""A loopback HTTP server that misbehaves as it is told, for the tests and the bench of Signal.

It answers on every address 127.x.y.z of one port, so that a URL of each is a host of its own. What a path does is in
`behaviours.PATHS` (`/feed/20`, `/status/429?retry-after=60`, `/bomb/gzip`), or is given with `put`:

    with Server() as server:
        server.put("/mine", answer(b"<rss/>", etag='"1"'))
        fetch(server.url("/mine", "127.0.0.7"))
        assert server.seen("/mine")[0].header("if-none-match") is None

In the bench and where processes are killed it is one itself: `python -m apps.signal.tests.server [--port N] [--quick]`
prints a line of JSON with its ports and its log's URL, and ends when its standard input does. `/log` is what it saw.
"""

import argparse
import asyncio
import json
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import cached_property
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

import trustme

HEAD_AT_MOST = 1 << 20


class Request:
    """What came in. `head` is every byte up to the empty line."""

    def __init__(self, head: bytes, address: str, peer: tuple[str, int], connection: int, tls: bool) -> None:
        self.at = time.monotonic()
        self.head, self.address, self.peer, self.connection, self.tls = head, address, peer, connection, tls
        first = head[: head.find(b"\r\n")].decode("latin-1")
        self.method, _, rest = first.partition(" ")
        self.target = rest.rpartition(" ")[0]
        self.path, _, self._query = self.target.partition("?")

    @cached_property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self._query, keep_blank_values=True, encoding="latin-1"))

    @cached_property
    def headers(self) -> list[tuple[str, bytes]]:
        """In their order, names in lower case, values byte for byte."""
        lines = self.head.split(b"\r\n")[1:-2]
        pairs = (line.partition(b":") for line in lines)
        return [(name.decode("latin-1").lower(), value.strip(b" \t")) for name, _, value in pairs]

    def values(self, name: str) -> list[bytes]:
        return [value for given, value in self.headers if given == name.lower()]

    def header(self, name: str) -> bytes | None:
        return next(iter(self.values(name)), None)

    def as_json(self) -> dict[str, Any]:
        """As `/log` shows it."""
        head, fields = self.head.decode("latin-1"), ("at", "address", "connection", "tls", "method", "target", "path")
        return {**{field: getattr(self, field) for field in fields}, "head": head}


class Exchange:
    """One request and the way back. `number`: how many times this path of this address was asked, 1 is the first."""

    def __init__(self, server: "Server", connection: "_Connection", request: Request, number: int) -> None:
        self.server, self.request, self.number, self._connection = server, request, number, connection

    @property
    def open(self) -> bool:
        transport = self._connection.transport
        return transport is not None and not transport.is_closing()

    async def send(self, data: bytes) -> None:
        """Send and wait until there is room for more. A client that has gone is ConnectionError."""
        transport = self._connection.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        transport.write(data)
        await self._connection.writable.wait()
        await asyncio.sleep(0)

    def abort(self) -> None:
        """A reset instead of an end."""
        transport = self._connection.transport
        if transport is not None:
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            transport.abort()

    async def until_gone(self) -> None:
        """Wait until the client closes."""
        await self._connection.gone.wait()


Script = Callable[[Exchange], bytes | Awaitable[None]]
"""What a path does: gives all bytes of the answer, or is a coroutine that sends them and ends the connection."""


class _Connection(asyncio.Protocol):
    """One connection; requests on it one after the other."""

    def __init__(self, server: "Server", tls: bool) -> None:
        self.server, self.tls = server, tls
        self.transport: asyncio.Transport | None = None
        self.writable, self.gone = asyncio.Event(), asyncio.Event()
        self.writable.set()
        self._buffer = b""
        self._script: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.address = transport.get_extra_info("sockname")[0]
        self.peer = transport.get_extra_info("peername")[:2]
        if not self.address.startswith("127."):
            transport.abort()
            return
        self.server._open.add(self)
        self.server.connections[self.address] += 1
        self.number = self.server.number = self.server.number + 1

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        while self._script is None and (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head, self._buffer = self._buffer[: end + 4], self._buffer[end + 4 :]
            self._answer(Request(head, self.address, self.peer, self.number, self.tls))
        if self.transport is None:
            return
        if self._buffer.startswith(b"\x16\x03"):  # as real servers say to those who begin with TLS
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.transport.close()
        elif len(self._buffer) > HEAD_AT_MOST:
            self.transport.abort()

    def _answer(self, request: Request) -> None:
        assert self.transport is not None
        exchange = self.server._exchange(self, request)
        try:
            found = self.server._script(request)(exchange)
        except Exception as error:
            found = f"HTTP/1.1 500 {error!r}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode(
                "latin-1", "replace"
            )
        if isinstance(found, bytes):
            self.transport.write(found)
            if b"connection: close" in request.head.lower() or b"\r\nConnection: close" in found:
                self.transport.close()
        else:
            self._script = asyncio.ensure_future(self._run(found))

    async def _run(self, script: Awaitable[None]) -> None:
        try:
            await script
        except ConnectionError:
            pass
        finally:
            if self.transport is not None:
                self.transport.close()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.gone.set()
        self.writable.set()
        self.server._open.discard(self)
        self.server.closed[self.address] += 1


class Server:
    """The server, in a thread of its own from `with` on. `quick`: keep no log, for the bench."""

    def __init__(self, port: int = 0, *, quick: bool = False) -> None:
        self.requests: list[Request] = []
        self.connections: Counter[str] = Counter()
        """How many connections were opened, by address; `closed`: how many of them have ended; `number`: all."""
        self.closed: Counter[str] = Counter()
        self.number = 0
        self.times: Counter[tuple[str, str]] = Counter()
        """How many requests came, by address and path."""
        self.port, self.tls_port, self.quick = port, 0, quick
        self._scripts: dict[str | tuple[str, str], Script] = {}
        self._open: set[_Connection] = set()

    # for tests

    def url(self, path: str, address: str = "127.0.0.1", *, tls: bool = False) -> str:
        """The URL of a path on one of the addresses."""
        scheme, port = ("https", self.tls_port) if tls else ("http", self.port)
        return f"{scheme}://{address}:{port}{path}"

    def put(self, path: str, script: Script, address: str | None = None) -> None:
        """Give a path a script, on all addresses or one; the last one counts."""
        self._scripts[path if address is None else (address, path)] = script

    def seen(self, path: str | None = None, address: str | None = None) -> list[Request]:
        """The requests so far, in their order."""
        return [
            request
            for request in list(self.requests)
            if path in (None, request.path) and address in (None, request.address)
        ]

    @cached_property
    def authority(self) -> trustme.CA:
        """Who signed its certificate, which is for all of localhost, 127.0.0.1 and 127.0.0.2; nobody trusts it."""
        return trustme.CA()

    def trust(self) -> ssl.SSLContext:
        """A client's context that trusts it, and nobody else."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.authority.configure_trust(context)
        return context

    def trust_file(self) -> str:
        """A file for SSL_CERT_FILE, so that another process trusts it."""
        with tempfile.NamedTemporaryFile("wb", suffix=".pem", delete=False) as file:
            file.write(self.authority.cert_pem.bytes())
        return file.name

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started.set)), name="server")
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End it and every connection. Again: nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    # within its thread

    async def _serve(self, started: Callable[[], None]) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("localhost", "127.0.0.1", "127.0.0.2").configure_cert(context)
        listeners = [
            # All of 127.0.0.0/8, which no other wildcard says; what comes from elsewhere is dropped at once.
            await self._loop.create_server(lambda: _Connection(self, False), "0.0.0.0", self.port, backlog=4096),
            await self._loop.create_server(lambda: _Connection(self, True), "0.0.0.0", 0, backlog=4096, ssl=context),
        ]
        self.port, self.tls_port = (listener.sockets[0].getsockname()[1] for listener in listeners)
        started()
        await self._end.wait()
        for listener in listeners:
            listener.close()
        scripts = [connection._script for connection in self._open if connection._script is not None]
        for connection in list(self._open):
            if connection.transport is not None:
                connection.transport.abort()
        for script in scripts:
            script.cancel()
        await asyncio.gather(*scripts, return_exceptions=True)
        for _ in range(100):  # those in a handshake are no _Connection yet; they hear soon that the client is gone
            if not any(getattr(listener, "_active_count", 0) for listener in listeners):
                break
            await asyncio.sleep(0.01)

    def _exchange(self, connection: _Connection, request: Request) -> Exchange:
        if self.quick:
            return Exchange(self, connection, request, 1)
        self.requests.append(request)
        key = request.address, request.path
        self.times[key] += 1
        return Exchange(self, connection, request, self.times[key])

    def _script(self, request: Request) -> Script:
        from apps.signal.tests.behaviours import behaviour

        found = self._scripts.get((request.address, request.path)) or self._scripts.get(request.path)
        return found or behaviour(request.path)


def main() -> None:
    """The server as a process of its own, see above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="keep no log")
    options = parser.parse_args()
    with Server(options.port, quick=options.quick) as server:
        ports = {"port": server.port, "tls_port": server.tls_port, "log": server.url("/log")}
        print(json.dumps({**ports, "trust": server.trust_file()}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
