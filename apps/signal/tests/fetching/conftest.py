"""A client that may dial this machine, and nothing else that isn't global."""

import asyncio
import time
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

import pytest

from apps.signal.tests.server import Server
from signal_feeds.fetching.client import Client
from signal_feeds.reasons import Failed
from signal_feeds.records import Answer

LOOPBACK = (IPv4Network("127.0.0.0/8"),)

Fetch = Callable[..., Answer]


@pytest.fixture
def fetch(server: Server) -> Fetch:
    """Fetch a URL with a client of its own: `fetch(url, etag=..., client={"timeout_s": 1})`."""

    async def ask(url: str, settings: dict[str, Any], **validators: str | None) -> Answer:
        try:
            return await Client(**settings).fetch(url, **validators)
        finally:
            await all_closed(server)

    def run(url: str, *, client: dict[str, Any] | None = None, **validators: str | None) -> Answer:
        settings = {"contact": "https://example.org/bot", "allow_net": LOOPBACK, **(client or {})}
        return asyncio.run(ask(url, settings, **validators))

    return run


async def all_closed(server: Server) -> None:
    """TLS ends by words to and fro, for which a loop that ends with the fetch would have no time."""
    end = time.monotonic() + 5
    while server.closed != server.connections and time.monotonic() < end:
        await asyncio.sleep(0.001)
    for _ in range(10):  # what the server said last has come; it is read, and then the socket is closed
        await asyncio.sleep(0)


@pytest.fixture
def fails(fetch: Fetch) -> Callable[..., Failed]:
    """The failure of a fetch, which is one of Failed."""

    def run(url: str, **options: Any) -> Failed:
        with pytest.raises(Failed) as caught:
            fetch(url, **options)
        return caught.value

    return run
