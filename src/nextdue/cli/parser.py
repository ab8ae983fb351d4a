"""The command line as a whole: what is asked for, and what is wrong with it."""

import argparse
import difflib
from collections.abc import Sequence
from typing import Any

from nextdue.cli.commands import COMMANDS, Help

EPILOG = """\
work:
  worker     run tasks until stopped
  demo       see it survive: real work, a worker killed three times
  prove      see its laws hold in simulated worlds full of crashes
tasks:
  add        put a task
  ls         list tasks
  show       one task and its runs
  why        why a task hasn't run yet
  retry      start dead, held, cancelled or failed tasks anew
  resolve    say whether a step in doubt has happened
  send       send an event to the tasks that wait for it
  run-now    make waiting tasks due now
  cancel     cancel tasks
  purge      remove finished tasks and old history
schedules:
  explain    a cron expression in words, and when it comes next
  schedules  what runs again and again; pause, resume or remove it
  forecast   what will run tonight
the file:
  health     is all that is due being run? for monitoring
  check      look for broken rows
  doctor     look for trouble around the file
  pause      let no worker start a queue, a name or a task
  resume     end a pause
  backup     write a verified copy while others work
  restore    put a backup in the file's place, held
  release    let a restored file work again
  uninstall  remove nextdue from a database

`nextdue COMMAND --help` tells more. APP is module:attribute, like shop:nd; TARGET may also be
a database, like shop.db; where it is left out, the variable NEXTDUE is read.

Exit codes: 0, 1 a fault, 2 wrong usage, 3 another exclusive worker is at work.
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command in `run`, and its options. Raises SystemExit when all is said: help, version, wrong usage."""
    parser = make_parser()
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        close = difflib.get_close_matches(argv[0], COMMANDS, 1)
        parser.error(f"there is no command {argv[0]!r}" + (f"; did you mean {close[0]}?" if close else ""))
    args, rest = parser.parse_known_args(argv)
    if args.run is None:
        parser.print_help()
        parser.exit()
    # argparse wants all words in one piece; an option between them is as good.
    words = getattr(args, "words", None)
    if words is not None:
        words += [word for word in rest if not word.startswith("-")]
        rest = [word for word in rest if word.startswith("-")]
    if rest:
        args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="nextdue",
        usage="nextdue COMMAND ...",
        description="Deferred tasks that survive, in one SQLite file.",
        epilog=EPILOG,
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.set_defaults(run=None)
    # Their list would come without groups; the epilog shows it.
    commands = parser.add_subparsers(metavar="COMMAND", help=argparse.SUPPRESS)
    for name, fill in COMMANDS.items():
        fill(commands, name)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *ignored: Any, **also: Any) -> None:
        from importlib.metadata import version
        from platform import python_version
        from sqlite3 import sqlite_version

        print(f"nextdue {version('nextdue')} (Python {python_version()}, SQLite {sqlite_version})")
        parser.exit()
