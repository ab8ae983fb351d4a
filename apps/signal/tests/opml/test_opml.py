"""Reading and writing of lists, without the application."""

import time
from xml.etree import ElementTree

import pytest

from apps.signal.tests.written import Database
from signal_feeds import opml, urls
from signal_feeds.errors import BadSource, Unreadable
from signal_feeds.opml import Imported, Outline
from signal_feeds.records import Source
from signal_feeds.store import SQL, Tx, one, sources_in

HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<opml version="2.0"><head><title>t</title></head><body>\n'
TAIL = "</body></opml>"


def outline(url: str, title: str = "A feed") -> str:
    return f'<outline type="rss" text="{title}" xmlUrl="{url}"/>\n'


def urls_of(data: bytes | str) -> list[str]:
    listed = opml.read(data if isinstance(data, bytes) else data.encode())
    assert listed.broken == ""
    return [found.url for found in listed.outlines]


def add(tx: Tx, url: str, name: str) -> Source:
    """As the application adds a source, without its task."""
    checked = urls.checked(url)
    address = urls.address_of(checked)
    if one(tx, "source", id=name) is not None:
        raise BadSource("source.taken", name=name)
    if one(tx, "source_by_address", address=address) is not None:
        raise BadSource("source.twin", url=checked, name="x")
    values = {"id": name, "url": checked, "address": address, "kind": "http", "origin": "opml", "now": 0}
    tx.execute(SQL["add_source"], values)
    return sources_in(tx.execute(SQL["source"], {"id": name}))[0]


def bring(db: Database, *lines: str) -> Imported:
    return opml.add_all(db.begin, add, opml.read((HEAD + "".join(lines) + TAIL).encode()).outlines)


def sources(db: Database) -> list[Source]:
    return sources_in(db.tx.execute(SQL["sources"], {}))


def test_feeds_are_found_however_deep_they_lie() -> None:
    deep = "<outline text='folder'>" * 5_000 + outline("https://deep.example/") + "</outline>" * 5_000
    assert urls_of(HEAD + outline("https://a.example/") + deep + outline("https://b.example/") + TAIL) == [
        "https://a.example/", "https://deep.example/", "https://b.example/",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "url"),
    [
        ('xmlUrl="https://a.example/"', "https://a.example/"),
        ('XMLURL=" https://a.example/ "', "https://a.example/"),
        ('type="rss" url="https://a.example/"', "https://a.example/"),
        ('type="rss"', ""),
        ('xmlUrl=""', ""),
        ('type="link" url="https://a.example/"', None),
        ('text="a folder"', None),
    ],
    ids=["usual", "upper", "url", "nowhere", "empty", "link", "folder"],
)
def test_what_counts_as_a_feed(attributes: str, url: str | None) -> None:
    assert urls_of(f"{HEAD}<outline {attributes}/>{TAIL}") == ([] if url is None else [url])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-bom", "windows-1251", "koi8-r"])
def test_encodings(encoding: str) -> None:
    codec = encoding.removesuffix("-bom")
    declared = "utf-16" if encoding.startswith("utf-16") else encoding.removesuffix("-sig")
    line = outline("https://a.example/", "Лента")
    text = f'<?xml version="1.0" encoding="{declared}"?><opml><body>{line}</body></opml>'
    data = (b"\xfe\xff" if encoding.endswith("-bom") else b"") + text.encode(codec)
    (found,) = opml.read(data).outlines
    assert found == Outline(1, "Лента", "https://a.example/", "")


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ('<outline text="cut off', "broken XML in line 4: unclosed token"),
        ('<outline text="AT&T" xmlUrl="https://c.example/"/>', "broken XML in line 4: not well-formed (invalid token)"),
        ("</body>", "broken XML in line 4: no element found"),
        ("</head>", "broken XML in line 4: mismatched tag"),
        ("\x01", "broken XML in line 4: not well-formed (invalid token)"),
    ],
    ids=["cut", "ampersand", "unended", "mismatched", "control"],
)
def test_what_comes_before_a_break_is_read(rest: str, why: str) -> None:
    listed = opml.read((HEAD + outline("https://a.example/") + rest).encode())
    assert [found.url for found in listed.outlines] == ["https://a.example/"]
    assert listed.broken == why


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "broken XML in line 1: no element found"),
        (b"\x00\xff\xfe binary", "broken XML in line 1: not well-formed (invalid token)"),
        (b"<html><body>no</body></html>", "not OPML: it begins with <html>"),
        (b'{"version": 1}', "broken XML in line 1: not well-formed (invalid token)"),
        (b'<?xml version="1.0" encoding="nonsense"?><opml/>', "unreadable: unknown encoding: nonsense"),
        (b'<?xml version="1.0" encoding="shift_jis"?><opml/>', "unreadable: multi-byte encodings are not supported"),
        (b"\xff\xfe<", "unreadable: 'utf-16-le' codec can't decode byte 0x3c in position 0: truncated data"),
    ],
    ids=["empty", "binary", "html", "json", "encoding", "multibyte", "half"],
)
def test_what_is_no_opml(data: bytes, why: str) -> None:
    listed = opml.read(data)
    assert listed.outlines == ()
    assert listed.broken == why or ("utf-16" in why and listed.broken.startswith("unreadable: 'utf-16"))


def test_a_file_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opml, "LARGEST", 1_000)
    with pytest.raises(Unreadable, match="larger than an OPML file may be: 1,000 bytes"):
        opml.read(b" " * 1_001)


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
DOCTYPES = {
    "laughs": f'<!DOCTYPE opml [<!ENTITY l0 "ha ]&gt;">{LAUGHS}]>',
    "file": '<!DOCTYPE opml [<!ENTITY l11 SYSTEM "file:///etc/passwd">]>',
    "parameter": '<!DOCTYPE opml [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p; <!ENTITY l11 "swollen">]>',
    "dtd": '<!DOCTYPE opml SYSTEM "http://127.0.0.1:9/opml.dtd">',
    "fixed": '<!DOCTYPE opml [<!ENTITY l11 "swollen"><!ATTLIST outline xmlUrl CDATA "https://default.example/">]>',
}


@pytest.mark.parametrize("kind", DOCTYPES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_harmless_and_the_feeds_are_read(kind: str, encoding: str) -> None:
    begun = time.monotonic()
    listed = opml.read(
        f'<?xml version="1.0" encoding="{encoding}"?>\n{DOCTYPES[kind]}\n<opml><body>&l11;<outline text="folder"/>\n'
        f"{outline('https://a.example/?b=1&amp;c', 'Mine&l11;&nbsp;&copy; &amp; more')}</body></opml>".encode(encoding)
    )
    assert listed.broken == ""
    assert [found[1:] for found in listed.outlines] == [("Mine & more", "https://a.example/?b=1&c", "")]
    assert listed.outlines[0].line >= 3
    assert time.monotonic() - begun < 5


def test_good_ones_are_added_and_the_rest_is_listed_with_reasons() -> None:
    db = Database()
    bring(db, outline("https://old.example/feed", "Old"))
    done = bring(
        db,
        outline("https://a.example/feed", "Alpha"),
        outline("not a url", "Broken"),
        outline("ftp://a.example/feed", "Ftp"),
        outline("http://a.example/feed/", "Alpha over http"),
        outline("https://OLD.example:443/feed", "Old once more"),
        "<outline type='rss' text='Nowhere'/>",
        outline("https://b.example/feed", "Beta"),
    )
    assert done.added == ("alpha", "beta")
    assert [(left.outline.title, left.outline.line) for left in done.left] == [
        ("Broken", 4), ("Ftp", 5), ("Alpha over http", 6), ("Old once more", 7), ("Nowhere", 8),
    ]  # fmt: skip
    reasons = [str(left.reason) for left in done.left]
    assert "'not a url'" in reasons[0]
    assert "only http and https" in reasons[1]
    assert reasons[2:4] == [
        f"{url} is there already: it is the source 'x'"
        for url in ("http://a.example/feed/", "https://old.example/feed")
    ]
    assert "empty" in reasons[4]
    assert [source.id for source in sources(db)] == ["alpha", "beta", "old"]


def test_the_same_list_again_changes_nothing() -> None:
    db = Database()
    lines = [outline(f"https://{name}.example/") for name in "abc"]
    bring(db, *lines)
    before = db.dump()
    again = bring(db, *lines)
    assert (again.added, len(again.left)) == ((), 3)
    assert db.dump() == before


def test_names_come_from_titles_and_hosts() -> None:
    db = Database()
    done = bring(
        db,
        outline("https://a.example/1", "The Old New Thing!"),
        outline("https://a.example/2", "the old  new thing"),
        outline("https://a.example/3", "Хабр / Все статьи"),
        outline("https://a.example/4", ""),
        outline("https://a.example/5", "★"),
        outline("https://пример.рф/6", ""),
        outline("https://a.example/7", "long " * 50),
    )
    assert done.added == (
        "the-old-new-thing", "the-old-new-thing-2", "хабр-все-статьи", "a.example", "a.example-2",
        "пример.рф", "long-long-long-long-long-long-long-long",
    )  # fmt: skip
    assert {source.title for source in sources(db)} >= {"The Old New Thing!", "Хабр / Все статьи", None}


def test_a_name_that_signal_wrote_is_kept_where_it_is_free() -> None:
    db = Database()
    named = '<outline text="Title" signal:name="{}" xmlUrl="https://{}.example/"/>'
    done = bring(db, named.format("mine", "a"), named.format("mine", "b"), named.format("../x y\u202e", "c"))
    assert done.added == ("mine", "mine-2", "x-y")


def test_ten_thousand_of_one_host_take_seconds() -> None:
    db = Database()
    begun = time.monotonic()
    done = bring(db, *(outline(f"https://a.example/{number}", "") for number in range(10_000)))
    assert len(done.added) == 10_000
    assert done.added[-1] == "a.example-10000"
    assert time.monotonic() - begun < 10


def test_what_is_written_is_read_back() -> None:
    db = Database()
    bring(
        db,
        outline("https://a.example/?x=1&amp;y=2", "Tea &amp; &lt;cake&gt; &quot;daily&quot;"),
        outline("https://b.example/", "Хабр"),
        outline("https://c.example/", "Хабр"),
    )
    hostile = "UPDATE source SET site = 'https://b.example/home', title = title || char(1, 155, 8238) WHERE id = 'хабр'"
    db.tx.execute(hostile)
    data = opml.write(sources(db))
    listed = opml.read(data)
    assert listed.broken == ""
    assert [found[1:] for found in listed.outlines] == [
        ('Tea & <cake> "daily"', "https://a.example/?x=1&y=2", "tea-cake-daily"),
        ("Хабр", "https://b.example/", "хабр"),
        ("Хабр", "https://c.example/", "хабр-2"),
    ]
    body = ElementTree.fromstring(data).find("body")
    assert body is not None
    assert [dict(line.attrib)["text"] for line in body] == ['Tea & <cake> "daily"', "Хабр", "Хабр"]
    other = Database()
    opml.add_all(other.begin, add, listed.outlines)
    theirs, ours = ([(s.id, s.url) for s in sources(one)] for one in (other, db))
    assert theirs == ours
    assert opml.write(reversed(sources(db))) == data


def test_fixtures_and_orphans_are_not_written() -> None:
    db = Database()
    bring(db, outline("https://a.example/", "a"), outline("https://b.example/", "b"))
    db.tx.execute("UPDATE source SET orphaned = 1 WHERE id = 'a'")
    db.source("f", "fixture:rss.xml")
    db.tx.execute("UPDATE source SET kind = 'fixture' WHERE id = 'f'")
    assert urls_of(opml.write(sources(db))) == ["https://b.example/"]
    assert urls_of(opml.write([])) == []
