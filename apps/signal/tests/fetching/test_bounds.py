"""30 s in all, 8 MiB decoded, headers of a size: what a server can't take from us."""

import asyncio
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable

import pytest

from apps.signal.tests.behaviours import MIB, message
from apps.signal.tests.fetching.conftest import LOOPBACK, Fetch
from apps.signal.tests.server import Exchange, Server
from signal_feeds.fetching.client import MOST_BYTES, TIMEOUT_S, Client
from signal_feeds.reasons import Failed, reason_of

Fails = Callable[..., Failed]


def test_the_limits_are_those_of_the_rules() -> None:
    assert (TIMEOUT_S, MOST_BYTES) == (30, 8 << 20)


@pytest.mark.parametrize("path", ["/hang", "/drip/start", "/drip/headers", "/drip/body", "/drip/chunks"])
def test_the_deadline_is_for_everything(path: str, server: Server, fetch: Fetch) -> None:
    """A byte now and then doesn't lengthen it."""
    begun = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        fetch(server.url(path), client={"timeout_s": 0.4})
    assert 0.4 <= time.monotonic() - begun < 5
    assert reason_of(caught.value) == "timeout"


def test_redirects_share_the_deadline(server: Server, fetch: Fetch) -> None:
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.2)
        await exchange.send(message(302, headers={"Location": "/hang"}))

    server.put("/a", slow)
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        fetch(server.url("/a"), client={"timeout_s": 0.5})
    assert time.monotonic() - begun < 5
    assert [request.path for request in server.requests] == ["/a", "/hang"]


def test_names_share_the_deadline_and_hold_nobody_up(
    server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolver that hangs: the others go on, and the loop ends without waiting for it."""
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: release.wait(60) and [])

    async def many() -> list[object]:
        client = Client(allow_net=LOOPBACK, timeout_s=1)
        hanging = [client.fetch(f"http://name{number}.example/") for number in range(40)]
        return await asyncio.gather(*hanging, client.fetch(server.url("/feed/1")), return_exceptions=True)

    begun = time.monotonic()
    *hung, got = asyncio.run(many())
    assert time.monotonic() - begun < 20
    assert {type(error) for error in hung} == {TimeoutError}
    assert got.status == 200  # type: ignore[attr-defined]
    release.set()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity"])
def test_bombs_stop_early(coding: str, server: Server, fails: Fails) -> None:
    """Memory stays bounded whatever is unpacked: the limit, once in pieces, and what is in flight."""
    tracemalloc.start()
    try:
        failed = fails(server.url(f"/bomb/{coding}?mib=200"))
        # The server runs in this process too; a MiB is what it holds for a bomb, and 200 for br while it is made.
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (failed.reason, failed.status) == ("too_large", 200)
    if coding != "br":
        assert peak < 24 * MIB


def test_a_bomb_costs_no_more_than_the_limit(server: Server, fails: Fails) -> None:
    tracemalloc.start()
    try:
        assert fails(server.url("/bomb/gzip?mib=200"), client={"most_bytes": MIB}).reason == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_content_length_is_believed_at_once(server: Server, fails: Fails) -> None:
    """Nothing of it comes, and the answer is there before the deadline."""
    failed = fails(server.url(f"/claim?bytes={MOST_BYTES + 1}"))
    assert (failed.reason, failed.status) == ("too_large", 200)


def test_exactly_the_limit_is_read(server: Server, fetch: Fetch, fails: Fails) -> None:
    assert len(fetch(server.url(f"/long?bytes={MOST_BYTES}")).body) == MOST_BYTES
    assert fails(server.url(f"/long?bytes={MOST_BYTES + 1}")).reason == "too_large"


@pytest.mark.parametrize("query", ["bytes=100000", "bytes=1000000", "count=10000", "count=1000&bytes=900"])
def test_headers_have_a_limit(query: str, server: Server, fails: Fails) -> None:
    assert fails(server.url(f"/headers?{query}")).reason == "too_large"


@pytest.mark.parametrize("query", ["bytes=12000", "count=200", "count=100&bytes=500"])
def test_headers_that_are_only_many(query: str, server: Server, fetch: Fetch) -> None:
    assert fetch(server.url(f"/headers?{query}")).status == 200


def test_a_cancelled_fetch_lets_go(server: Server) -> None:
    async def cancelled() -> None:
        client = Client(allow_net=LOOPBACK)
        task = asyncio.create_task(client.fetch(server.url("/hang")))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancelled())
    until = time.monotonic() + 20
    while server.closed.total() < 1 and time.monotonic() < until:
        time.sleep(0.01)
    assert server.closed.total() == server.connections.total() == 1
