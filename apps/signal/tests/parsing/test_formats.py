"""RSS 0.9x, 1.0 and 2.0, Atom 0.3 and 1.0, JSON Feed 1.0 and 1.1: what is read of them; and what is no feed."""

from typing import Any

import pytest

from apps.signal.tests.parsing.feeds import HOUR_MS, NOW_MS, URL, atom, items, json_feed, only, read, rss
from signal_feeds.reasons import Failed

RSS_091 = """<?xml version="1.0"?>
<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://example.org/rss-0.91.dtd">
<rss version="0.91"><channel><title>Blog</title><link>https://example.org/</link>
<item><title>Entry</title><link>https://example.org/1</link><description>Text</description></item></channel></rss>"""
RSS_10 = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
 xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel rdf:about="https://example.org/f"><title>Blog</title><link>https://example.org/</link></channel>
<item rdf:about="https://example.org/1"><title>Entry</title><link>https://example.org/1</link>
<description>Text</description><dc:date>2026-11-30T10:00:00Z</dc:date></item></rdf:RDF>"""
RSS_090 = RSS_10.replace("http://purl.org/rss/1.0/", "http://my.netscape.com/rdf/simple/0.9/")
ATOM_03 = """<feed version="0.3" xmlns="http://purl.org/atom/ns#"><title>Blog</title>
<link rel="alternate" type="text/html" href="https://example.org/"/>
<entry><title>Entry</title><link rel="alternate" type="text/html" href="https://example.org/1"/>
<id>tag:1</id><issued>2026-11-30T10:00:00Z</issued>
<content type="text/html" mode="escaped">Text</content></entry></feed>"""
RSS_20 = rss("<title>Entry</title><link>https://example.org/1</link><description>Text</description>")
ATOM_10 = atom(
    "<title>Entry</title><id>1</id><link href='/1'/><content type='html'>Text</content>",
    feed="<title>Blog</title><link href='/'/>",
)
PREFIXED = """<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:title>Blog</a:title><a:link href="/"/>
<a:entry><a:title>Entry</a:title><a:id>1</a:id><a:link href="/1"/><a:summary>Text</a:summary></a:entry></a:feed>"""
JSON_10 = json_feed(
    {"id": "1", "url": "/1", "title": "Entry", "content_text": "Text", "author": {"name": "Ann"}},
    version="https://jsonfeed.org/version/1",
    home_page_url="https://example.org/",
)
JSON_11 = JSON_10.replace("version/1", "version/1.1").replace(
    '"author": {"name": "Ann"}', '"authors": [{"name": "Ann"}]'
)


@pytest.mark.parametrize(
    "document",
    [RSS_090, RSS_091, RSS_10, RSS_20, ATOM_03, ATOM_10, PREFIXED, JSON_10, JSON_11],
    ids=["rss 0.90", "rss 0.91", "rss 1.0", "rss 2.0", "atom 0.3", "atom 1.0", "prefixed", "json 1.0", "json 1.1"],
)
def test_each_format_says_the_same(document: str) -> None:
    feed = read(document)
    (item,) = feed.items
    assert (feed.title, feed.site, feed.cut) == ("Blog", "https://example.org/", 0)
    assert (item.title, item.link, item.text) == ("Entry", "https://example.org/1", "Text")


@pytest.mark.parametrize(
    "wrapping", ["\n\n  {}\n", "\ufeff{}", "<br />\n<b>Warning</b>: oh\n{}", "{}<script>x</script>"]
)
@pytest.mark.parametrize("document", [RSS_20, ATOM_10, RSS_091], ids=["rss", "atom", "with doctype"])
def test_dirt_around_a_feed_does_no_harm(document: str, wrapping: str) -> None:
    assert only(wrapping.replace("{}", document)).text == "Text"


def test_a_feed_within_a_page_is_one() -> None:
    assert only(f"<!DOCTYPE html><html><body>{ATOM_10}</body></html>").text == "Text"


def test_the_content_type_does_not_matter() -> None:
    assert only(RSS_20, "text/html; charset=utf-8").text == only(JSON_10, "text/plain").text == "Text"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b" \r\n\t\x00", "empty"),
        (b"<!DOCTYPE html><html><head><title>x</title></head><body><p>no feed</body></html>", "not_a_feed"),
        (b"<html><body><pre>&lt;rss version='2.0'&gt;</pre></body></html>", "not_a_feed"),
        (b"just text", "not_a_feed"),
        (b"<?xml version='1.0'?>", "not_a_feed"),
        (b"<opml version='2.0'><body><outline xmlUrl='x'/></body></opml>", "not_a_feed"),
        (b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'/>", "not_a_feed"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not_a_feed"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not_a_feed"),
        (b"%PDF-1.7", "not_a_feed"),
        (b"{}", "not_a_feed"),
        (b'{"items": []}', "not_a_feed"),
        (b'{"version": "https://jsonfeed.org/version/1"}', "not_a_feed"),
        (b'{"version": 1, "items": [{"id": 1}]}', "not_a_feed"),
        (b"[1, 2]", "not_a_feed"),
        (b"{ broken", "not_a_feed"),
        (b'{"version": "https://jsonfeed.org/version/1", "items": [', "parse"),
        (b"<rss version='2.0'><channel><title>half", "parse"),
        (b"<feed xmlns='http://www.w3.org/2005/Atom'><title>x</title></wrong>", "parse"),
        (b"x" * (8 * 1024 * 1024 + 1), "too_large"),
    ],
    ids=range(21),
)
def test_what_is_no_feed(body: bytes, reason: str) -> None:
    with pytest.raises(Failed, match=f"^{reason}$"):
        read(body)


@pytest.mark.parametrize("document", [rss(), atom(), json_feed()], ids=["rss", "atom", "json"])
def test_a_feed_without_entries_is_one(document: str) -> None:
    assert read(document).items == ()


def test_what_is_broken_half_way_gives_what_there_is() -> None:
    whole = rss("<guid>1</guid><title>a</title>", "<guid>2</guid><title>b</title>", "<guid>3</guid><title>c</title>")
    found = items(whole[: whole.index("<guid>3")])
    assert [item.title for item in found][:2] == ["a", "b"]
    unclosed = items(rss("<guid>1</guid><title>a & b</title><description>x<br>y</description>"))
    assert [item.title for item in unclosed] == ["a & b"]


def test_entities_that_xml_does_not_know() -> None:
    item = only(rss("<guid>1</guid><title>a&nbsp;b &mdash; c</title><description>&copy;</description>"))
    assert (item.title, item.text) == ("a b — c", "©")


@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["rss", "atom", "prefixed", "json", "broken"])
def test_the_first_entries_are_kept_and_the_others_counted(name: str, most: int) -> None:
    comment = "<!-- <item> <entry> --><description><![CDATA[<item>x</item><entry>]]></description>"
    documents = {
        "rss": rss(*(f"<guid isPermaLink='false'>{n}</guid>{comment}" for n in range(3))),
        "atom": atom(*(f"<id>{n}</id>{comment.replace('description', 'summary')}" for n in range(3))),
        "prefixed": atom(*(f"<id>{n}</id>" for n in range(3))),
        "json": json_feed(*({"id": n} for n in range(3))),
        "broken": rss(*(f"<guid isPermaLink='false'>{n}</guid>&nbsp;" for n in range(3))),
    }
    document = documents[name]
    if name == "prefixed":
        document = document.replace("<", "<a:").replace("<a:/", "</a:").replace("xmlns=", "xmlns:a=")
    feed = read(document, most=most)
    assert [item.key for item in feed.items] == ["0", "1", "2"][:most]
    assert feed.cut == max(0, 3 - most)


def test_what_stands_behind_the_entries_that_were_cut_is_read() -> None:
    document = rss("<guid>1</guid>", "<guid>2</guid>", channel="").replace(
        "</channel>", "<title>Late</title></channel>"
    )
    assert read(document, most=1).title == "Late"


def test_relative_links_go_by_xml_base_then_the_feeds_link_then_where_it_is_from() -> None:
    markup = "&lt;a href='x'&gt;&lt;/a&gt;&lt;img src='/i.png'&gt;"
    without = only(rss(f"<guid>1</guid><link>y</link><description>{markup}</description>", channel="<title>b</title>"))
    assert (without.link, 'href="https://example.org/blog/x"' in without.html) == ("https://example.org/blog/y", True)
    with_link = only(
        rss(f"<guid>1</guid><description>{markup}</description>", channel="<link>https://site.example/a/</link>")
    )
    assert 'href="https://site.example/a/x"' in with_link.html
    assert 'src="https://site.example/i.png"' in with_link.html
    content = f"<id>1</id><link href='y'/><content type='html' xml:base='c/'>{markup}</content>"
    with_base = only(atom(content, attributes="xml:base='https://base.example/b/'"))
    assert with_base.link == "https://base.example/b/y"
    assert 'href="https://base.example/b/c/x"' in with_base.html
    relative_base = only(atom(content, attributes="xml:base='sub/'"))
    assert relative_base.link == "https://example.org/blog/sub/y"


def test_a_fixture_has_no_url_to_go_by() -> None:
    item = only(
        rss("<guid>1</guid><link>y</link><description>&lt;a href='x'&gt;z</description>", channel=""), url="fixture:a"
    )
    assert (item.link, item.html) == (None, '<a rel="noopener noreferrer nofollow">z</a>')


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("<title>Tom &amp;amp; Jerry</title>", "Tom & Jerry"),
        ("<title>a &lt;b&gt;bold&lt;/b&gt; title</title>", "a bold title"),
        ("<title><![CDATA[a <i>b</i>&nbsp;c]]></title>", "a b c"),
        ("<title>1 &lt; 2</title>", "1 < 2"),
        ("<title>\n two\n lines </title>", "two lines"),
        ("<title></title>", ""),
        (f"<title>{'x' * 2000}</title>", "x" * 999 + "…"),
    ],
    ids=["entity", "tags", "cdata", "less", "lines", "none", "long"],
)
def test_a_title_is_plain_text(entry: str, expected: str) -> None:
    assert only(rss(f"<guid>1</guid>{entry}")).title == expected


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("<title type='html'>a &lt;b&gt;b&lt;/b&gt;</title>", "a b"),
        ("<title type='text'>a &lt;b&gt;</title>", "a <b>"),
        ("<title type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'>a <b>b</b></div></title>", "a b"),
    ],
    ids=["html", "text", "xhtml"],
)
def test_an_atom_title_is_what_its_type_says(title: str, expected: str) -> None:
    assert only(atom(f"<id>1</id>{title}")).title == expected


def test_the_fullest_text_is_taken() -> None:
    both = "<description>short</description><content:encoded>&lt;p&gt;whole&lt;/p&gt;</content:encoded>"
    assert only(rss(f"<guid>1</guid>{both}")).html == "<p>whole</p>"
    text = "<id>1</id><content type='text'>a &lt;b&gt;\n\nc</content>"
    assert only(atom(text)).html == "<p>a &lt;b&gt;</p><p>c</p>"
    xhtml = "<id>1</id><content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'><p>x</p></div></content>"
    assert only(atom(xhtml)).html == "<p>x</p>"
    assert [item.text for item in items(json_feed({"id": 1, "summary": "s"}, {"id": 2, "content_html": "<p>h"}))] == [
        "s",
        "h",
    ]


def test_who_wrote_it() -> None:
    assert only(rss("<guid>1</guid><dc:creator>Ann</dc:creator>")).author == "Ann"
    assert only(rss("<guid>1</guid><author>ann@example.org (Ann)</author>")).author == "Ann"
    assert only(atom("<id>1</id><author><name>Ann</name><email>a@example.org</email></author>")).author == "Ann"
    assert only(JSON_10).author == only(JSON_11).author == "Ann"
    two = json_feed({"id": 1, "authors": [{"name": "Ann"}, {}, {"name": "Bob"}]})
    assert only(two).author == "Ann, Bob"
    assert only(json_feed({"id": 1}, authors=[{"name": "Ann"}])).author == "Ann"
    whole = ATOM_10.replace("<entry>", "<author><name>Bob</name></author><entry>", 1)
    assert [item.author for item in items(whole)] == ["Bob"]  # RFC 4287, 4.2.1


@pytest.mark.parametrize(
    ("date", "ahead_ms"),
    [
        ("Tue, 01 Dec 2026 00:00:00 GMT", 0),
        ("Tue, 01 Dec 2026 03:00:00 +0300", 0),
        ("01 Dec 2026 00:00 GMT", 0),
        ("2026-12-01T00:00:00Z", 0),
        ("2026-12-01", 0),
        ("Wed, 02 Dec 2026 00:00:00 GMT", 24 * HOUR_MS),
        ("Wed, 02 Dec 2026 00:00:01 GMT", None),
        ("Tue, 01 Dec 2099 00:00:00 GMT", None),
        ("Mon, 01 Jan 1800 00:00:00 GMT", None),
        ("0001-01-01T00:00:00Z", None),
        ("yesterday", None),
        ("", None),
        ("Tue, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
def test_a_date_more_than_24_hours_ahead_is_unknown(date: str, ahead_ms: int | None) -> None:
    expected = None if ahead_ms is None else NOW_MS + ahead_ms
    assert only(rss(f"<guid>1</guid><pubDate>{date}</pubDate>")).published_ms == expected


def test_missing_dates_are_none_and_published_goes_before_updated() -> None:
    assert only(rss("<guid>1</guid>")).published_ms is None
    dates = "<updated>2026-11-30T00:00:00Z</updated><published>2026-11-29T00:00:00Z</published>"
    assert only(atom(f"<id>1</id>{dates}")).published_ms == NOW_MS - 48 * HOUR_MS
    assert only(atom("<id>1</id><updated>2026-11-30T00:00:00Z</updated>")).published_ms == NOW_MS - 24 * HOUR_MS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-12-01T02:00:00+02:00", NOW_MS),
        ("2026-12-01T00:00:00.000Z", NOW_MS),
        ("2026-12-01T00:00:00", NOW_MS),
        ("2026-12-02T00:00:01Z", None),
        ("soon", None),
        (None, None),
        (17, None),
    ],
    ids=str,
)
def test_dates_of_json(value: object, expected: int | None) -> None:
    assert only(json_feed({"id": 1, "date_published": value})).published_ms == expected


def test_odd_json_does_no_harm() -> None:
    odd: list[Any] = [
        1,
        None,
        "x",
        [],
        {"id": None},
        {"id": True, "title": {"a": 1}},
        {"id": "ok", "url": 7, "authors": "x"},
    ]
    assert "ok" in [item.key for item in items(json_feed(*odd, author=3, home_page_url=[]))]


def test_where_it_is_from_need_not_be_known() -> None:
    assert URL.startswith("https://")
    assert only(RSS_20, url="").link == "https://example.org/1"


@pytest.mark.parametrize(
    "named",
    [
        "<category>Tea</category>",
        "<category/>",
        '<category domain="x">Tea</category>' * 2,
        "<dc:subject>Tea</dc:subject>",
    ],
    ids=["one", "empty", "two", "subject"],
)
def test_categories_of_rss_harm_nothing(named: str) -> None:
    """Nobody reads them, in the entry or in the channel."""
    channel = f"<title>Blog</title><link>https://example.org/</link>{named}"
    assert (
        only(rss(f"{named}<title>Entry</title><link>https://example.org/1</link>{named}", channel=channel)).title
        == "Entry"
    )


@pytest.mark.parametrize("named", ['<category term="tea"/>', "<category>tea</category>"], ids=["term", "text"])
def test_categories_of_atom_harm_nothing(named: str) -> None:
    entry = f'<id>1</id><title>Entry</title><link href="https://example.org/1"/>{named}'
    assert only(atom(entry, feed=f"<title>Blog</title>{named}")).title == "Entry"
