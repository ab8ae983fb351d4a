"""Safety: whatever a document is made of, it comes out harmless, soon, or as a reason."""

import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.signal.tests.parsing.feeds import NOW_MS, URL, atom, described, items, only, read, rss, safe
from signal_feeds.parsing import parse
from signal_feeds.parsing.documents import document
from signal_feeds.reasons import Failed

LAUGHS = '<!DOCTYPE r [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12)
) + "]>"  # fmt: skip


@pytest.mark.parametrize(
    "markup",
    [
        "<script>alert(1)</script>",
        "<scr<script>ipt>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '<a href="javascript:alert(1)">x</a>',
        '<a href="java\tscript:alert(1)">x</a>',
        '<a href="&#106;avascript:alert(1)">x</a>',
        '<a href="data:text/html,<script>alert(1)</script>">x</a>',
        "<iframe src=https://example.org></iframe>",
        "<svg><script>alert(1)</script></svg>",
        "<svg/onload=alert(1)>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        "<style>@import 'https://evil.example/x.css'</style>",
        '<p style="background:url(javascript:alert(1))">x</p>',
        "<form action=https://evil.example><input name=password></form>",
        "<object data=x></object><embed src=x><applet code=x>",
        "<meta http-equiv=refresh content='0;url=https://evil.example'>",
        "<base href=https://evil.example/>",
        "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
        "<![CDATA[<script>alert(1)</script>]]>",
        "<!--><script>alert(1)</script>-->",
    ],
    ids=range(20),
)
def test_html_comes_out_harmless(markup: str) -> None:
    """Safety: sanitised by nh3 whatever the parser did."""
    found = safe(markup).lower()
    for word in (
        "<script",
        "onerror=",
        "onload=",
        'href="javascript',
        'href="data:',
        "<iframe",
        "<svg",
        "<style",
        "style=",
    ):
        assert word not in found
    for word in ("<form", "<input", "<object", "<embed", "<meta", "<base", "@import"):
        assert word not in found


def test_an_image_survives_and_a_link_says_nothing_of_the_reader() -> None:
    found = safe('<p>See <a href="/more">more</a> <img src="/a.png" alt="A"></p>')
    assert 'href="https://example.org/more"' in found
    assert "noopener" in found
    assert 'src="https://example.org/a.png"' in found


@pytest.mark.parametrize("deep", [b"<div>", b"<b>", b"<blockquote>", b"<ul><li>"], ids=["div", "b", "quote", "list"])
def test_a_megabyte_of_nested_tags_takes_no_second(deep: bytes) -> None:
    """Safety: nesting depth guarded first, for nh3 is quadratic in it: it took 40 s."""
    markup = (deep * ((1 << 20) // len(deep))).decode()
    begun = time.process_time()
    only(rss(described(markup)))
    assert time.process_time() - begun < 5  # some tenths of a second; minutes without the guard


SQUARES = {
    "categories": rss("".join(f"<category>c{number}</category>" for number in range(60_000))),
    "keywords": rss(f"<itunes:keywords>{','.join(map(str, range(60_000)))}</itunes:keywords>"),
    "categories of a broken one": rss(
        "<title>&nope;</title>" + "".join(f"<category>{number}</category>" for number in range(50_000))
    ),
    "attributes": rss("<a " + " ".join(f'a{number}="1"' for number in range(40_000)) + "/>"),
    "prefixes": rss("".join(f'<p{number}:a xmlns:p{number}="u{number}"/>' for number in range(40_000))),
    "an author": rss(f"<guid>1</guid><author>{'a' * 80_000}@b</author>"),
    "authors of all": '{"version": "https://jsonfeed.org/version/1.1", "authors": ['
    + '{"name": "a"}, ' * 100_000 + '{}], "items": [' + '{"id": 1}, ' * 2_000 + "{}]}",
}  # fmt: skip


@pytest.mark.parametrize("case", SQUARES)
def test_nothing_takes_the_square_of_its_size(case: str) -> None:
    """Safety: some of them took minutes, and their parser from everybody else."""
    begun = time.process_time()
    read_or_reason(SQUARES[case])
    assert time.process_time() - begun < 5


def test_names_that_are_used_again_are_no_others() -> None:
    """A real feed may declare its prefixes at each entry."""
    one = '<guid>{}</guid><content:encoded xmlns:content="http://purl.org/rss/1.0/modules/content/">x</content:encoded>'
    assert len(items(rss(*(one.format(number) for number in range(1_000))))) == 1_000


def test_entities_do_not_grow() -> None:
    """Safety: entities and DTDs harmless."""
    tracemalloc.start()
    try:
        read_or_reason(LAUGHS + rss("<guid>1</guid><title>&m;</title>"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 << 20


def test_no_file_of_ours_is_read() -> None:
    """Safety: external entities are nothing."""
    head = '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    found = read_or_reason(head + rss("<guid>1</guid><title>a&x;b</title>"))
    assert "root:" not in repr(found)


def test_of_a_document_type_short_entities_alone_are_left() -> None:
    """Safety: entities and DTDs harmless, whatever a parser would make of them."""
    inside = '<!ENTITY a "ha"><!ENTITY b "&a;&a;"><!ENTITY x SYSTEM "file:///etc/passwd"><!ATTLIST rss y CDATA "z">'
    ready = document(f"<!DOCTYPE r [{inside}]>{rss('<guid>1</guid>')}", 10)
    assert ready.text.partition("<rss")[0] == '<!DOCTYPE feed [\n<!ENTITY a "ha">\n]>\n'


def test_only_so_many_entries_are_kept_and_the_others_counted() -> None:
    """Safety: 2,000 entries."""
    document = rss(*(f"<guid>{number}</guid><title>{number}</title>" for number in range(2_500)))
    found = read(document)
    assert (len(found.items), found.cut) == (2_000, 500)
    assert [item.title for item in found.items[:2]] == ["0", "1"]


def test_control_characters_and_lone_surrogates_are_gone() -> None:
    body = atom("<id>1</id><title>a&#x7;b</title>").encode() + b"\x00"
    title = read_or_reason(body)
    assert "\x07" not in repr(title)
    found = read('{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", "title": "x\\u0000\\ud800y"}]}')
    assert found.items[0].title.encode() == b"xy"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"<!doctype html><html><body>no feed</body></html>", "not_a_feed"),
        (b"just a text", "not_a_feed"),
        (b"{}", "not_a_feed"),
        (b'{"version": "https://jsonfeed.org/version/1.1", "items": [', "parse"),
        (b'<rss version="2.0"><channel><item', "parse"),
    ],
    ids=["empty", "blank", "page", "text", "object", "json cut", "xml cut"],
)
def test_what_is_no_feed_has_a_reason(body: bytes, reason: str) -> None:
    with pytest.raises(Failed) as caught:
        parse(body, "", URL, now_ms=NOW_MS)
    assert caught.value.reason == reason


def test_what_came_before_a_break_is_kept() -> None:
    whole = rss("<guid>1</guid><title>one</title>", "<guid>2</guid><title>two</title>")
    assert [item.title for item in items(whole[: whole.index("<guid>2")])][:1] == ["one"]


@given(st.binary(max_size=400))
def test_any_bytes_are_a_feed_or_a_reason(body: bytes) -> None:
    read_or_reason(body)


@given(st.text(max_size=200))
def test_any_markup_comes_out_without_a_script(markup: str) -> None:
    found = safe(f"{markup}<script>alert(1)</script>{markup}")
    assert "<script" not in found.lower()


def read_or_reason(document: str | bytes) -> Any:
    """What came of it: anything but an exception that nobody knows."""
    try:
        return read(document)
    except Failed as failed:
        return failed.reason
