"""Drawing over time what will run: a line for each, a column for so many minutes."""

import sys
from collections.abc import Sequence
from datetime import tzinfo
from typing import NamedTuple

from nextdue.clock import from_ms, span

MINUTE = 60_000
WIDTHS = [MINUTE * n for n in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 10_080, 43_200, 86_400)]
COLUMNS = 52
"""The most columns: with a name of 24 characters before them a line fits into 80."""
GLYPHS = {"unicode": "·●█▲", "ascii": ".o#^"}
"""Nothing, one, more; and where clocks are changed."""


class Scale(NamedTuple):
    """Where columns begin. Instants in UTC ms."""

    start: int
    width: int
    columns: int
    until: int


def scale(now: int, until: int, tz: tzinfo | None) -> Scale:
    """Columns from before now to `until`, that begin at full minutes, hours or days of the clocks shown."""
    shift = from_ms(now).astimezone(tz).utcoffset()
    ahead = int(shift.total_seconds() * 1000) if shift else 0
    for width in WIDTHS:
        start = (now + ahead) // width * width - ahead
        columns = -(-(until + 1 - start) // width)
        if columns <= COLUMNS:
            return Scale(start, width, columns, until)
    return Scale(now, -(-(until + 1 - now) // COLUMNS), COLUMNS, until)


def draw(scale: Scale, rows: Sequence[tuple[str, Sequence[int]]], changes: Sequence[int], tz: tzinfo | None) -> None:
    """A line for each of these rows: its name, and how many are in each column."""
    none, one, more, changed = tuple(_glyphs())
    name = max([len("TASK"), *(len(label) for label, _ in rows)])
    print(f"{'TASK'.ljust(name)}  {_axis(scale, tz)}".rstrip())
    for label, counts in rows:
        _line(label.ljust(name), "".join(none if not n else one if n == 1 else more for n in counts), one + more)
    if changes:
        at = {(ms - scale.start) // scale.width for ms in changes}
        print(f"{'clocks'.ljust(name)}  {''.join(changed if n in at else ' ' for n in range(scale.columns))}".rstrip())
    print(f"{' ' * name}  a column is {span(scale.width)}: {none} nothing, {one} one, {more} more")


def _axis(scale: Scale, tz: tzinfo | None) -> str:
    """The hours, or for longer times the days and for shorter ones the minutes, above the columns where they begin."""
    by_minute = scale.width * scale.columns < 3 * 3_600_000
    by_day = scale.width * scale.columns > 3 * 86_400_000
    line = [" "] * (scale.columns + 5)
    free, before = 0, None
    for n in range(scale.columns):
        at = from_ms(scale.start + n * scale.width).astimezone(tz)
        text = f"{at:%d.%m}" if by_day else f"{at:%H:%M}" if by_minute else f"{at:%H}"
        begins = at.date() != before if by_day else by_minute or at.minute == 0
        if n >= free and begins:
            line[n : n + len(text)] = text
            free = n + len(text) + (2 if text == f"{at:%H}" else 3)
        before = at.date()
    return "".join(line)


def _glyphs() -> str:
    try:
        GLYPHS["unicode"].encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return GLYPHS["ascii"]
    return GLYPHS["unicode"]


def _line(label: str, drawn: str, marks: str) -> None:
    if not sys.stdout.isatty():
        print(f"{label}  {drawn}")
        return
    from rich.console import Console
    from rich.text import Text

    text = Text(f"{label}  ", no_wrap=True)
    for glyph in drawn:
        text.append(glyph, "bold green" if glyph in marks else "dim")
    Console(highlight=False).print(text, overflow="crop", crop=True)
