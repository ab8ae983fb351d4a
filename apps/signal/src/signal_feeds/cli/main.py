"""`signal`: reads the command line, runs one command, turns errors into one line and an exit code."""

import argparse
import difflib
import io
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nextdue import NextdueError, NotAStore, OwnerBusy, StoreMissing
from signal_feeds.app import Signal
from signal_feeds.cli import editing, exchange, serve, setting_up, sources, why, work
from signal_feeds.cli.output import complain, nobody_listens
from signal_feeds.errors import (
    BadFingerprint,
    BadSettings,
    BadSource,
    CannotServe,
    NotAFolder,
    NothingAsked,
    SignalError,
    UnknownEntry,
    UnknownSource,
    Unreadable,
)
from signal_feeds.settings import DATABASE, FILE, here, read_settings
from signal_feeds.texts import Language

MODULES = (setting_up, sources, work, why, editing, exchange, serve)
"""Their add_commands(commands) add parsers, each with `run(signal, args)`, which answers the exit code. In the order of
`signal --help`. What a person did wrong is raised as SignalError, and shown here."""
OK, FAULT, BAD_USAGE, BUSY, INTERRUPTED = 0, 1, 2, 3, 130
USAGE = (
    BadSettings, BadSource, UnknownSource, UnknownEntry, BadFingerprint, NothingAsked, Unreadable, NotAFolder,
    CannotServe, NotAStore, StoreMissing,
)  # fmt: skip
"""What the user can put right by another command line or by the settings."""
HINTS = {
    sqlite3.SQLITE_READONLY: "; SQLite must be able to write into this folder, also to read",
    sqlite3.SQLITE_IOERR: "; is the disk full?",
}
EPILOG = """\
Exit codes: 0 done, though sources may have failed; 1 a fault, or refused for now; 2 wrong usage or settings;
3 another worker of this folder is at work. `signal COMMAND --help` tells more.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        args = _parse(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as end:  # --help, --version and wrong usage: already said
        return end.code if isinstance(end.code, int) else BAD_USAGE
    try:
        code = _run(args)
        sys.stdout.flush()
        return code
    except SignalError as error:
        return _complain(error.in_words(_language(args)), BAD_USAGE if isinstance(error, USAGE) else FAULT)
    except OwnerBusy as error:
        return _complain(error, BUSY)
    except NextdueError as error:
        return _complain(error, BAD_USAGE if isinstance(error, USAGE) else FAULT)
    except sqlite3.DatabaseError as error:
        hint = HINTS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "")
        return _complain(f"{_folder(args) / DATABASE} can't be used: {error}{hint}", FAULT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        nobody_listens()
        return OK
    except OSError as error:
        if error.filename is None:
            raise  # not about a file of the user's: a fault of ours, with its traceback
        return _complain(f"{error.filename} can't be used ({error.strerror})", FAULT)


def _complain(error: object, code: int) -> int:
    complain(str(error))
    return code


def _run(args: argparse.Namespace) -> int:
    folder = _folder(args)
    if not args.makes and not any((folder / name).exists() for name in (FILE, DATABASE)):
        raise NotAFolder("folder.none", folder=folder)
    signal = Signal(folder)
    try:
        if not args.makes and not args.locks and not signal.path.exists():
            signal.install()
        code: int = args.run(signal, args)
        return code
    finally:
        signal.close()


def _folder(args: argparse.Namespace) -> Path:
    return here() if args.folder is None else Path(args.folder).absolute()


def _language(args: argparse.Namespace) -> Language:
    """That of the folder; English where its settings can't be read."""
    try:
        return read_settings(_folder(args)).language
    except BadSettings:
        return "en"


class _Parser(argparse.ArgumentParser):
    """No abbreviations: what is one today may mean two things tomorrow."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="signal",
        usage="signal [--folder DIR] COMMAND ...",
        description="Collect feeds politely, publish what you approved.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--folder", metavar="DIR", help="with signal.toml; default: SIGNAL_FOLDER, else the current one"
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.set_defaults(run=None, makes=False, locks=False)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", prog="signal", parser_class=_Parser)
    for module in MODULES:
        module.add_commands(commands)
    _refuse_unknown(parser, argv, list(commands.choices))
    args = parser.parse_args(argv)
    if args.run is None:
        parser.print_help()
        parser.exit()
    return args


def _refuse_unknown(parser: argparse.ArgumentParser, argv: list[str], names: list[str]) -> None:
    """A first word that is no command, and the nearest."""
    if not argv or argv[0].startswith("-") or argv[0] in names:
        return
    close = difflib.get_close_matches(argv[0], names, 1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    parser.error(f"there is no command {argv[0]!r}; {hint}")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *ignored: object, **also: object) -> None:
        from importlib.metadata import version

        print(f"signal {version('nextdue-signal')} (nextdue {version('nextdue')})")
        parser.exit()
