"""Text of others as it goes out: without what steers its reader; the same content has the same bytes."""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

# XML 1.0, production 2: all else can't be in a document, not even as a reference. Of what can, the controls that it
# advises against, which a terminal obeys, and the two that turn the direction of all that follows.
_LEFT_OUT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\u202c\u202f-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def outgoing(text: str) -> str:
    """The text without the characters that XML can't hold, control characters and those that turn its direction.

    >>> outgoing("a\\x00b\\x1bc\\x9bd\\u202ee")
    'abcde'
    """
    return _LEFT_OUT.sub("", text)


def add(parent: Element, tag: str, text: str | None = None, /, **attributes: str) -> Element:
    """An element in another one, with its text and attributes."""
    element = SubElement(parent, tag, {name: outgoing(value) for name, value in attributes.items()})
    if text is not None:
        element.text = outgoing(text)
    return element


def document(root: Element) -> bytes:
    """The whole document, in UTF-8, one element a line."""
    indent(root)
    text: str = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()
