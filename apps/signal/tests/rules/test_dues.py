"""When a source is asked next: rules success, failure, our own fault, last_error; acceptance 3, 5, 9, 10."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from apps.signal.tests.behaviours import answer, conditional, feed, message
from apps.signal.tests.rules.conftest import World
from apps.signal.tests.samples import DAY, HOUR, NOW
from signal_feeds.collecting import Line
from signal_feeds.reasons import WORDS
from signal_feeds.records import Hints

SAME = conditional(feed(2), etag='"1"')


def test_success(world: World) -> None:
    """Rule success: next due = end of the attempt + 30 min; failures = 0, last_error = NULL, last_ok set."""
    world.takes_ms = 700
    world.put("ada", answer(b"", 500), answer(feed(3)))
    assert world.row("ada").failures == 1
    world.until_due("ada")
    row, line = world.row("ada"), world.attempts("ada")[-1]
    assert (row.failures, row.last_error, row.last_ok) == (0, None, row.last_attempt)
    assert (line["ended"] - line["begun"], line["status"], line["fresh"]) == (700, 200, 3)
    assert world.due("ada") == line["ended"] + 1800_000
    assert world.lines[-1] == Line("ada", 200, 3, 0, None)


def test_an_unchanged_source(world: World) -> None:
    """Rule success: a 304 is a success if a representation is stored, and may bring 0 entries."""
    world.put("ada", SAME)
    world.until_due("ada")
    row = world.row("ada")
    assert (row.failures, row.last_error, row.last_ok) == (0, None, row.last_attempt)
    assert world.lines[-1] == Line("ada", 304, 0, 0, None)
    assert world.wait_s("ada") == 1800


def test_a_304_of_nothing(world: World) -> None:
    """Rule success: bad_304 where nothing is stored, and the validators are dropped. Acceptance 1."""
    world.put("ada", lambda exchange: message(304), answer(feed(1), etag='"1"'))
    assert world.row("ada").last_error == "bad_304"
    world.until_due("ada")
    assert world.seen("ada")[-1].header("if-none-match") is None
    assert (world.row("ada").last_error, world.row("ada").etag) == (None, '"1"')


def test_failures_wait_longer_and_longer(world: World) -> None:
    """Rule failure: min(failures + 1, 12), min(3600, 60·2^min(failures-1, 6)) s and 0 to 30 s; it never gives up.

    From the end of the attempt, be that more than a jitter after its beginning.
    """
    world.takes_ms = 40_000
    world.put("ada", answer(b"", 500), first=True)
    for count, delay_s in enumerate([60, 120, 240, 480, 960, 1920, *[3600] * 9], 1):
        row = world.row("ada")
        assert (row.failures, row.last_error) == (min(count, 12), "http_server")
        assert delay_s <= world.wait_s("ada") <= delay_s + 30
        world.until_due("ada")


def test_the_jitter_is_of_whole_seconds_with_both_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule failure: a random 0..30 s, both ends included."""
    world.put("ada", answer(b"", 500))
    ends: list[tuple[int, int]] = []
    for end in (0, 30):

        def randint(low: int, high: int, end: int = end) -> int:
            ends.append((low, high))
            return end

        monkeypatch.setattr("random.randint", randint)
        world.until_due("ada")
    assert ends == [(0, 30), (0, 30)]
    assert world.wait_s("ada") == 240 + 30


HINTS: dict[str, tuple[dict[str, str], float]] = {
    "max-age": ({"cache-control": "max-age=7200"}, 7200),
    "max-age-minus-age": ({"cache-control": "public, max-age=7200", "age": "1200"}, 6000),
    "shorter-than-the-interval": ({"cache-control": "max-age=60"}, 1800),
    "a-week-is-a-day": ({"cache-control": "max-age=604800"}, 86_400),
    "nonsense": ({"cache-control": "max-age=soon", "expires": "tomorrow"}, 1800),
}


@pytest.mark.parametrize("hint", HINTS)
def test_no_sooner_than_the_server_says(world: World, hint: str) -> None:
    """Acceptance 3: never sooner than max-age (minus Age), capped at 24 h; hints of a 304 count too."""
    headers, expected = HINTS[hint]
    world.put("ada", conditional(feed(1), etag='"1"', **headers))
    assert world.wait_s("ada") == expected
    world.until_due("ada")
    assert (world.lines[-1].status, world.wait_s("ada")) == (304, expected)


def test_no_sooner_than_expires(world: World) -> None:
    """Acceptance 3: never sooner than Expires."""
    date, expires = "Tue, 01 Dec 2026 00:00:00 GMT", "Tue, 01 Dec 2026 05:00:00 GMT"
    world.put("ada", answer(feed(1), date=date, expires=expires))
    assert 5 * 3600 - 1800 <= world.wait_s("ada") <= 5 * 3600


def rss(inside: str) -> bytes:
    return feed(1).replace(b"<description>made up", inside.encode() + b"<description>made up")


def test_no_sooner_than_the_ttl(world: World) -> None:
    """Acceptance 3: never sooner than ttl, also when the feed is unchanged afterwards."""
    world.put("ada", conditional(rss("<ttl>120</ttl>"), etag='"1"'))
    assert (world.row("ada").hints, world.wait_s("ada")) == (Hints(period_s=7200), 7200)
    world.until_due("ada")
    assert world.wait_s("ada") == 7200


def test_no_sooner_than_the_update_period(world: World) -> None:
    """Acceptance 3: never sooner than sy:updatePeriod."""
    rdf = rss("<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>")
    space = b'<rss version="2.0" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">'
    world.put("ada", answer(rdf.replace(b'<rss version="2.0">', space)))
    assert world.wait_s("ada") == 6 * 3600


def test_not_in_hours_and_days_that_are_skipped(world: World) -> None:
    """Acceptance 9: skipHours, skipDays in GMT; jitter and skips only forwards."""
    hours = "".join(f"<hour>{hour}</hour>" for hour in range(6))
    skip = f"<skipHours>{hours}</skipHours><skipDays><day>Tuesday</day></skipDays>"
    world.put("ada", answer(rss(skip)))
    assert world.due("ada") == NOW + DAY + 6 * HOUR


def test_skipping_all_hours_is_ignored(world: World) -> None:
    """Acceptance 9: all 24 listed = ignored."""
    hours = "".join(f"<hour>{hour}</hour>" for hour in range(24))
    world.put("ada", answer(rss(f"<skipHours>{hours}</skipHours>")))
    assert world.wait_s("ada") == 1800


RETRIES: dict[str, tuple[int, str, tuple[float, float]]] = {
    "429-seconds": (429, "7200", (7200, 7200)),
    "503-seconds": (503, "7200", (7200, 7200)),
    "404-seconds": (404, "7200", (7200, 7200)),
    "410-seconds": (410, "7200", (7200, 7200)),
    "429-date": (429, "Tue, 01 Dec 2026 05:00:00 GMT", (4.5 * 3600, 5 * 3600)),
    "a-year-is-a-week": (429, "31536000", (604_800, 604_800)),
    "no-faster": (503, "1", (60, 90)),
    "a-date-of-the-past": (503, "Tue, 01 Dec 2020 00:00:00 GMT", (60, 90)),
    "nonsense": (503, "soon", (60, 90)),
    "negative": (429, "-5", (60, 90)),
}


@pytest.mark.parametrize("case", RETRIES)
def test_retry_after(world: World, case: str) -> None:
    """Acceptance 5: both forms, on 429, 503 and any error, capped at 7 days, nonsense ignored; no faster retry."""
    status, value, (least, most) = RETRIES[case]
    world.put("ada", answer(b"", status, retry_after=value))
    assert least <= world.wait_s("ada") <= most
    assert world.row("ada").failures == 1


def test_gone(world: World) -> None:
    """Acceptance 10: 410 three times over 24 h = gone; rule failure: asked once in 7 days, and it may come back."""
    world.put("ada", *[answer(b"", 410)] * 30, answer(feed(1)))
    first = world.row("ada").last_attempt or 0
    while (world.row("ada").last_attempt or 0) < first + DAY:
        assert world.wait_s("ada") <= 3630
        world.until_due("ada")
    for _ in range(len(world.seen("ada")), 31):
        assert 604_800 <= world.wait_s("ada") <= 604_830
        world.until_due("ada")
    assert (world.row("ada").last_error, world.wait_s("ada")) == (None, 1800)


def failing(world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, over: Callable[[], bool]) -> None:
    """From now on what is written of a success fails so, until `over`."""
    from signal_feeds import collecting
    from signal_feeds.store import attempts

    whole = attempts.save_success

    def save(*args: Any) -> Any:
        if not over():
            raise error
        return whole(*args)

    monkeypatch.setattr(collecting, "save_success", save)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(sqlite3.OperationalError("disk I/O error"), "store"), (KeyError("a bug"), "internal")],
    ids=["store", "internal"],
)
def test_a_fault_of_our_own(world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str) -> None:
    """Rule our own fault: the same formula on a counter of their own, `failures` untouched."""
    world.put("ada", answer(b"", 500))
    failing(world, monkeypatch, error, lambda: len(world.attempts("ada")) >= 4)
    world.server.put("/ada", answer(feed(2), etag='"1"'))
    for count, delay_s in enumerate([60, 120, 240], 1):
        world.until_due("ada")
        row = world.row("ada")
        assert (row.failures, row.faults, row.last_error, row.etag) == (1, count, reason, None)
        assert delay_s <= world.wait_s("ada") <= delay_s + 30
        assert world.query("SELECT count(*) AS n FROM entry")[0]["n"] == 0
    world.until_due("ada")
    row = world.row("ada")
    assert (row.failures, row.faults, row.last_error, row.etag) == (0, 0, None, '"1"')
    assert world.query("SELECT count(*) AS n FROM entry")[0]["n"] == 2


def test_what_could_not_be_written_down_is_asked_again_and_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule failure: it never gives up. Rule our own fault: where not even the fault can be written, nothing is."""
    from signal_feeds import collecting

    def full(*args: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    world.put("ada", SAME)
    before = world.row("ada")
    with monkeypatch.context() as patched:
        for name in ("save_success", "save_failure"):
            patched.setattr(collecting, name, full)
        world.sandbox.advance("1d")
    times = len(world.seen("ada"))
    assert 24 <= times <= 36  # after 1, 2, 4 .. 60 minutes
    assert (world.row("ada"), len(world.attempts("ada"))) == (before, 1)
    world.sandbox.advance("1h 1m")
    assert (world.row("ada").last_error, world.lines[-1].status) == (None, 304)


SECRET = "hunter2"
ERRORS = {
    "http_auth": answer(SECRET.encode(), 401),
    "http_missing": answer(SECRET.encode(), 404),
    "http_gone": answer(SECRET.encode(), 410),
    "http_throttled": answer(SECRET.encode(), 429),
    "http_client": answer(SECRET.encode(), 400),
    "http_server": answer(SECRET.encode(), 500),
    "empty": answer(b""),
    "not_a_feed": answer(b"<html><p>hunter2</p></html>", content_type="text/html"),
    "address_refused": answer(b"", 302, location="http://10.0.0.1/hunter2"),
    "bad_encoding": answer(SECRET.encode(), content_encoding="gzip"),
    "redirect_refused": answer(b"", 302, location="ftp://127.0.0.1/hunter2"),
}


@pytest.mark.parametrize("reason", ERRORS)
def test_last_error_is_a_code(world: World, reason: str) -> None:
    """Rule last_error: a code of the fixed dictionary; no URL, body or exception text in the database."""
    assert reason in WORDS
    world.put("ada", ERRORS[reason])
    assert world.row("ada").last_error == reason
    assert world.attempts("ada")[-1]["reason"] == reason
    assert world.lines[-1] == Line("ada", world.lines[-1].status, 0, 0, reason)
    world.signal.store.close()
    assert SECRET not in "\n".join(sqlite3.connect(world.signal.nd.path).iterdump())


def test_an_exception_that_nobody_knows_is_internal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule last_error: an unknown exception is `internal`, and its text is nowhere."""

    async def broken(*args: Any, **values: Any) -> Any:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(world._client, "fetch", broken)
    world.put("ada", SAME)
    assert world.row("ada").last_error == "internal"
    assert SECRET not in "\n".join(sqlite3.connect(world.signal.nd.path).iterdump())
