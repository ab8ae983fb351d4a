"""XML as it goes out: what it can't hold is left out, and the same content has the same bytes."""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

# XML 1.0, production 2: all else can't be in a document, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """The text without the characters that XML can't hold.

    >>> xml_text("a\\x00b\\x1bc")
    'abc'
    """
    return _NOT_XML.sub("", text)


def add(parent: Element, tag: str, text: str | None = None, /, **attributes: str) -> Element:
    """An element in another one, with its text and attributes."""
    element = SubElement(parent, tag, {name: xml_text(value) for name, value in attributes.items()})
    if text is not None:
        element.text = xml_text(text)
    return element


def document(root: Element) -> bytes:
    """The whole document, in UTF-8, one element a line."""
    indent(root)
    text: str = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()
