"""What is asked of a server, and what isn't: acceptance 1, 2, 4, 6, 7, 8, 11, 12."""

import re

import pytest

from apps.signal.tests.behaviours import answer, conditional, feed, redirect
from apps.signal.tests.rules.conftest import QUIET, World
from apps.signal.tests.samples import DAY, HOUR

MODIFIED = "Tue, 01 Dec 2026 00:00:00 GMT"


def conditions(world: World, name: str = "ada") -> list[tuple[bytes | None, bytes | None]]:
    return [(one.header("if-none-match"), one.header("if-modified-since")) for one in world.seen(name)]


def test_one_unconditional_request_in_its_life(world: World) -> None:
    """Acceptance 1: one unconditional request in a source's life; failures in between change nothing of it."""
    same = conditional(feed(1), etag='"1"')
    world.put("ada", same, same, answer(b"", 500), answer(b"not a feed", etag='"x"'), same)
    for _ in range(5):
        world.until_due("ada")
    assert conditions(world) == [(None, None), *[(b'"1"', None)] * 5]
    assert [line.status for line in world.lines] == [200, 304, 500, 200, 304, 304]


VALIDATORS = {
    "both": {"etag": '"1"', "last_modified": MODIFIED},
    "weak": {"etag": 'W/"a b, c"'},
    "without-quotes": {"etag": "abc"},
    "latin-1": {"etag": '"\xe9\xff"'},
    "a-date-of-another-form": {"last_modified": "2026-12-01T00:00:00Z"},
}


@pytest.mark.parametrize("case", VALIDATORS)
def test_validators_go_back_byte_for_byte(world: World, case: str) -> None:
    """Acceptance 2: ETag and Last-Modified sent back byte for byte, both if both came."""
    sent = VALIDATORS[case]
    world.put("ada", conditional(feed(1), **sent))
    world.until_due("ada")
    expected = tuple(sent[name].encode("latin-1") if name in sent else None for name in ("etag", "last_modified"))
    assert conditions(world) == [(None, None), expected]


def test_validators_are_replaced_by_every_200(world: World) -> None:
    """Acceptance 2: replaced on every 200 even if the body is equal."""
    world.put("ada", answer(feed(1), etag='"1"', last_modified=MODIFIED), answer(feed(1), etag='"2"'), answer(feed(1)))
    for _ in range(3):
        world.until_due("ada")
    assert conditions(world) == [(None, None), (b'"1"', MODIFIED.encode()), (b'"2"', None), (None, None)]


@pytest.mark.parametrize("point", ["claim", "finish"])
def test_validators_only_with_their_entries(world: World, point: str) -> None:
    """Acceptance 2: saved only with the entries, else the next 304 loses content for ever."""
    world.put("ada", conditional(feed(3), etag='"1"'), first=False)
    world.sandbox.crash_at(point)
    world.sandbox.advance("30m 1s")
    row, entries = world.row("ada"), world.query("SELECT count(*) AS n FROM entry")[0]["n"]
    assert (row.etag, entries) == ('"1"', 3)
    assert len(world.seen("ada")) == (2 if point == "finish" else 1)
    assert conditions(world)[-1] == (None, None)


def test_a_feed_that_could_not_be_read_leaves_no_validators(world: World) -> None:
    """Acceptance 2: what has no entries has no validators either."""
    world.put(
        "ada", answer(b"<html><p>Later!</p></html>", etag='"1"'), answer(b"", etag='"1"'), answer(feed(1), etag='"1"')
    )
    assert world.row("ada").etag is None
    world.until_due("ada")
    world.until_due("ada")
    assert conditions(world) == [(None, None)] * 3
    assert world.row("ada").etag == '"1"'


def test_a_clean_request(world: World) -> None:
    """Acceptance 6: no cookies, no Referer, no fragment, no query cruft. Acceptance 8: gzip (and br) accepted."""
    world.server.put("/ada", answer(feed(1), set_cookie="a=b; Path=/", etag='"1"'))
    world.signal.add(world.server.url("/ada?page=1#top"), "ada")
    for _ in range(2):
        world.until_due("ada")
    for request in world.seen("ada"):
        assert request.target == "/ada?page=1"
        assert (request.header("cookie"), request.header("referer")) == (None, None)
        assert {b"gzip", b"br"} <= set(re.split(b", *", request.header("accept-encoding") or b""))


def test_an_honest_name(world: World) -> None:
    """Acceptance 7: an honest User-Agent with a contact URL."""
    world.write('contact = "https://ada.example/about"\n' + QUIET)
    world.begin()
    from signal_feeds.fetching.client import Client
    from signal_feeds.settings import network

    world._client = Client(contact=world.signal.settings.contact, allow_net=[network("127.0.0.0/8")])
    world.put("ada", answer(feed(1)))
    assert re.fullmatch(
        rb"Signal/[0-9.]+ \(\+https://ada.example/about\)", world.seen("ada")[0].header("user-agent") or b""
    )


def moved(world: World, hours: int) -> None:
    """Ask for so many hours."""
    end = (world.row("ada").last_attempt or 0) + hours * HOUR
    while (world.row("ada").last_attempt or 0) < end:
        world.until_due("ada")


@pytest.mark.parametrize("status", [301, 308])
def test_a_permanent_redirect_is_believed_in_the_end(world: World, status: int) -> None:
    """Acceptance 11: 301/308 stored after 5 same answers over 48 h, if the target has a known entry. Acceptance 12."""
    world.write('interval = "12h"\n' + QUIET)
    world.begin()
    target = world.server.url("/eve", "127.0.0.9")
    world.server.put("/eve", conditional(feed(2), etag='"2"'))
    world.put("ada", answer(feed(2), etag='"1"'), redirect(status, target))
    moved(world, 48)
    given = world.row("ada").given
    assert world.row("ada").url == given
    moved(world, 12)
    assert (world.row("ada").url, world.row("ada").given) == (target, given)
    times = len(world.seen("ada"))
    world.until_due("ada")
    assert (len(world.seen("ada")), world.lines[-1].status) == (times, 304)
    world.put("bob", answer(feed(1)), address="127.0.0.9")
    world.sandbox.advance("1d", working=False)
    world.sandbox.advance("10s")
    first, second = sorted(world.attempts(name)[-1]["begun"] for name in ("ada", "bob"))
    assert second - first >= 2_000  # the spacing counts by the new host


@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_temporary_redirect_is_followed_and_never_stored(world: World, status: int) -> None:
    """Acceptance 11: only 301 and 308 are permanent."""
    world.write('interval = "12h"\n' + QUIET)
    world.begin()
    world.server.put("/eve", answer(feed(2)))
    world.put("ada", answer(feed(2)), redirect(status, "/eve"))
    moved(world, 96)
    assert world.row("ada").url == world.row("ada").given
    assert world.row("ada").failures == 0


def test_a_redirect_to_a_page_is_not_stored(world: World) -> None:
    """Acceptance 11: if the target parses as a feed with a known entry."""
    world.write('interval = "12h"\n' + QUIET)
    world.begin()
    world.server.put("/eve", answer(feed(1, "parked", "parked-")))
    world.put("ada", answer(feed(2)), redirect(301, "/eve"))
    moved(world, 96)
    assert world.row("ada").url == world.row("ada").given


def test_a_month_of_a_source(world: World) -> None:
    """Acceptance 1 and 4: thirty days of a source that changes daily: 48 requests a day, all but one conditional."""
    world.put(
        "ada",
        lambda exchange: conditional(feed(3, tag=f"{exchange.number // 48}-"), etag=f'"{exchange.number // 48}"')(
            exchange
        ),
    )
    world.sandbox.advance(30 * DAY / 1000, limit=10_000)
    assert 30 * 48 - 2 <= len(world.seen("ada")) <= 30 * 48 + 2
    assert [one for one in conditions(world) if one == (None, None)] == [(None, None)]
    assert len(world.attempts("ada")) == 50


@pytest.mark.parametrize(("spacing", "apart_ms"), [(None, 2_000), ("5s", 5_000)])
def test_one_request_at_a_time_per_host(world: World, spacing: str | None, apart_ms: int) -> None:
    """Acceptance 12: one request at a time per host, 2 s apart, settable; other hosts don't wait for it."""
    if spacing is not None:
        url = world.server.url("/first")
        world.write(f'{QUIET}[sources.first]\nurl = "{url}"\nspacing = "{spacing}"\n')
        world.begin()
    hosts = {"a": "127.0.0.1", "b": "127.0.0.1", "c": "127.0.0.1", "other": "127.0.0.2"}
    for name, address in hosts.items():
        world.put(name, answer(feed(1)), address=address, first=False)
        task = world.signal.nd.get("collect", name)
        assert task is not None
        task.run_now()
    world.sandbox.advance("20s")
    begun = {name: world.attempts(name)[0]["begun"] for name in hosts}
    first, second, third = sorted(begun[name] for name in "abc")
    assert apart_ms <= second - first <= apart_ms + 100
    assert apart_ms <= third - second <= apart_ms + 100
    assert begun["other"] - first <= 100
