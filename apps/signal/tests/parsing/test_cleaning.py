"""Safe HTML and visible text; and HTML that is too heavy for the sanitiser, which is rebuilt before."""

import re
import time

import nh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.signal.tests.parsing.feeds import NOW_MS, URL, json_feed, only, rss
from signal_feeds.parsing import cleaning, parse
from signal_feeds.parsing.cleaning import clean, html_of, plain, text_of
from signal_feeds.parsing.encoding import without_controls
from signal_feeds.reasons import Failed

BASE = "https://example.org/a/"
HEAVY = "<i></i>" * 2_001
"""In front of something, it makes it heavy."""


def depth_of(html: str) -> int:
    depth = deepest = 0
    for end, name in re.findall(r"<(/?)([a-z0-9]+)", html):
        if name not in ("br", "hr", "img"):
            depth += -1 if end else 1
            deepest = max(deepest, depth)
    return deepest


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<img src=/i.png>", None),
        ("<img src=data:image/png,x>", None),
        ("<img src=x srcset='//evil.example/y 2x' referrerpolicy=unsafe-url>", None),
        ("<video src=x poster=y>v</video><audio src=x></audio><picture><source srcset=z></picture>", ""),
        ("<a href=mailto:a@example.org target=_blank rel=opener>m</a>", None),
        ("<p dir=rtl lang=ur class=x id=y style=z>w</p>", '<p dir="rtl" lang="ur">w</p>'),
        ("<font color=red>x</font>", "x"),
    ],
    ids=["image", "data", "srcset", "media", "mail", "direction", "font"],
)
def test_nothing_is_loaded_but_images_and_those_without_a_referrer(markup: str, expected: str | None) -> None:
    found = clean(markup, BASE)
    assert expected is None or found == expected
    assert "srcset" not in found
    assert "evil" not in found
    assert 'rel="noopener noreferrer nofollow"' in found or "<a" not in found
    assert found.count('referrerpolicy="no-referrer"') == found.count('loading="lazy"') == found.count("<img")
    assert "data:" not in found
    assert found.count("src=") == markup.count("<img src=/") + markup.count("<img src=x")
    assert "target" not in found


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a</p><p>b</p>", "a\nb"),
        ("a<br>b", "a\nb"),
        ("<b>a</b>b <i> c</i>", "ab c"),
        ("<table><tbody><tr><td>a</td><td>b</td></tr></tbody></table>", "a b"),
        ('<a href="x" title="a &gt; b">c</a>', "c"),
        ("1 &lt; 2 &amp;&amp; 3&nbsp;4 &amp;lt;", "1 < 2 && 3 4 &lt;"),
        ('<img src="x" alt="y">', ""),
        ("", ""),
    ],
    ids=range(8),
)
def test_what_is_visible(html: str, text: str) -> None:
    assert text_of(html) == text


def test_plain_text_becomes_html_and_back() -> None:
    assert html_of("a <b>\nc\n\n\n d & e\r\n") == "<p>a &lt;b&gt;<br>c</p><p>d &amp; e</p>"
    assert plain("<p>a</p> <b>b</b>&amp;c<script>d</script>") == "a b&c"


@given(st.text(max_size=60))
def test_what_plain_text_says_is_what_is_visible_of_it(text: str) -> None:
    visible = text_of(clean(html_of(text), BASE)).split()
    assert visible == without_controls(text).split() or "\r" in text or "\ufffd" in "".join(visible)


@given(st.text(alphabet="<>/=\"' &;abipx!-", max_size=80))
def test_the_text_has_no_tags_left(markup: str) -> None:
    html = clean(markup, BASE)
    inside = re.sub(r'<[^>"]*(?:"[^"]*"[^>"]*)*>', "", html)
    assert "".join(text_of(html).split()) == "".join(re.sub("&nbsp;", " ", inside).split()).replace(
        "&lt;", "<"
    ).replace("&gt;", ">").replace("&amp;", "&")


@pytest.mark.parametrize(
    "trick",
    ["<div>", "<div></b>", "<div><!-- </div> -->", '<div><img title="</div>">', "<div><marquee></div>", "<b a=1><p>"],
    ids=["plain", "wrong end", "comment", "attribute", "scope", "formatting"],
)
def test_no_trick_makes_it_deep(trick: str) -> None:
    """Safety: the depth is guarded before nh3, which is quadratic in it."""
    begun = time.process_time()
    found = clean(trick * 60_000, BASE)
    assert time.process_time() - begun < 8  # half a second; minutes without the guard
    assert depth_of(found) <= 150


def test_formatting_that_is_opened_again_in_each_block_does_not_multiply() -> None:
    markup = "<p>" + "".join(f"<b id={number}>" for number in range(1_000)) + "</p>" + "<p>x</p>" * 900
    assert len(nh3.clean(markup)) > 50 * len(clean(markup, BASE))


def test_what_is_heavy_keeps_its_text_its_links_and_its_images() -> None:
    found = clean(f"{HEAVY}<p>a &lt; b<p>c <a href='/x?a=1&amp;b=2'>d</a><img src=y><br>e</p></div>f<", BASE)
    assert text_of(found) == "a < b\nc d\ne\nf<"
    assert 'href="https://example.org/x?a=1&amp;b=2"' in found
    assert 'src="https://example.org/a/y"' in found


@given(st.text(alphabet="<>/=\"' &;!-abdipxscr", max_size=120))
def test_what_is_rebuilt_is_as_safe(markup: str) -> None:
    hostile = f"{markup}<script>alert(1)</script><img src=x onerror=alert(1)><a href=javascript:x>y</a>{markup}"
    rebuilt = cleaning._rebuilt(hostile)
    assert re.fullmatch(r'(?:[^<>]|</?[a-z0-9]+(?: (?:href|src)="[^"<>]*")?>)*', rebuilt)
    found = clean(HEAVY + hostile, BASE)
    assert not re.search(r'<script|<[^>]*onerror=|href="javascript', found)


def test_a_url_that_is_rebuilt_stays_within_its_quotes() -> None:
    """Safety: there is one way only to read what is rebuilt."""
    written = '<a href="x&quot; y=&lt;&amp;">z</a>'
    assert cleaning._rebuilt(written) == written


def test_what_is_endless_is_cut_off() -> None:
    assert len(clean("x" * 3_000_000, BASE)) == cleaning.LONGEST
    assert clean("&amp;" * 200_000, BASE).count("&amp;") <= cleaning.MOST_REFERENCES


def test_what_grows_out_of_all_proportion_is_too_large() -> None:
    unit = "<p>" + "".join(f"<b id={number}>" for number in range(200)) + "</p>" + "<p>x" * 200
    items = (f"<guid>{number}</guid><description><![CDATA[{unit}]]></description>" for number in range(200))
    with pytest.raises(Failed, match="too_large"):
        parse(rss(*items).encode(), "", URL, now_ms=NOW_MS)


def test_a_document_of_nothing_but_tags_is_too_large() -> None:
    with pytest.raises(Failed, match="too_large"):
        parse(rss(channel="<a/>" * 500_001).encode(), "", URL, now_ms=NOW_MS)


def test_half_a_surrogate_pair_in_any_field_does_no_harm() -> None:
    odd = "x\\ud800y"
    fields = dict.fromkeys(("id", "title", "content_html", "url"), odd)
    document = json_feed({**fields, "authors": [{"name": odd}]}, title=odd).replace("\\\\ud800", "\\ud800")
    item = only(document)
    assert (item.key, item.title, item.html, item.author) == ("xy", "xy", "xy", "xy")
    for name in ("content_text", "summary"):
        assert only(json_feed({"id": 1, name: odd}).replace("\\\\ud800", "\\ud800")).text == "xy"
