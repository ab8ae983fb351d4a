"""What commands show of entries: text of others that can't play tricks on a terminal, differences, what was found."""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from signal_feeds.editing import Part
from signal_feeds.searching import Bit
from signal_feeds.texts import Language, say

STYLES = {"removed": "red strike", "added": "green"}
MARKS = {"removed": ("[-", "-]"), "added": ("{+", "+}")}
"""Around what differs, where there are no colours: those of wdiff."""
CONTEXT = 12
"""So many words are shown on both sides of a difference."""
_WORD = re.compile(r"\s*\S+\s*")
# What people write: letters of some scripts are joined or parted by these, and emoji are made of several.
_INVISIBLE = frozenset("\u00ad\u200c\u200d\u200e\u200f\ufe0e\ufe0f")


def clean(text: str, *, lines: bool = False) -> str:
    """Text of others with what can't be seen written out; in one line, or with its `lines`.

    >>> clean("a\\x1b[31m\\nb")
    'a\\\\x1b[31m b'
    """
    kept = "\n" if lines else ""
    text = text.replace("\r\n", "\n") if lines else " ".join(text.split())
    return "".join(c if c.isprintable() or c in _INVISIBLE or c in kept else _written(c) for c in text)


def _written(c: str) -> str:
    return " " if c.isspace() and c not in "\x1c\x1d\x1e\x1f\x85\u2028\u2029" else ascii(c)[1:-1]


def moment(ms: int | None) -> str:
    """An instant in the zone of this machine, to the minute; a dash for none."""
    return "—" if ms is None else datetime.fromtimestamp(ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M")


def fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Labelled values, one a line."""
    known = [(label, value) for label, value in pairs if value]
    width = max((len(label) for label, _ in known), default=0)
    for label, value in known:
        print(f"{label.ljust(width)}  {value}")


def paragraph(text: str) -> None:
    """A text of many lines, indented, long lines folded at words."""
    _console().print(Text(text), soft_wrap=False)


def parts(found: Sequence[Part], lang: Language) -> None:
    """What differs within its words, and how many words are the same elsewhere."""
    console, drawn = _console(), Text()
    for at, part in enumerate(found):
        text = clean(part.text, lines=True)
        if part.op == "same":
            drawn.append(_elided(text, lang, first=at == 0, last=at == len(found) - 1))
        elif console.color_system:
            drawn.append(text, STYLES[part.op])
        else:
            drawn.append(f"{MARKS[part.op][0]}{text}{MARKS[part.op][1]}")
    console.print(drawn)


def bits(found: Sequence[Bit]) -> None:
    """A stretch of text in one line, with what was searched for in bold."""
    drawn = Text("    ")
    for bit in found:
        # The blanks at both ends of a bit are what parts it from its neighbours.
        text = re.sub(r"\s+", " ", bit.text)
        drawn.append("".join(c if c.isprintable() else _written(c) for c in text), "bold" if bit.found else "")
    _console().print(drawn)


def _elided(text: str, lang: Language, *, first: bool, last: bool) -> str:
    """The words next to the differences, and the number of those between."""
    words = _WORD.findall(text)
    before, after = (0 if first else CONTEXT), (0 if last else CONTEXT)
    left_out = len(words) - before - after
    if left_out <= CONTEXT:
        return text
    said = say(lang, "cli.diff.same", count=left_out)
    return f"{''.join(words[:before])}\n… {said} …\n{''.join(words[len(words) - after :])}"


def _console() -> Console:
    """Colours on a terminal that has them; elsewhere lines stay as long as they are."""
    is_terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, highlight=False, soft_wrap=not is_terminal)
