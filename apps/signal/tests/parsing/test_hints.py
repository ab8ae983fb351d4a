"""What a feed says of its own rhythm, and the feeds that a page offers."""

import time

import pytest

from apps.signal.tests.parsing.feeds import atom, read, rss
from signal_feeds.parsing import offers
from signal_feeds.records import Hints

PAGE = "https://example.org/blog/"


@pytest.mark.parametrize(
    ("channel", "period_s"),
    [
        ("", None),
        ("<ttl>60</ttl>", 3_600),
        ("<ttl> 90 </ttl>", 5_400),
        ("<ttl>0</ttl>", None),
        ("<ttl>-5</ttl>", None),
        ("<ttl>soon</ttl>", None),
        ("<ttl>99999999999999999999</ttl>", None),
        ("<ttl>999999999</ttl>", 31_536_000),
        ("<sy:updatePeriod>hourly</sy:updatePeriod>", 3_600),
        ("<sy:updatePeriod> Daily </sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>", 21_600),
        ("<sy:updateFrequency>2</sy:updateFrequency>", 43_200),
        ("<sy:updatePeriod>weekly</sy:updatePeriod><sy:updateFrequency>0</sy:updateFrequency>", 604_800),
        ("<sy:updatePeriod>fortnightly</sy:updatePeriod>", None),
        ("<ttl>60</ttl><sy:updatePeriod>daily</sy:updatePeriod>", 86_400),
    ],
    ids=range(14),
)
def test_how_often_it_changes(channel: str, period_s: int | None) -> None:
    """Acceptance 3: ttl and sy:updatePeriod; the longer of the two."""
    assert read(rss("<guid>1</guid>", channel=channel)).hints.period_s == period_s


def test_hours_and_days_that_are_skipped() -> None:
    """Acceptance 9: skipHours and skipDays, which are in GMT; 24 is midnight."""
    channel = (
        "<skipHours><hour>3</hour><hour> 0 </hour><hour>24</hour><hour>25</hour><hour>x</hour></skipHours>"
        "<skipDays><day>Sunday</day><day>MONDAY</day><day>Yesterday</day></skipDays>"
    )
    assert read(rss("<guid>1</guid>", channel=channel)).hints == Hints(skip_hours=(0, 3), skip_days=(0, 6))
    late = rss("<guid>1</guid>").replace("</channel>", f"{channel}</channel>")
    assert read(late).hints.skip_hours == (0, 3)


def test_what_an_entry_says_of_skipping_is_no_hint() -> None:
    said = "<description><![CDATA[<skipHours><hour>3</hour></skipHours>]]></description>"
    assert read(rss(f"<guid>1</guid>{said}")).hints == Hints()
    assert read(atom("<id>1</id>")).hints == Hints()


def test_a_page_offers_its_feeds() -> None:
    page = """<!DOCTYPE html><HEAD><base href="/base/"><!-- <link rel=alternate type=application/rss+xml href=/no> -->
<script>"<link rel=alternate type=application/rss+xml href=/no>"</script>
<link rel="alternate" type="application/rss+xml" title="A &amp; B" href="rss.xml">
<LINK REL='home Alternate' TYPE='application/atom+xml; charset=utf-8' HREF='//other.example/atom?a=1&amp;b=2'>
<link rel=alternate type=application/feed+json href=https://example.org/feed.json />
<link rel="alternate" type="application/rss+xml" title="again" href="/base/rss.xml">
<link rel="alternate" type="application/json" href="/wp-json/wp/v2/posts/1">
<link rel="alternate stylesheet" type="application/rss+xml" href="/style">
<link rel="alternate" hreflang="ru" href="/ru/"><link rel="stylesheet" type="text/css" href="/x.css">
<link rel="alternate" type="application/rss+xml" href="javascript:alert(1)">
<link rel="alternate" type="application/rss+xml" href="https://[broken/">
<link rel="alternate" type="application/rss+xml"></HEAD>"""
    assert [(one.url, one.title, one.type) for one in offers(page.encode(), "text/html", PAGE)] == [
        ("https://example.org/base/rss.xml", "A & B", "application/rss+xml"),
        ("https://other.example/atom?a=1&b=2", "", "application/atom+xml"),
        ("https://example.org/feed.json", "", "application/feed+json"),
    ]


def test_a_page_is_decoded_as_it_says() -> None:
    page = '<meta charset="windows-1251"><link rel=alternate type="application/rss+xml" href=/f title="Лента">'
    assert offers(page.encode("cp1251"), "text/html", PAGE)[0].title == "Лента"


def test_a_page_offers_so_many_at_most() -> None:
    page = "".join(f'<link rel=alternate type="application/rss+xml" href="/{number}">' for number in range(50))
    assert len(offers(page.encode(), "", PAGE)) == 20


@pytest.mark.parametrize(
    "hostile",
    ["<link " + "a" * 500_000, "<link " * 80_000, "<!--" * 100_000, "<script>" * 60_000, '<link a="' * 50_000],
    ids=["name", "tags", "comments", "scripts", "quotes"],
)
def test_a_hostile_page_takes_no_time(hostile: str) -> None:
    begun = time.process_time()
    assert offers(hostile.encode(), "", PAGE) == ()
    assert time.process_time() - begun < 10  # a tenth of a second; an hour without the bounds
