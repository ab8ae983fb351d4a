"""What commands draw of entries: texts of many lines, differences, what a search found."""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from signal_feeds.cli.output import clean
from signal_feeds.editing import Part
from signal_feeds.searching import Bit
from signal_feeds.texts import Language
from signal_feeds.texts import say as words

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {"removed": "red strike", "added": "green"}
MARKS = {"removed": ("[-", "-]"), "added": ("{+", "+}")}
"""Around what differs, where there are no colours: those of wdiff."""
CONTEXT = 12
"""So many words are shown on both sides of a difference."""
_WORD = re.compile(r"\s*\S+\s*")
_BLANKS = re.compile(r"[^\S\n]")
# All but line ends and what joins or parts letters, in emoji too: those can't steer a terminal, and are often there.
_CLEANED = re.compile("[^\n\u00ad\u200c\u200d\u200e\u200f\ufe0e\ufe0f]+")


def line(text: str) -> str:
    """Text of others in one line, safe to show.

    >>> line("a\\x1b[31m\\n  b")
    'a\\\\x1b[31m b'
    """
    return lines(" ".join(text.split()))


def lines(text: str) -> str:
    """The same with its line ends and blanks."""
    return _CLEANED.sub(lambda found: clean(found[0]), _BLANKS.sub(" ", text.replace("\r\n", "\n")))


def paragraph(text: str) -> None:
    """A text of many lines; those too long for a terminal are folded at words."""
    _console().print(lines(text), markup=False)


def parts(found: Sequence[Part], lang: Language) -> None:
    """What differs within its words, and how many words are the same elsewhere."""
    from rich.text import Text

    console, drawn = _console(), Text()
    for at, part in enumerate(found):
        text = lines(part.text)
        if part.op == "same":
            drawn.append(_elided(text, lang, first=at == 0, last=at == len(found) - 1))
        elif console.color_system:
            drawn.append(text, STYLES[part.op])
        else:
            drawn.append(f"{MARKS[part.op][0]}{text}{MARKS[part.op][1]}")
    console.print(drawn)


def bits(found: Sequence[Bit]) -> None:
    """A stretch of text in one line, with what was searched for in bold."""
    from rich.text import Text

    drawn = Text("    ")
    for bit in found:
        drawn.append(lines(re.sub(r"\s+", " ", bit.text)), "bold" if bit.found else "")
    _console().print(drawn)


def _elided(text: str, lang: Language, *, first: bool, last: bool) -> str:
    """The words next to the differences, and the number of those between."""
    found = _WORD.findall(text)
    before, after = (0 if first else CONTEXT), (0 if last else CONTEXT)
    left_out = len(found) - before - after
    if left_out <= CONTEXT:
        return text
    said = words(lang, "diff.same", count=left_out)
    return f"{''.join(found[:before])}\n… {said} …\n{''.join(found[len(found) - after :])}".removeprefix("\n")


def _console() -> "Console":
    """Colours on a terminal that has them; elsewhere lines stay as long as they are."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())
