"""Real feeds, where a folder of them lies beside the checkout; feedparser says what is in them."""

import json
import re
from pathlib import Path

import feedparser
import pytest

from apps.signal.tests.parsing.feeds import NOW_MS
from signal_feeds.parsing import parse

FOLDER = Path(__file__).parents[5] / "shared" / "feeds"
FILES = sorted(path.name for path in FOLDER.iterdir()) if FOLDER.is_dir() else []
ACTIVE = re.compile(
    r"<\s*(script|style|iframe|object|embed|form|svg|math|link|meta|base)\b|\son\w+\s*=|javascript:", re.I
)

pytestmark = pytest.mark.skipif(not FILES, reason="no folder of real feeds lies beside this checkout")


def identities(body: bytes) -> set[str]:
    """By what the oracle tells entries apart: the id, else the link, else the title."""
    if body.lstrip().startswith(b"{"):
        return {str(item["id"]) for item in json.loads(body)["items"]}
    entries = feedparser.parse(body)["entries"]
    return {str(one.get("id") or one.get("link") or one.get("title")) for one in entries}


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_lost_and_nothing_is_active(name: str) -> None:
    """Real files: none crashes, loses entries against feedparser, or comes out with a script."""
    body = (FOLDER / name).read_bytes()
    found = parse(body, "", "https://example.org/feed", now_ms=NOW_MS)
    assert len(found.items) >= len(identities(body)) > 0
    assert len({item.key for item in found.items}) == len(found.items)
    for item in found.items:
        assert not ACTIVE.search(re.sub(r">[^<]*<", "><", item.html)), item.html  # within tags, not in what one reads
        assert "�" not in item.title
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", item.title + item.text + item.html)


@pytest.mark.parametrize("name", FILES)
def test_the_same_again_is_the_same(name: str) -> None:
    """Entries: identity and fingerprint depend on nothing but the document."""
    body = (FOLDER / name).read_bytes()
    one, other = (parse(body, "", "https://example.org/feed", now_ms=now) for now in (NOW_MS, NOW_MS + 1))
    assert [(i.key, i.fingerprint) for i in one.items] == [(i.key, i.fingerprint) for i in other.items]
