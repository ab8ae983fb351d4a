"""`signal`: reads the command line, runs one command, turns errors into one line and an exit code."""

import argparse
import difflib
import io
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from nextdue import NextdueError, NotAStore, OwnerBusy, StoreMissing
from signal_feeds.cli import setting_up, sources, why, work
from signal_feeds.cli.command import BAD_USAGE, BUSY, FAULT, INTERRUPTED, OK, Command
from signal_feeds.cli.output import complain, nobody_listens
from signal_feeds.errors import BadSettings, BadSource, NotAFolder, SignalError, UnknownEntry, UnknownSource
from signal_feeds.settings import FILE, here

COMMANDS: tuple[Command, ...] = (*setting_up.COMMANDS, *sources.COMMANDS, *work.COMMANDS, *why.COMMANDS)
"""All commands, in the order of `signal --help`."""
USAGE = (BadSettings, BadSource, UnknownSource, UnknownEntry, NotAFolder, NotAStore, StoreMissing)
"""What the user can put right by another command line or by the settings."""
EPILOG = """\
Exit codes: 0 done, though sources may have failed; 1 a fault, or refused for now; 2 wrong usage or settings;
3 another worker of this folder is at work.
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
        return _complain(error, BAD_USAGE if isinstance(error, USAGE) else FAULT)
    except OwnerBusy as error:
        return _complain(error, BUSY)
    except NextdueError as error:
        return _complain(error, BAD_USAGE if isinstance(error, USAGE) else FAULT)
    except sqlite3.DatabaseError as error:
        return _complain(f"{args.folder / 'signal.db'} can't be used: {error}", FAULT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        nobody_listens()
        return OK
    except OSError as error:
        if error.filename is None:
            raise  # not about a file of the user's: a fault of ours, with its traceback
        return _complain(error, FAULT)


def _complain(error: object, code: int) -> int:
    complain(str(error))
    return code


def _run(args: argparse.Namespace) -> int:
    from signal_feeds.app import Signal

    command: Command = args.command
    if not command.makes and not any((args.folder / name).exists() for name in (FILE, "signal.db")):
        raise NotAFolder(f"{args.folder} has no {FILE} and no signal.db; make them by: signal init")
    signal = Signal(args.folder)
    try:
        if not command.makes and not signal.path.exists():
            signal.install()
        return command.run(signal, args)
    finally:
        signal.close()


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="signal",
        usage="signal [--folder DIR] COMMAND ...",
        description="Collect feeds politely, publish what you approved.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--folder", metavar="DIR", help="the folder of signal.toml; default: SIGNAL_FOLDER, else this one")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for command in COMMANDS:
        own = commands.add_parser(
            command.name, prog=f"signal {command.name}", help=command.says, description=_sentence(command.says),
            allow_abbrev=False,
        )  # fmt: skip
        command.fill(own)
        own.set_defaults(command=command)
    _refuse_unknown(parser, argv)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        parser.exit()
    args.folder = here() if args.folder is None else Path(args.folder).absolute()
    return args


def _sentence(says: str) -> str:
    return f"{says[:1].upper()}{says[1:]}."


def _refuse_unknown(parser: argparse.ArgumentParser, argv: list[str]) -> None:
    """A command that isn't one, and the nearest."""
    word = next((word for word in argv if not word.startswith("-")), None)
    names = [command.name for command in COMMANDS]
    if word is None or word in names or argv[0].startswith("-"):
        return
    close = difflib.get_close_matches(word, names, 1)
    parser.error(f"there is no command {word!r}" + (f"; did you mean {close[0]}?" if close else ""))


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *ignored: object, **also: object) -> None:
        from importlib.metadata import version

        print(f"signal {version('nextdue-signal')} (nextdue {version('nextdue')})")
        parser.exit()
