"""What commands print: aligned text, tables, or JSON for programs."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from nextdue.cli.times import utc
from nextdue.records import RunView, TaskView

Row = Sequence[str]


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


def table(headers: Row, rows: Sequence[Row]) -> None:
    """Columns: by rich on a terminal, else plain aligned text without box characters."""
    if sys.stdout.isatty():
        _rich_table(headers, rows)
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


def _rich_table(headers: Row, rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*headers, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(grid)
