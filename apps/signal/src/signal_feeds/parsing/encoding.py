"""Bytes to text: BOM, then the HTTP charset, then the declaration, then utf-8, then cp1252. Claims are checked."""

import codecs
import re

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What a document of wide characters begins with where it has no BOM: '<' or '{'.
_WIDE = (
    (re.compile(rb"[<{]\x00\x00\x00"), "utf-32-le"),
    (re.compile(rb"\x00\x00\x00[<{]"), "utf-32-be"),
    (re.compile(rb"[<{]\x00[^\x00]"), "utf-16-le"),
    (re.compile(rb"\x00[<{]\x00"), "utf-16-be"),
)
# Python's names for what browsers take the same labels for (the Encoding Standard): each is the larger set.
_LARGER = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
# Codecs that are no text (rot13, zlib), by which markup may hide (utf-7), or that say nothing (ascii) are not here.
_KNOWN = frozenset(
    ["utf-8", "koi8-r", "koi8-u", "cp866", "mac-cyrillic", "mac-roman", "ptcp154", "kz1048", "cp874", "gb18030"]
    + ["big5hkscs", "cp932", "euc_jp", "iso2022_jp", "cp949"]
    + [f"cp{number}" for number in range(1250, 1259)]
    + [f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)]
)
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';,]+)""", re.I)
_DECLARATION = re.compile(rb"""\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_META = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.I)
_LOOK = 2_048
"""Bytes in which a declaration is looked for."""
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")


def decode(body: bytes, content_type: str = "") -> str:
    """The text, without a BOM and without characters that no text has. Never fails: a wrong byte becomes U+FFFD.

    >>> decode("<a>Привет</a>".encode("koi8-r"), "text/xml; charset=KOI8-R")
    '<a>Привет</a>'
    >>> decode("<a>Привет</a>".encode(), "text/xml; charset=iso-8859-1")
    '<a>Привет</a>'
    """
    return without_controls(_decoded(body, content_type)).lstrip("\ufeff")


def without_controls(text: str) -> str:
    """Control characters (but for tab and ends of lines), lone surrogates and non-characters are gone."""
    return _NOT_TEXT.sub("", text)


def _decoded(body: bytes, content_type: str) -> str:
    for bom, encoding in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(encoding, "replace")
    for pattern, encoding in _WIDE:
        if pattern.match(body):
            return body.decode(encoding, "replace")
    if body.isascii():
        if b"\x1b$" not in body:  # how iso-2022-jp, which is all ASCII, begins what isn't
            return body.decode("ascii")
    elif (text := _as_utf8(body)) is not None:
        return text
    claims = _claims(body, content_type)
    for encoding in (*claims, "utf-8"):
        try:
            return body.decode(encoding)
        except UnicodeDecodeError:
            continue
    return body.decode(claims[0] if claims and claims[0] != "utf-8" else "cp1252", "replace")


def _as_utf8(body: bytes) -> str | None:
    """What is utf-8 whatever it claims to be: hardly anything else happens to be valid.

    A character that was cut in two somewhere doesn't turn the rest into garbage.
    """
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(map(len, re.findall("[^\x00-\x7f\ufffd]+", text)))
    return text if good > 10 * bad else None


def _claims(body: bytes, content_type: str) -> list[str]:
    """What the header says, then what the document says, as far as it is an encoding of text."""
    head = body[:_LOOK]
    found = _CHARSET.search(content_type)
    declared = _DECLARATION.match(head) or _META.search(head)
    labels = [found.group(1) if found else "", declared.group(1).decode("ascii") if declared else ""]
    return [encoding for label in labels if (encoding := _known(label))]


def _known(label: str) -> str | None:
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    name = _LARGER.get(name, name)
    return name if name in _KNOWN else None
