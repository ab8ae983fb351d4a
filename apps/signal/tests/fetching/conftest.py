"""A client that may dial this machine, and nothing else that isn't global."""

import asyncio
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

import pytest

from signal_feeds.fetching.client import Client
from signal_feeds.reasons import Failed
from signal_feeds.records import Answer

LOOPBACK = (IPv4Network("127.0.0.0/8"),)

Fetch = Callable[..., Answer]


@pytest.fixture
def fetch() -> Fetch:
    """Fetch a URL with a client of its own: `fetch(url, etag=..., client={"timeout_s": 1})`."""

    def run(url: str, *, client: dict[str, Any] | None = None, **validators: str | None) -> Answer:
        settings = {"contact": "https://example.org/bot", "allow_net": LOOPBACK, **(client or {})}
        return asyncio.run(Client(**settings).fetch(url, **validators))

    return run


@pytest.fixture
def fails(fetch: Fetch) -> Callable[..., Failed]:
    """The failure of a fetch, which is one of Failed."""

    def run(url: str, **options: Any) -> Failed:
        with pytest.raises(Failed) as caught:
            fetch(url, **options)
        return caught.value

    return run
