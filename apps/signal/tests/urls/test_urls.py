"""URLs: what may be collected, what is the same source, what is the same entry."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from signal_feeds import urls
from signal_feeds.errors import BadSource


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://example.org", "https://example.org/"),
        ("  HTTP://Example.ORG:80/Feed  ", "http://example.org/Feed"),
        ("https://example.org:443/a?b=1#c", "https://example.org/a?b=1"),
        ("https://example.org:8443/a", "https://example.org:8443/a"),
        ("https://пример.рф/лента", "https://xn--e1afmkfd.xn--p1ai/%D0%BB%D0%B5%D0%BD%D1%82%D0%B0"),
        ("https://example.org/a%2Fb?utm_source=rss", "https://example.org/a%2Fb?utm_source=rss"),
        ("http://[2001:DB8::1]:80/x", "http://[2001:db8::1]/x"),
    ],
)
def test_a_source_has_one_spelling(text: str, expected: str) -> None:
    assert urls.checked(text) == expected
    assert urls.checked(expected) == expected


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "write one such as https://"),
        ("example.org/feed", "https://example.org/feed"),
        ("//example.org/feed", "https://example.org/feed"),
        ("localhost:8000/feed", "https://localhost:8000/feed"),
        ("feed://example.org/x", "https://example.org/x"),
        ("feed:https://example.org/x", "https://example.org/x"),
        ("file:///etc/passwd", "only http and https are collected, as in https://example.org/feed.xml"),
        ("ftp://example.org/x", "only http and https"),
        ("javascript:alert(1)", "http:// or https:// before the host: https://example.org/feed.xml"),
        ("https://user:secret@example.org/", "leave out"),
        ("https://example.org\\@evil.example/", "backslash"),
        ("https://exam ple.org/", "space"),
        ("https://example.org/\x00", "control"),
        ("https://example.org/a\nb", "control"),
        ("https://exa%6dple.org/", "host"),
        ("https://example.org:99999/", "port"),
        ("https://example.org:0/", "port"),
        ("https:///x", "host"),
        ("https://[::1/", "host"),
        ("https://-/", "host"),
        (f"https://example.org/{'x' * 5000}", "characters"),
    ],
    ids=range(21),
)
def test_what_is_no_source_is_refused_with_advice(text: str, advice: str) -> None:
    with pytest.raises(BadSource, match=advice):
        urls.checked(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://example.org/feed", "https://example.org/feed"),
        ("https://example.org/feed/", "https://example.org/feed"),
        ("https://EXAMPLE.org:443/feed", "https://example.org/feed"),
        ("https://example.org", "http://example.org:80/"),
    ],
)
def test_the_same_source(one: str, other: str) -> None:
    assert urls.address_of(one) == urls.address_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/Feed", "https://example.org/feed"),
        ("https://example.org/?a=1", "https://example.org/?a=2"),
        ("https://example.org:8080/", "https://example.org/"),
        ("https://www.example.org/", "https://example.org/"),
        ("fixture:rss.xml", "fixture:atom.xml"),
    ],
)
def test_another_source(one: str, other: str) -> None:
    assert urls.address_of(one) != urls.address_of(other)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/a", "https://example.org/a"),
        ("/b", "https://example.org/b"),
        ("c?d=1", "https://example.org/blog/c?d=1"),
        ("//other.example/x", "https://other.example/x"),
        ("?p=1", "https://example.org/blog/feed.xml?p=1"),
        ("HTTP://Other.Example:80", "http://other.example/"),
        ("/a?utm_source=rss&id=7&utm_medium=feed", "https://example.org/a?id=7"),
        ("/a?utm_source=rss", "https://example.org/a"),
        ("/a?UTM_Source=x&FBCLID=y&_openstat=z&yclid=1", "https://example.org/a"),
        ("/a?source=rss-1&source=web", "https://example.org/a?source=web"),
        ("/a?ref=main&b=&&c", "https://example.org/a?ref=main&b=&&c"),
        ("/news#item-7", "https://example.org/news#item-7"),
        ("/app#!/post/1", "https://example.org/app#!/post/1"),
        ("/a#utm_source=rss", "https://example.org/a"),
        ("/a#:~:text=word", "https://example.org/a"),
        ("/a#", "https://example.org/a"),
        ("/a b/é", "https://example.org/a%20b/%C3%A9"),
        ("https://user:pw@example.org/a", "https://example.org/a"),
        ("  /a\n", "https://example.org/a"),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("mailto:a@example.org", None),
        ("tag:example.org,2026:1", None),
        ("https://exa<mple.org/", None),
        ("https://[/", None),
        (f"/{'x' * 5000}", None),
    ],
    ids=range(26),
)
def test_a_link_of_an_entry(url: str, expected: str | None) -> None:
    assert urls.canonical_link(url, "https://example.org/blog/feed.xml") == expected


@given(st.text(max_size=40) | st.from_regex(r"https?://[a-z.:@\[\]]{1,9}(/[ -~й]{0,20})?", fullmatch=True))
@example("http://a/?utm_=&&")
@example("http://a//b/../c#utm_x=1&y")
def test_the_canonical_link_of_a_canonical_link_is_itself(url: str) -> None:
    link = urls.canonical_link(url, "https://example.org/blog/feed.xml")
    if link is not None:
        assert urls.canonical_link(link, "http://elsewhere.example/") == link
        assert urls.canonical_link(link) == link
        assert link.startswith(("http://", "https://"))
        assert link.isascii()
        assert link.isprintable()
        assert " " not in link


@given(st.text(max_size=30).map(lambda rest: f"https://{rest}"))
def test_what_is_checked_stays_as_it_is(text: str) -> None:
    try:
        url = urls.checked(text)
    except BadSource:
        return
    assert urls.checked(url) == url
    assert urls.host_of(url)
    assert urls.address_of(url) == urls.address_of(url.replace("https://", "http://", 1))


@given(st.text(max_size=30), st.text(max_size=30))
def test_nothing_but_strings_comes_of_strings(one: str, other: str) -> None:
    assert isinstance(urls.joined(one, other), str)
    assert isinstance(urls.host_of(one), str)
    assert isinstance(urls.address_of(one), str)
