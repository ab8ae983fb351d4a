"""The documents as the tests see them: code blocks, links, headings."""

import re
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).parents[2]
READMES = [TOP / "README.md", TOP / "README.ru.md"]
PAGES = [
    *sorted(TOP.glob("*.md")),
    *sorted((TOP / "docs").rglob("*.md")),
]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class Block(NamedTuple):
    language: str
    line: int
    """Of its first line of code, in the page."""
    code: str


def where(page: Path) -> str:
    return str(page.relative_to(TOP))


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [Block(m[1], text.count("\n", 0, m.start(2)) + 1, m[2]) for m in _FENCE.finditer(text)]


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def shell_lines(page: Path) -> list[str]:
    """The commands shown in indented blocks, without their comments."""
    found = [line[4:] for line in prose(page).splitlines() if re.match(r" {4}\S", line)]
    return [re.sub(r"\s+#\s.*$", "", line) for line in found]


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What `#fragment` may say: GitHub makes them so."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


def links(page: Path) -> list[str]:
    return [link for link in _LINK.findall(prose(page)) if "://" not in link]
