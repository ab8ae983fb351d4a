"""signal why: each reason for a source's due, in words."""

import re

import pytest

from apps.signal.tests.server import Server

HOUR = 3_600_000
ASKED = "last_attempt = :now, last_ok = :now, digest = 'x'"


def situation(folder, changes: str, due_in_ms: int | None = None, name: str = "github-blog") -> str:
    """What `why` says of a source whose row was changed so."""
    (now,) = folder.sql("SELECT unixepoch() * 1000")[0]
    folder.sql(f"UPDATE source SET {changes.replace(':now', str(now))} WHERE id = ?", name)
    if due_in_ms is not None:
        folder.sql("UPDATE nextdue_task SET due = ? WHERE key = ?", now + due_in_ms, name)
    return " ".join(folder.run("why", name).split())


def test_a_new_source(folder):
    said = situation(folder, "added = added")
    assert "because a new source is asked within 30 minutes of being added" in said
    assert "by whom a worker with --network" in said
    assert "last success never" in said


@pytest.mark.parametrize(
    ("changes", "due", "words"),
    [
        (ASKED, 0.5, "because its interval is 30 min"),
        (f"{ASKED}, fresh_s = 7200", 2, "because its server wants 2 h between two requests"),
        (f"{ASKED}, fresh_s = 999999", 24, "because its server wants 1 d between two requests"),
        (f"{ASKED}, hints = '{{\"period_s\":3600}}'", 1, "because the feed says that it is new every 1 h"),
        (
            "last_attempt = 1704196800000, last_ok = 1704196800000, hints = '{\"skip_hours\":[12]}'", 1,
            "because its interval is 30 min, and its publisher wants no request at 2024-01-02 12:30 GMT",
        ),
        (f"{ASKED}", 0.1, "because somebody made it due before its turn; a worker puts it off until 20"),
        (
            "last_attempt = :now, last_error = 'timeout', failures = 3", 4 / 60,
            "because after 3 failures in a row it waits 4 min and up to 30 s more",
        ),
        (
            "last_attempt = :now, last_error = 'store', faults = 1, failures = 7", 1 / 60,
            "because after 1 fault of our own in a row it waits 1 min and up to 30 s more",
        ),
        (
            f"last_attempt = :now, last_error = 'http_throttled', failures = 1, not_before = :now + {2 * HOUR}", 2,
            "because its server wants no request before 20",
        ),
        (
            "last_attempt = :now, last_error = 'http_gone', failures = 3, gone_times = 3, gone_first = :now - 90000000",
            168, "because gone 3 times over 1 d: it is asked once in 7 days",
        ),
    ],
    ids=["interval", "fresh", "fresh-capped", "period", "skips", "early", "failures", "faults", "retry-after", "gone"],
)  # fmt: skip
def test_why_it_is_due_then(folder, changes, due, words):
    assert words in situation(folder, changes, int(due * HOUR))


def test_what_went_wrong_and_who_can_mend_it(folder):
    said = situation(folder, "last_attempt = :now, last_error = 'http_missing', failures = 12, faults = 2")
    assert "failures 12/12" in said
    assert "our own faults 2/12" in said
    assert "last error http_missing: not found (the publisher must mend it)" in said


def test_an_unknown_code_of_another_version(folder):
    assert "last error meteor: meteor (our own fault)" in situation(
        folder, "last_attempt = :now, last_error = 'meteor', failures = 1"
    )


def test_where_it_moved_and_what_it_is_the_same_as(folder):
    said = situation(
        folder,
        f"{ASKED}, moved_to = 'https://new.example/', moved_times = 2, moved_first = :now - 7200000, same_as = 'x'",
    )
    assert "moved to https://new.example/, 2 times, first 2 h ago; believed after 5 over at least two days" in said
    assert "it leads to the feed of x; to ask it no more: signal pause github-blog" in said
    assert "leads to the same feed as x" in folder.run("list")


def test_a_page_and_the_feeds_that_it_offers(folder):
    page = b'<html><head><link rel="alternate" type="application/rss+xml" title="All of it" href="/all.xml?a&b">'
    page += (
        b'<link rel="alternate" type="application/rss+xml" title="; id" href="http://127.0.0.1/$(id);x"></head></html>'
    )
    with Server() as server:
        server.put("/page", lambda exchange: b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page)
        folder.settings(f'[sources.page]\nurl = "{server.url("/page")}"\n')
        folder.run("init")
        folder.sql("UPDATE nextdue_task SET due = 1 WHERE key = 'page'")
        said = folder.run("worker", "--once", "--network", "--allow-net", "127.0.0.1")
        assert "page  failed  not_a_feed (200): not a feed; it offers 2 feeds: signal why page" in said
        said = folder.run("why", "page")
        assert f"  signal add '{server.url('/all.xml?a&b')}'\n    All of it\n" in said
        assert "  signal add 'http://127.0.0.1/$(id);x'\n" in said
        assert "not_a_feed (200)" in said
        assert "signal --folder . add 'http" in folder.run("--folder", ".", "why", "page")


def test_a_source_behind_another_of_its_host(folder):
    folder.sql("UPDATE nextdue_task SET due = NULL, rest = 'blocked' WHERE key = 'github-blog'")
    assert "next due as soon as its host is free" in " ".join(folder.run("why", "github-blog").split())
    assert "as soon as its host is free" in folder.run("list")
    assert "github-blog" in folder.listed("--due")  # as the view sources has it


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("Github-Blog", "did you mean github-blog?"), ("zzz", "signal list shows them")],
    ids=["near", "far"],
)
def test_a_name_that_is_none(folder, typed, hint):
    for argv in (["why", typed], ["pause", typed], ["refresh", typed, "--by", "me"]):
        assert hint in folder.run(*argv, code=2)


def test_times_tell_their_zone(folder):
    folder.run("worker", "--once")
    assert re.search(
        r"last success +20\d\d-\d\d-\d\d \d\d:\d\d MSK, ", folder.run("why", "fixture-rss", TZ="Europe/Moscow")
    )


def test_its_last_ten_attempts(folder):
    (number,) = folder.sql("SELECT number FROM source WHERE id = 'github-blog'")[0]
    for _ in range(12):
        folder.sql("INSERT INTO attempt(source, begun, ended, status) VALUES (?, 1, 2, 304)", number)
    said = folder.run("why", "github-blog")
    assert said.count("  304  ") == 10


def test_a_paused_one_has_no_next_due(folder):
    folder.run("pause", "github-blog")
    said = folder.run("why", "github-blog")
    assert "paused" in said
    assert "next due" not in said
