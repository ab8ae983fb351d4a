"""The option to honour robots.txt: off by default; on, a source that it forbids isn't asked."""

import asyncio
from collections.abc import Callable

import pytest

from apps.signal.tests.behaviours import answer, in_turn
from apps.signal.tests.fetching.conftest import LOOPBACK, Fetch
from apps.signal.tests.server import Server
from signal_feeds.fetching.client import Client
from signal_feeds.reasons import Failed

Fails = Callable[..., Failed]

ON = {"robots": True}
FORBIDS = answer(b"User-agent: Signal\nDisallow: /feed\n\nUser-agent: *\nDisallow:\n")


def paths(server: Server) -> list[str]:
    return [request.path for request in server.requests]


def test_off_by_default(server: Server, fetch: Fetch) -> None:
    server.put("/robots.txt", FORBIDS)
    assert fetch(server.url("/feed/1")).status == 200
    assert paths(server) == ["/feed/1"]


def test_what_it_forbids_is_not_asked(server: Server, fetch: Fetch, fails: Fails) -> None:
    server.put("/robots.txt", FORBIDS)
    assert fails(server.url("/feed/1"), client=ON).reason == "robots"
    assert paths(server) == ["/robots.txt"]
    assert fetch(server.url("/304"), client=ON).status == 304


def test_all_robots_are_meant(server: Server, fails: Fails) -> None:
    server.put("/robots.txt", answer(b"user-agent: *\ndisallow: /\n"))
    assert fails(server.url("/feed/1"), client=ON).reason == "robots"


def test_other_robots_are_not_us(server: Server, fetch: Fetch) -> None:
    server.put("/robots.txt", answer(b"User-agent: Greedy\nDisallow: /\n"))
    assert fetch(server.url("/feed/1"), client=ON).status == 200


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_no_file_forbids_nothing(status: int, server: Server, fetch: Fetch) -> None:
    server.put("/robots.txt", answer(b"User-agent: *\nDisallow: /\n", status))
    assert fetch(server.url("/feed/1"), client=ON).status == 200


@pytest.mark.parametrize(("status", "reason"), [(500, "http_server"), (503, "http_server"), (429, "http_throttled")])
def test_if_it_cannot_be_had_nobody_knows(status: int, reason: str, server: Server, fails: Fails) -> None:
    server.put("/robots.txt", answer(b"", status, retry_after="60"))
    failed = fails(server.url("/feed/1"), client=ON)
    assert (failed.reason, failed.retry_after_s) == (reason, 60)
    assert paths(server) == ["/robots.txt"]


@pytest.mark.parametrize("body", [b"", b"<html>no</html>", b"\xff\xfe\x00", b"Disallow: /\n", b":\n" * 1000])
def test_nonsense_forbids_nothing(body: bytes, server: Server, fetch: Fetch) -> None:
    server.put("/robots.txt", answer(body))
    assert fetch(server.url("/feed/1"), client=ON).status == 200


def test_the_target_of_a_redirect_is_asked_for_too(server: Server, fails: Fails) -> None:
    server.put("/robots.txt", answer(b"User-agent: *\nDisallow: /\n"), "127.0.0.2")
    server.put("/a", answer(b"", 302, location=server.url("/feed/1", "127.0.0.2")))
    assert fails(server.url("/a"), client=ON).reason == "robots"
    assert [(request.address, request.path) for request in server.requests] == [
        ("127.0.0.1", "/robots.txt"), ("127.0.0.1", "/a"), ("127.0.0.2", "/robots.txt"),
    ]  # fmt: skip


def test_it_is_asked_for_once_a_day(server: Server) -> None:
    now = [0.0]
    server.put("/robots.txt", in_turn(answer(b""), FORBIDS))

    async def days() -> None:
        client = Client(allow_net=LOOPBACK, robots=True, now_s=lambda: now[0])
        for now[0] in (0.0, 1.0, 86_399.0):
            await client.fetch(server.url("/feed/1"))
        now[0] = 86_400.0
        with pytest.raises(Failed, match="robots"):
            await client.fetch(server.url("/feed/1"))

    asyncio.run(days())
    assert paths(server) == ["/robots.txt", "/feed/1", "/feed/1", "/feed/1", "/robots.txt"]


def test_it_shares_the_deadline(server: Server, fetch: Fetch) -> None:
    server.put("/robots.txt", lambda exchange: exchange.until_gone())
    with pytest.raises(TimeoutError):
        fetch(server.url("/feed/1"), client={**ON, "timeout_s": 0.3})
