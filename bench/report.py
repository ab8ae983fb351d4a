"""One table of all lines: as text, as Markdown for the README, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.harness import Line

_HEADS = ("figure", "measured", "nextdue", "beside it", "huey", "judged", "target", "")
_SENSES = {">=": "≥", "<=": "≤", "<": "<"}
_RIGHT = frozenset({2, 4, 5, 6})


def number(value: float | None) -> str:
    """Three digits are more than any of these figures is worth."""
    if value is None:
        return "-"
    size = abs(value)
    if value == int(value) and size < 1000:
        return f"{value:.0f}"
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.01 else f"{value:.4f}"


def _joined(shown: str, unit: str) -> str:
    """Some units are written without a space."""
    return shown + ("" if unit in {"", "%", "x", "/s"} else " ") + unit


def cells(line: Line) -> tuple[str, ...]:
    beside = f"{number(line.beside)} {line.beside_name}" if line.beside is not None else "-"
    judged = f"{number(line.judged)} {line.judged_unit}" if line.judged is not None else "-"
    return (
        line.figure,
        line.what,
        _joined(number(line.nextdue), line.unit) if line.nextdue is not None else "-",
        beside,
        number(line.huey),
        judged,
        _target(line),
        line.verdict,
    )


def _target(line: Line) -> str:
    if line.target is None:
        return "-"
    unit = "" if line.judged_unit else line.unit
    return f"{_SENSES[line.target.sense]} {_joined(f'{line.target.value:g}', unit)}"


def text(lines: Sequence[Line], machine: dict[str, str], quick: bool) -> str:
    rows = [_HEADS, *map(cells, lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    shown = [
        "  ".join(
            cell.rjust(width) if column in _RIGHT else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    shown.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*shown, "", *_feet(lines, machine, quick)])


def markdown(lines: Sequence[Line], machine: dict[str, str], quick: bool) -> str:
    rows = [_HEADS, *map(cells, lines)]
    shown = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    rule = "|" + "|".join("---:" if column in _RIGHT else "---" for column in range(len(_HEADS))) + "|"
    shown.insert(1, rule)
    return "\n".join([*shown, "", *_feet(lines, machine, quick)])


def as_json(lines: Sequence[Line], machine: dict[str, str], quick: bool, errors: dict[str, str]) -> dict[str, Any]:
    return {
        "machine": machine,
        "quick": quick,
        "errors": errors,
        "lines": [{**asdict(line), "verdict": line.verdict} for line in lines],
    }


def _feet(lines: Sequence[Line], machine: dict[str, str], quick: bool) -> list[str]:
    verdicts = [line.verdict for line in lines]
    feet = [
        f"{verdicts.count('pass')} pass, {verdicts.count('short')} short;"
        " FULL durability on all sides; medians of 3 rounds, interleaved.",
        "; ".join(f"{name} {value}" for name, value in machine.items()) + ".",
    ]
    if quick:
        feet.insert(0, "QUICK: one small round. This shows that the bench runs; its numbers mean nothing.")
    return feet
