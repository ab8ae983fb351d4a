"""docs/cli.md shows what --help prints. NEXTDUE_WRITE_DOCS=1 in the environment rewrites the page."""

import os
from pathlib import Path

from nextdue.cli.commands import COMMANDS
from nextdue.cli.parser import EPILOG

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
HEAD = """\
# The command line

What follows is what `nextdue --help` and `nextdue COMMAND --help` print; a test compares this page with it and
`NEXTDUE_WRITE_DOCS=1` in its environment rewrites the page.

Where a command takes `module:attribute`, the module is looked for in the current directory first; all but `worker`
take a database as well. Only the application creates a file: all other commands refuse a path where there is none.
A module that is named is imported, by commands that only look too: what it does at its top level happens then. A script
that enqueues must do so under `if __name__ == "__main__":`, or `nextdue ls` enqueues as well (and says so). With a
database nothing is imported. What `retry`, `run-now`, `cancel`, `purge` and `health` are for is told in
[looking after tasks](care.md).

Times are shown in local time and in UTC; in columns in local time, with the zone in the head. `ls` says roughly when
(`19:04, in 4 min`), `show` exactly. A terminal gets colors unless `NO_COLOR` is set, and long cells are cut to its
width; what is not a terminal gets plain aligned text in full. `--json` is the form for programs: instants are there
twice, as UTC text and in milliseconds since 1970 (`..._ms`).

A worker writes its first lines, its progress and its summary to stdout, and the lines of the logger `nextdue`
(failures among them) to stderr, unless the application has set up logging itself.
"""


def page(cli):
    parts = [HEAD]
    for command in ((), *((name,) for name in COMMANDS)):
        title = " ".join(("nextdue", *command))
        parts.append(f"## {title}\n\n```text\n{cli(*command, '--help')[1].rstrip()}\n```\n")
    return "\n".join(parts)


def test_the_page_shows_what_help_prints(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")  # the width of the terminal changes nothing
    shown = page(cli)
    if os.environ.get("NEXTDUE_WRITE_DOCS"):
        PAGE.write_text(shown, "utf-8")
    assert PAGE.read_text("utf-8") == shown, "NEXTDUE_WRITE_DOCS=1 rewrites docs/cli.md"


def test_every_command_is_in_the_list():
    assert [line.split()[0] for line in EPILOG.splitlines() if line.startswith("  ")] == list(COMMANDS)
