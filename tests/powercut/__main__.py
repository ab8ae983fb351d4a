"""What a power cut can lose, measured, as the table of docs/power-cuts.md.

.venv/bin/python -m tests.powercut [SECONDS]     so long for each column
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.powercut import facts
from tests.powercut.judge import Found
from tests.powercut.runs import Run

COLUMNS = {"": "nextdue as it is", "NORMAL": "all commits NORMAL", "OFF": "all commits OFF"}
PARTS = {"working": 0.8, "restoring": 0.2}
BROKEN = "The file is sound, and what was one commit is there whole or not at all."


def column(weakness: str, seconds: float, folder: Path) -> Found:
    """Both runs with this weakness, in one."""
    both = Found("")
    for part, share in PARTS.items():
        one = Run(part, folder / f"{weakness}-{part}", weakness).cut(share * seconds)
        both.states += one.states
        both.checked += one.checked
        both.lost += Counter(one.lost)
    return both


def table(columns: list[Found]) -> str:
    """In Markdown: a row for each kind of fact, a column for each way to write."""
    lines = ["| what was acknowledged | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(columns) + 1) + "|"]
    kinds = {kind: (function.__doc__ or kind).rstrip(".") for kind, function in facts.KINDS.items()}
    for kind, text in [*kinds.items(), ("broken", BROKEN.rstrip("."))]:
        if not any(found.checked[kind] for found in columns):
            continue  # said by another run
        row = [cell(found.lost[kind], found.checked[kind]) for found in columns]
        promised = " (not promised)" if kind in facts.NOT_PROMISED else ""
        lines.append(f"| {text}{promised} | {' | '.join(row)} |")
    return "\n".join(lines)


def cell(lost: int, checked: int) -> str:
    """In how many states it was lost."""
    return f"**lost** in {lost:,} of {checked:,}" if lost else f"0 of {checked:,}"


def main() -> None:
    """Print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory() as folder:
        columns = [column(weakness, seconds, Path(folder)) for weakness in COLUMNS]
    print(table(columns))


if __name__ == "__main__":
    main()
