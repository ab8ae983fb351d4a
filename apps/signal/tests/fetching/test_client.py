"""What is sent, what comes of each answer: SIGNAL's rules for a well-behaved poller."""

import asyncio
import time
from collections.abc import Callable

import pytest

from apps.signal.tests.behaviours import DAY, answer, conditional, feed, in_turn, message, raw
from apps.signal.tests.fetching.conftest import LOOPBACK, Fetch
from apps.signal.tests.server import Server
from signal_feeds.errors import BadSource
from signal_feeds.fetching.client import Client, agent
from signal_feeds.reasons import Failed

Fails = Callable[..., Failed]


# what is sent


def test_the_whole_request_is_known(server: Server, fetch: Fetch) -> None:
    """Acceptance 6, 7 and 8: no cookie, no Referer, nothing that nobody asked for."""
    fetch(server.url("/feed/1?b=%7E&a=%2F", "127.0.0.9"), etag='"1"', last_modified=DAY)
    assert server.requests[0].head.decode("latin-1").split("\r\n") == [
        "GET /feed/1?b=%7E&a=%2F HTTP/1.1",
        f"Host: 127.0.0.9:{server.port}",
        f"User-Agent: {agent('https://example.org/bot')}",
        "Accept: application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml, "
        "application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.5",
        "Accept-Encoding: gzip, deflate, br",
        "Connection: close",
        'If-None-Match: "1"',
        f"If-Modified-Since: {DAY}",
        "",
        "",
    ]


def test_the_agent_is_honest() -> None:
    assert agent("https://example.org/bot").startswith("Signal/")
    assert agent("https://example.org/bot").endswith(" (+https://example.org/bot)")
    assert "(" not in agent("")
    assert agent("a\r\nEvil: 1 (é)").endswith("(+a%0D%0AEvil:%201%20%28%C3%A9%29)")


def test_the_first_request_is_unconditional(server: Server, fetch: Fetch) -> None:
    fetch(server.url("/feed/1"))
    assert server.requests[0].header("if-none-match") is None
    assert server.requests[0].header("if-modified-since") is None


def test_no_cookies_ever(server: Server, fetch: Fetch) -> None:
    """Acceptance 6: neither to the next request of the same client nor along a redirect."""
    server.put("/a", answer(b"", 302, location="/cookie", set_cookie="c=3; Path=/"))

    async def twice() -> None:
        client = Client(allow_net=LOOPBACK)
        await client.fetch(server.url("/a", "127.0.0.1"))
        await client.fetch(server.url("/a", "127.0.0.1"))

    asyncio.run(twice())
    assert len(server.requests) == 4
    assert all(request.header("cookie") is None for request in server.requests)


def test_no_referer_and_no_fragment(server: Server, fetch: Fetch) -> None:
    answered = fetch(server.url("/to?url=/feed/1%23part#top"))
    assert [request.target for request in server.requests] == ["/to?url=/feed/1%23part", "/feed/1"]
    assert all(request.header("referer") is None for request in server.requests)
    assert answered.url == server.url("/feed/1")


def test_user_names_are_refused(server: Server, fetch: Fetch, fails: Fails) -> None:
    with pytest.raises(BadSource):
        fetch(f"http://me:secret@127.0.0.1:{server.port}/feed/1")
    assert fails(server.url(f"/to?url=http://me:x@127.0.0.1:{server.port}/feed/1")).reason == "redirect_refused"
    assert len(server.requests) == 1


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/a", "file:///etc/passwd", "127.0.0.1/a", ""])
def test_only_http(url: str, fetch: Fetch) -> None:
    with pytest.raises(BadSource):
        fetch(url)


# validators


@pytest.mark.parametrize(
    ("name", "etag"),
    [
        ("plain", b'"abc"'),
        ("weak", b'W/"abc"'),
        ("unquoted", b"abc-1 2"),
        ("latin-1", b'"\xe9\xff\x80"'),
        ("utf-8", '"лента"'.encode()),
        ("gzip", b'"abc-gzip"'),
        ("quotes", b'"a\\"b", "c"'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_etag_goes_back_byte_for_byte(name: str, etag: bytes, server: Server, fetch: Fetch) -> None:
    server.put("/x", conditional(b"body", etag=etag.decode("latin-1")))
    first = fetch(server.url("/x"))
    second = fetch(server.url("/x"), etag=first.etag, last_modified=first.last_modified)
    assert server.requests[1].header("if-none-match") == etag
    assert (second.status, second.body) == (304, b"")


@pytest.mark.parametrize("date", [DAY, "yesterday", "2026-12-01T00:00:00Z", "Di, 1. Dez 2026 \xe9"])
def test_a_last_modified_goes_back_byte_for_byte(date: str, server: Server, fetch: Fetch) -> None:
    server.put("/x", conditional(b"body", last_modified=date))
    first = fetch(server.url("/x"))
    assert (first.etag, first.last_modified) == (None, date)
    assert fetch(server.url("/x"), last_modified=first.last_modified).status == 304
    assert server.requests[1].header("if-modified-since") == date.encode("latin-1")


def test_both_validators_if_both_came(server: Server, fetch: Fetch) -> None:
    first = fetch(server.url("/feed/3"))
    fetch(server.url("/feed/3"), etag=first.etag, last_modified=first.last_modified)
    assert server.requests[1].header("if-none-match") == b'"of 3"'
    assert server.requests[1].header("if-modified-since") == DAY.encode()


def test_a_200_replaces_them_even_if_the_body_is_equal(server: Server, fetch: Fetch) -> None:
    server.put("/x", in_turn(answer(b"same", etag='"1"'), answer(b"same", etag='"2"')))
    assert [fetch(server.url("/x"), etag='"0"').etag for _ in range(2)] == ['"1"', '"2"']


@pytest.mark.parametrize("value", ["a\rb", "a\nX: 1", "a\x00b", "a\x7f", "a\tb", "a" * 5000, "a\u0430", ""])
def test_validators_that_cannot_be_sent_are_dropped(value: str, server: Server, fetch: Fetch) -> None:
    """From a database that somebody else wrote to."""
    fetch(server.url("/feed/1"), etag=value, last_modified=value)
    assert server.requests[0].header("x") is None
    assert not server.requests[0].header("if-none-match")
    assert not server.requests[0].header("if-modified-since")


@pytest.mark.parametrize("value", [b"a\tb", b"a" * 5000, b""])
def test_validators_that_cannot_be_sent_are_not_kept(value: bytes, server: Server, fetch: Fetch) -> None:
    server.put("/x", raw(b"HTTP/1.1 200 OK\r\nETag: " + value + b"\r\nLast-Modified: " + value + b"\r\n\r\nbody"))
    got = fetch(server.url("/x"))
    assert (got.body, got.etag, got.last_modified) == (b"body", None, None)


# answers


def test_a_200(server: Server, fetch: Fetch) -> None:
    got = fetch(server.url("/feed/2", "127.1.2.3"))
    assert (got.status, got.url, got.body) == (200, server.url("/feed/2", "127.1.2.3"), feed(2))
    assert (got.content_type, got.etag, got.last_modified) == ("application/rss+xml", '"of 2"', DAY)
    assert (got.fresh_s, got.moved_to) == (0, None)


def test_a_304_with_hints_and_without_a_question(server: Server, fetch: Fetch) -> None:
    server.put("/x", answer(b"", 304, cache_control="max-age=7200", etag='"9"'))
    got = fetch(server.url("/x"))
    assert (got.status, got.body, got.fresh_s, got.etag) == (304, b"", 7200, '"9"')


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "http_auth"), (407, "http_auth"), (403, "http_client"), (404, "http_missing"), (410, "http_gone"),
        (429, "http_throttled"), (400, "http_client"), (418, "http_client"), (451, "http_client"),
        (499, "http_client"), (500, "http_server"), (503, "http_server"), (599, "http_server"), (999, "http_server"),
        (201, "http_server"), (204, "http_server"), (206, "http_server"), (300, "http_server"), (301, "http_server"),
        (302, "http_server"), (305, "http_server"),
    ],
)  # fmt: skip
def test_every_other_status_has_a_reason(status: int, reason: str, server: Server, fails: Fails) -> None:
    failed = fails(server.url(f"/status/{status}"))
    assert (failed.reason, failed.status, failed.retry_after_s) == (reason, status, None)
    assert len(server.requests) == 1


def test_a_switch_of_protocols_is_none(server: Server, fails: Fails) -> None:
    server.put("/x", raw(b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"))
    assert fails(server.url("/x")).reason == "http_server"


def test_a_hint_before_the_answer_is_no_answer(server: Server, fetch: Fetch) -> None:
    server.put("/x", raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + message(200, b"body")))
    assert fetch(server.url("/x")).body == b"body"


@pytest.mark.parametrize("status", [429, 503, 404, 301, 403, 500])
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120), ("0", 0), ("Tue, 01 Dec 2026 00:02:00 GMT", 120), ("-5", None), ("soon", None), ("1.5", None),
        ("Mon, 30 Nov 2026 00:00:00 GMT", None), ("99999999999999999999", 2**31 - 1),
    ],
)  # fmt: skip
def test_retry_after_on_any_error(status: int, header: str, seconds: int | None, server: Server, fails: Fails) -> None:
    server.put("/x", answer(b"", status, retry_after=header, date=DAY))
    assert fails(server.url("/x")).retry_after_s == seconds


def test_retry_after_is_measured_by_our_clock_without_a_date(server: Server, fails: Fails) -> None:
    server.put("/x", answer(b"", 503, retry_after="Tue, 01 Dec 2026 01:00:00 GMT"))
    midnight = 1_796_083_200.0
    assert fails(server.url("/x"), client={"now_s": lambda: midnight}).retry_after_s == 3600


@pytest.mark.parametrize("path", ["/silence", "/reset", "/half"])
def test_who_hangs_up_is_asked_once(path: str, server: Server, fails: Fails) -> None:
    """No faster retry after an error; aiohttp would ask again at once."""
    assert fails(server.url(path)).reason == "connect"
    assert len(server.requests) == 1


def test_what_is_not_http(server: Server, fails: Fails) -> None:
    assert fails(server.url("/garbage")).reason == "http_server"
    assert len(server.requests) == 1


def test_nobody_listens(server: Server, fails: Fails) -> None:
    url = server.url("/feed/1")
    server.close()
    assert fails(url).reason == "connect"


@pytest.mark.parametrize("host", ["nothing.invalid", "a" * 64 + ".invalid", "a..b"])
def test_a_name_that_leads_nowhere(host: str, fetch: Fetch) -> None:
    with pytest.raises((Failed, BadSource)) as caught:
        fetch(f"http://{host}/feed")
    assert isinstance(caught.value, BadSource) or getattr(caught.value, "reason", None) == "dns"


# redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status: int, server: Server, fetch: Fetch) -> None:
    got = fetch(server.url(f"/redirect/{status}/5"), etag='"of 1"')
    assert (got.status, got.url, len(server.requests)) == (304, server.url("/feed/1"), 6)
    assert got.moved_to == (server.url("/feed/1") if status in (301, 308) else None)
    assert all(request.method == "GET" for request in server.requests)


def test_five_hops_at_most(server: Server, fails: Fails) -> None:
    failed = fails(server.url("/redirect/301/6"))
    assert (failed.reason, failed.status, len(server.requests)) == ("redirect_refused", 301, 6)


def test_moved_only_if_all_are_permanent(server: Server, fetch: Fetch) -> None:
    server.put("/a", answer(b"", 301, location="/b"))
    server.put("/b", answer(b"", 302, location="/c"))
    server.put("/c", answer(b"", 308, location="/feed/1"))
    assert fetch(server.url("/a")).moved_to is None
    assert fetch(server.url("/c")).moved_to == server.url("/feed/1")
    assert fetch(server.url("/feed/1")).moved_to is None


@pytest.mark.parametrize(("path", "requests"), [("/spin", 1), ("/loop/1", 2)])
def test_loops_are_seen_at_once(path: str, requests: int, server: Server, fails: Fails) -> None:
    assert fails(server.url(path)).reason == "redirect_refused"
    assert len(server.requests) == requests


@pytest.mark.parametrize(
    "location",
    ["ftp://127.0.0.1/x", "file:///etc/passwd", "javascript:alert(1)", "data:text/xml,<rss/>", "http://", "http:///x",
     "http://a b/", "http://[::1/", "http://127.0.0.1:99999/", "//user:x@127.0.0.1/"],
)  # fmt: skip
def test_redirects_to_nowhere(location: str, server: Server, fails: Fails) -> None:
    server.put("/x", answer(b"", 302, location=location))
    assert fails(server.url("/x")).reason == "redirect_refused"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("feed/1", "/a/feed/1"), ("/feed/1", "/feed/1"), ("?x=1", "/a/b?x=1"), ("../c d", "/c%20d"),
        ("/\xd0\xb6", "/%D0%B6"), ("/\xe9", "/%E9"), ("/%D0%B6?q=%2F", "/%D0%B6?q=%2F"), ("  /feed/1  ", "/feed/1"),
        ("/x#part", "/x"),
    ],
)  # fmt: skip
def test_where_a_redirect_leads(location: str, target: str, server: Server, fetch: Fetch) -> None:
    server.put("/a/b", in_turn(answer(b"", 302, location=location), answer(b"there")))
    for path in ("/a/feed/1", "/c%20d", "/%D0%B6", "/%E9", "/x"):
        server.put(path, answer(b"there"))
    fetch(server.url("/a/b"))
    assert server.requests[1].target == target


def test_https_does_not_lead_to_http(server: Server, fails: Fails, fetch: Fetch) -> None:
    trust = {"tls": server.trust()}
    down = server.url(f"/to?url={server.url('/feed/1')}", tls=True)
    assert fails(down, client=trust).reason == "redirect_refused"
    assert [request.tls for request in server.requests] == [True]
    up = server.url(f"/to?status=301&url={server.url('/feed/1', tls=True)}")
    assert fetch(up, client=trust).moved_to == server.url("/feed/1", tls=True)


# TLS


def test_tls(server: Server, fetch: Fetch) -> None:
    assert fetch(server.url("/feed/1", tls=True), client={"tls": server.trust()}).body == feed(1)


def test_a_certificate_that_nobody_trusts(server: Server, fails: Fails) -> None:
    assert fails(server.url("/feed/1", tls=True)).reason == "tls"
    assert server.requests == []


def test_a_certificate_of_another_host(server: Server, fails: Fails) -> None:
    assert fails(server.url("/feed/1", "127.0.0.3", tls=True), client={"tls": server.trust()}).reason == "tls"
    assert server.requests == []


def test_no_tls_where_it_was_expected(server: Server, fails: Fails) -> None:
    assert fails(f"https://127.0.0.1:{server.port}/feed/1").reason == "tls"


# what is left


def test_nothing_stays_open(server: Server) -> None:
    async def some() -> None:
        client = Client(allow_net=LOOPBACK)
        paths = ["/feed/9", "/304", "/status/500", "/redirect/302/3", "/claim?bytes=99999999", "/encoded/broken"]
        urls = [server.url(path, f"127.0.2.{number}") for number, path in enumerate(paths)]
        await asyncio.gather(*(client.fetch(url) for url in urls), return_exceptions=True)

    asyncio.run(some())
    until = time.monotonic() + 20
    while server.closed != server.connections and time.monotonic() < until:
        time.sleep(0.01)
    assert server.closed == server.connections
    assert server.connections.total() == 9


def test_one_client_fetches_again_and_again(server: Server) -> None:
    async def three() -> list[int]:
        client = Client(allow_net=LOOPBACK)
        got = [(await client.fetch(server.url("/feed/1"))).status for _ in range(2)]
        await client.close()
        await client.close()
        return [*got, (await client.fetch(server.url("/304"))).status]

    assert asyncio.run(three()) == [200, 200, 304]


def test_proxies_of_the_environment_are_not_used(server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would dial what was never checked here."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, server.url("/", "127.0.0.66"))
    monkeypatch.delenv("no_proxy", raising=False)
    assert fetch(server.url("/feed/1")).status == 200
    assert set(server.connections) == {"127.0.0.1"}
