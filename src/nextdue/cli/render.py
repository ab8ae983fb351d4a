"""What commands print: aligned text, tables, or JSON for programs."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from nextdue.cli.times import utc
from nextdue.records import RunView, TaskView

Row = Sequence[str]
NARROW = 5
"""No column is cut to less."""


def clean(text: object, limit: int = 2_000) -> str:
    """Text of unknown origin as one line that can't play tricks on a terminal.

    >>> clean("a\\x1b[31m\\nb"), clean("x" * 10, 5)
    ('a\\\\x1b[31m\\\\nb', 'xxxx…')
    """
    shown = str(text)
    if len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "task"), counted(0, "task")
    ('1 task', '0 tasks')
    """
    return f"{count} {noun}" + ("" if count == 1 else "s")


def table(headers: Row, rows: Sequence[Row], cut: Sequence[str] = ()) -> None:
    """Columns: by rich on a terminal, else plain aligned text without box characters.

    On a terminal the columns named in `cut` are cut until each row is one line; without any the last one is folded.
    """
    if sys.stdout.isatty():
        _rich_table(headers, rows, cut)
        return
    widths = [max(len(row[i]) for row in (headers, *rows)) for i in range(len(headers))]
    for row in (headers, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def fields(pairs: Sequence[tuple[str, str]]) -> None:
    """Labelled values, one per line."""
    width = max(len(label) for label, _ in pairs)
    for label, text in pairs:
        print(f"{label.ljust(width)}  {text}")


def document(value: Any) -> None:
    """One JSON document."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def task_data(view: TaskView) -> dict[str, Any]:
    """A task for a program: instants in ms and as UTC text, arguments as JSON."""
    data = msgspec.to_builtins(view)
    data["args"] = None if view.args is None else parsed(view.args)
    return _with_times(data, ("due", "scheduled_for", "created"))


def run_data(run: RunView) -> dict[str, Any]:
    """A run for a program."""
    data = msgspec.to_builtins(run)
    data["result"] = None if run.result is None else parsed(run.result)
    return _with_times(data, ("scheduled_for", "started", "ended"))


def _with_times(data: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in data.items():
        found[name] = utc(value) if name in names else value
        if name in names:
            found[f"{name}_ms"] = value
    return found


def parsed(text: str) -> Any:
    """As it is if it isn't JSON after all: whoever looks for the trouble must see it."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _rich_table(headers: Row, rows: Sequence[Row], cut: Sequence[str]) -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    widths = [max(cell_len(row[i]) for row in (headers, *rows)) for i in range(len(headers))]
    _fit(widths, [headers.index(name) for name in cut], console.width - 2 * (len(headers) - 1))
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, header in enumerate(headers):
        folded = not cut and i == len(headers) - 1
        grid.add_column(header, no_wrap=not folded, max_width=None if folded else widths[i])
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    console.print(grid)


def _fit(widths: list[int], cut: Sequence[int], room: int) -> None:
    """Take from the widest of the columns that may be cut, at last from the widest of all, until they have room.

    >>> widths = [3, 20, 40]
    >>> _fit(widths, [1, 2], 43), widths
    (None, [3, 20, 20])
    """
    for columns in (cut, range(len(widths))) if cut else ():
        while sum(widths) > room and max(widths[i] for i in columns) > NARROW:
            widths[max(columns, key=widths.__getitem__)] -= 1
