"""Lines on stdout: safe to show, aligned, and never a reason to stop working."""

import os
import sys
from collections.abc import Iterable, Sequence


def say(line: str) -> None:
    """A line on stdout, at once. Nothing where nobody listens any more, as in `| head`: the work is more important."""
    try:
        print(clean(line), flush=True)
    except OSError:
        nobody_listens()


def complain(line: str) -> None:
    """A line on stderr."""
    print(f"signal: {clean(line)}", file=sys.stderr)


def nobody_listens() -> None:
    """The reader of stdout went away: what is still printed, also by Python at its end, vanishes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def clean(text: str) -> str:
    r"""What comes from feeds and servers must not steer a terminal: control characters are shown as what they are.

    >>> clean("a\x1b[31m\u202eb")
    'a\\x1b[31m\\u202eb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Aligned columns, two spaces apart; the last one isn't padded.

    >>> table(("name", "due"), [("ленты", "now")])
    ['name   due', 'ленты  now']
    """
    from rich.cells import cell_len

    cells = [[clean(cell) for cell in row] for row in (head, *rows)]
    widths = [max(cell_len(row[at]) for row in cells) for at in range(len(head))]
    padded = ((cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return ["  ".join(row).rstrip() for row in padded]


def pairs(rows: Sequence[tuple[str, str]]) -> list[str]:
    """A word and what it is, aligned.

    >>> pairs([("state", "waits"), ("due", "now")])
    ['state  waits', 'due    now']
    """
    return table(rows[0], rows[1:])
