"""Identity of entries: guid, else canonical link, else a hash; and what has the same key twice."""

import pytest

from apps.signal.tests.parsing.feeds import URL, atom, items, json_feed, only, rss


def keys(*of: str) -> list[str]:
    return [item.key for item in items(rss(*of))]


def test_the_guid_is_trimmed_and_never_lower_cased() -> None:
    assert keys("<guid isPermaLink='false'>\n  ABC-Def \n</guid><link>https://e.org/1</link>") == ["ABC-Def"]
    assert keys("<guid>http://E.org/Path</guid>", "<guid>http://e.org/path</guid>") == [
        "https://E.org/Path",
        "https://e.org/path",
    ]


def test_without_a_guid_the_canonical_link() -> None:
    assert keys("<link>/a?utm_source=rss</link>") == ["https://example.org/a"]
    assert keys("<guid>  </guid><link>/a</link>") == ["https://example.org/a"]


def test_without_both_a_hash_of_title_published_and_text() -> None:
    parts = {
        "title": "<title>A</title>",
        "date": "<pubDate>Mon, 30 Nov 2026 00:00:00 GMT</pubDate>",
        "text": "<description>x</description>",
    }
    (whole,) = keys("".join(parts.values()))
    assert whole.startswith("sha256:")
    assert keys("".join(parts.values()).replace("<description>x", "<description> &lt;p&gt;x")) == [whole]
    changed = {"title": "<title>B</title>", "date": "<pubDate>Sun, 29 Nov 2026 00:00:00 GMT</pubDate>"}
    changed["text"] = "<description>y</description>"
    others = [keys("".join({**parts, name: value}.values()))[0] for name, value in changed.items()]
    assert len({whole, *others}) == 4


def test_the_hash_does_not_change_when_a_date_in_the_future_comes_to_be_believed() -> None:
    from apps.signal.tests.parsing.feeds import NOW_MS
    from signal_feeds.parsing import parse

    body = rss("<title>A</title><pubDate>Thu, 03 Dec 2026 00:00:00 GMT</pubDate>").encode()
    (early,) = parse(body, "", URL, now_ms=NOW_MS).items
    (late,) = parse(body, "", URL, now_ms=NOW_MS + 5 * 86_400_000).items
    assert (early.published_ms, late.published_ms is None) == (None, False)
    assert early.key == late.key


@pytest.mark.parametrize("element", ["guid", "link"])
def test_http_and_https_variants_of_a_url_are_one_key(element: str) -> None:
    (plain,) = keys(f"<{element}>http://example.org/A</{element}>")
    (tls,) = keys(f"<{element}>https://example.org/A</{element}>")
    assert plain == tls
    assert items(rss("<guid>http://e.org/1</guid>", "<guid>https://e.org/1</guid>"))[0].link == "https://e.org/1"
    assert len(items(rss("<guid>http://e.org/1</guid>", "<guid>https://e.org/1</guid>"))) == 1


def test_the_same_key_and_the_same_link_twice_the_last_one_wins() -> None:
    (item,) = items(
        rss(
            "<guid isPermaLink='false'>g</guid><link>http://e.org/1</link><title>first</title>",
            "<guid isPermaLink='false'>g</guid><link>https://e.org/1?utm_source=x</link><title>last</title>",
        )
    )
    assert (item.key, item.title) == ("g", "last")


def test_the_same_guid_with_another_link_is_known_by_both() -> None:
    entries = [
        f"<guid isPermaLink='false'>g</guid><link>http://e.org/{link}</link><title>{title}</title>"
        for link, title in [(1, "a"), (2, "b"), (1, "c")]
    ]
    found = items(rss(*entries, "<guid isPermaLink='false'>h</guid>"))
    assert [(item.key, item.title) for item in found] == [
        ("g|https://e.org/1", "c"),
        ("g|https://e.org/2", "b"),
        ("h", ""),
    ]
    # Whatever comes on top: no entry takes the place of another.
    fresh = "<guid isPermaLink='false'>g</guid><link>http://e.org/3</link>"
    assert [item.key for item in items(rss(fresh, *entries))][1:] == [item.key for item in found][:2]


def test_no_key_twice_in_the_order_of_the_document() -> None:
    found = items(rss(*(f"<guid isPermaLink='false'>{name}</guid>" for name in "abacbd")))
    assert [item.key for item in found] == ["a", "b", "c", "d"]


def test_a_guid_does_not_depend_on_where_the_feed_is_from() -> None:
    document = rss("<guid>17</guid><title>x</title>")
    here, there = only(document), only(document, url="https://elsewhere.example/feed")
    assert here.key == there.key == "17"
    assert here.link is None, "a guid that is no URL is no link, whatever isPermaLink says"


def test_a_permalink_is_the_link_too() -> None:
    assert only(rss("<guid>https://e.org/1</guid>")).link == "https://e.org/1"
    assert only(rss("<guid isPermaLink='false'>https://e.org/1</guid>")).link is None


def test_an_endless_guid_is_shortened_without_confusion() -> None:
    one, other = keys(f"<guid>{'x' * 5000}1</guid>", f"<guid>{'x' * 5000}2</guid>")
    assert one != other
    assert len(one) == len(other) == 71


def test_identity_in_the_other_formats() -> None:
    entry = "<id> urn:UUID:1 </id><link href='https://e.org/1'/>"
    assert only(atom(entry)).key == "urn:UUID:1"
    assert [item.key for item in items(json_feed({"id": 7}, {"id": " A "}, {"url": "/x"}))] == [
        "7",
        "A",
        "https://example.org/x",
    ]


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"title": "Another"}, False),
        ({"link": "https://e.org/2"}, False),
        ({"text": "<p>another</p>"}, False),
        ({"title": " A \n title"}, True),
        ({"link": "https://e.org/1?utm_source=rss"}, True),
        ({"text": "<div><b>text</b> of it<script>x</script></div>"}, True),
        ({"date": "Mon, 30 Nov 2026 11:00:00 GMT"}, True),
        ({"guid": "other"}, True),
        ({"title": "A\u0301 title"}, False),
    ],
    ids=["title", "link", "text", "spaces", "utm", "html only", "date", "guid", "accent"],
)
def test_the_fingerprint_is_of_what_a_reader_sees(changed: dict[str, str], same: bool) -> None:
    before = {"guid": "1", "title": "A title", "link": "https://e.org/1", "text": "<p>text of it</p>", "date": "x"}

    def print_of(of: dict[str, str]) -> str:
        return only(
            rss(
                f"<guid isPermaLink='false'>{of['guid']}</guid><title>{of['title']}</title><link>{of['link']}</link>"
                f"<pubDate>{of['date']}</pubDate><description><![CDATA[{of['text']}]]></description>"
            )
        ).fingerprint

    assert (print_of(before) == print_of({**before, **changed})) is same
    assert len(print_of(before)) == 64


def test_a_composed_and_a_decomposed_accent_are_one() -> None:
    assert only(rss("<title>\u00c1</title>")).fingerprint == only(rss("<title>A\u0301</title>")).fingerprint


def test_title_link_and_text_do_not_run_into_each_other() -> None:
    one = only(rss("<title>a b</title><description></description>"))
    other = only(rss("<title>a</title><description>b</description>"))
    assert one.fingerprint != other.fingerprint
