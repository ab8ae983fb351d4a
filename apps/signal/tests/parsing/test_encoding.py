"""Encoding: BOM, then the HTTP charset, then the declaration, then utf-8, then cp1252; and declarations lie."""

import codecs

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.signal.tests.parsing.feeds import only, rss
from signal_feeds.parsing.encoding import decode
from signal_feeds.reasons import Failed

RUSSIAN = "Съешь ещё этих мягких французских булок"


def declared(encoding: str, text: str = RUSSIAN) -> str:
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n'
    return rss(f"<guid>1</guid><title>{text}</title>", head=head)


@pytest.mark.parametrize("encoding", ["windows-1251", "koi8-r", "cp866", "iso-8859-5", "utf-8", "mac-cyrillic"])
@pytest.mark.parametrize("said_by", ["header", "declaration"])
def test_a_russian_feed_says_what_it_is(encoding: str, said_by: str) -> None:
    if said_by == "header":
        document, content_type = rss(f"<title>{RUSSIAN}</title>"), f'text/xml; charset="{encoding.upper()}"'
    else:
        document, content_type = declared(encoding), "text/xml"
    assert only(document.encode(encoding), content_type).title == RUSSIAN


def test_the_header_goes_before_the_declaration() -> None:
    assert only(declared("koi8-r").encode("cp1251"), "text/xml; charset=windows-1251").title == RUSSIAN


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_bom_goes_before_everything(encoding: str) -> None:
    assert only(declared("koi8-r").encode(encoding), "text/xml; charset=windows-1251").title == RUSSIAN


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_characters_without_a_bom(encoding: str) -> None:
    assert only(declared("utf-16").encode(encoding), "text/xml").title == RUSSIAN


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (declared("utf-8").encode(), "text/xml; charset=iso-8859-1"),
        (declared("windows-1251").encode(), "text/xml"),
        (declared("utf-16").encode(), "text/xml"),
        (declared("no-such-thing").encode(), "text/xml; charset=neither"),
        (declared("rot13").encode(), "text/xml; charset=zlib"),
        (declared("windows-1251").encode("cp1251"), "text/xml; charset=utf-8"),
        (declared("koi8-r").encode("koi8-r"), "text/xml; charset=us"),
    ],
    ids=["latin-1 header", "1251 declared", "utf-16 declared", "unknown", "no text", "utf-8 header", "bad header"],
)
def test_claims_that_are_lies(body: bytes, content_type: str) -> None:
    assert only(body, content_type).title == RUSSIAN


def test_without_any_claim_utf8_then_cp1252() -> None:
    assert only(rss("<title>naïve “quotes” €</title>").encode()).title == "naïve “quotes” €"
    assert only(rss("<title>naïve “quotes” €</title>").encode("cp1252")).title == "naïve “quotes” €"


def test_one_broken_character_does_not_spoil_the_others() -> None:
    body = declared("utf-8").encode().replace("ё".encode(), b"\xd1")
    assert only(body).title == RUSSIAN.replace("ё", "\ufffd")


@pytest.mark.parametrize(
    ("encoding", "label", "text"),
    [
        ("gb18030", "gb2312", "中文信息处理㐀"),
        ("cp932", "shift_jis", "日本語①"),
        ("euc_jp", "EUC-JP", "日本語"),
        ("iso2022_jp", "iso-2022-jp", "日本語"),
        ("cp949", "euc-kr", "한국어 똠"),
        ("big5", "big5", "繁體中文"),
        ("cp1252", "iso-8859-1", "“€”"),
        ("cp1254", "iso-8859-9", "ığş“"),
    ],
)
def test_a_label_means_the_larger_set_as_in_browsers(encoding: str, label: str, text: str) -> None:
    assert only(declared(label, text).encode(encoding)).title == text


def test_what_was_decided_holds_against_the_declaration_in_the_document() -> None:
    text = decode(declared("koi8-r").encode("cp1251"), "text/xml; charset=windows-1251")
    assert "koi8-r" in text  # it is still there, and feedparser must not follow it
    assert only(text.encode(), "text/xml").title == RUSSIAN


@pytest.mark.parametrize("packed", [b"\x1f\x8b\x08rest", b"PK\x03\x04rest", b"\x28\xb5\x2f\xfdrest"])
def test_what_is_still_packed_is_bad_encoding(packed: bytes) -> None:
    with pytest.raises(Failed, match=r"^bad_encoding$"):
        only(packed)


def test_control_characters_nul_and_lone_surrogates_are_gone() -> None:
    hostile = "a\x00b\x01c\x0bd\x1fe\x7ff\ufffeg\uffffh"
    assert only(rss(f"<title>{hostile}</title><description>{hostile}</description>")).title == "abcdefgh"
    references = "a&#0;b&#1;c&#x1F;d&#xD800;e&#55296;f&#xFFFF;g&#99999999999;h&#x110000;i"
    item = only(rss(f"<title>{references}</title><description>{references}</description>"))
    assert (item.title, item.text) == ("abcdefghi", "abcdefghi")
    in_markup = only(rss(f"<title>t</title><description><![CDATA[{references}]]></description>"))
    assert not set(in_markup.text) & set(map(chr, [*range(9), *range(14, 32), 0xD800, 0xFFFF]))
    surrogates = only(b'{"version":"https://jsonfeed.org/version/1","items":[{"id":"1","title":"a\\u0000b\\u001fc"}]}')
    assert surrogates.title == "abc"


@pytest.mark.parametrize("reference", ["&#9;", "&#10;", "&#x41;", "&#0065;", "&#x10FFFD;", "&#57344;", "&#xE000;"])
def test_good_references_stay(reference: str) -> None:
    assert only(rss(f"<title>x{reference}y</title>")).title not in ("xy", "")


@given(st.binary(max_size=200), st.text(max_size=20))
def test_decoding_never_fails(body: bytes, content_type: str) -> None:
    text = decode(body, content_type)
    assert "\x00" not in text
    text.encode()


@given(st.text(alphabet=st.characters(codec="koi8-r", min_codepoint=0x410, max_codepoint=0x44F), min_size=8))
def test_koi8_is_not_taken_for_utf8(text: str) -> None:
    """Without Ё, whose byte goes on a character of UTF-8: a text of nothing but pairs of a letter and Ё is both.

    And no text whose first two letters are the bytes of a BOM, FE FF or FF FE: a BOM goes before everything.
    """
    assume(text[:2] not in ("ЧЪ", "ЪЧ"))
    assert decode(text.encode("koi8-r"), "text/xml; charset=koi8-r") == text


@pytest.mark.parametrize("bom", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE], ids=["8", "16", "32"])
def test_nothing_but_a_bom_is_empty(bom: bytes) -> None:
    with pytest.raises(Failed, match=r"^empty$"):
        only(bom)
