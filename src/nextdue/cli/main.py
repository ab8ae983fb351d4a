"""`nextdue`: reads the command line, runs one command, turns errors into one line and an exit code."""

import io
import sys
from collections.abc import Sequence

from nextdue.cli.logs import nobody_listens
from nextdue.cli.parser import parse
from nextdue.cli.target import ImportFailed
from nextdue.errors import (
    BadArguments,
    BadDefinition,
    BadTime,
    NextdueError,
    NotAStore,
    NotInDoubt,
    OwnerBusy,
    StoreMissing,
    UnknownTask,
)

USAGE = (BadDefinition, BadTime, BadArguments, UnknownTask, StoreMissing, NotAStore, NotInDoubt)
"""What the user can put right by another command line."""
OK, FAULT, BAD_USAGE, BUSY = 0, 1, 2, 3
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit code: 0, 1 for a fault of ours, 2 for wrong usage, 3 if the owner is busy."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        args = parse(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as end:  # --help, --version and wrong usage: already said
        return end.code if isinstance(end.code, int) else BAD_USAGE
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except ImportFailed as exc:
        return _complain(exc, BAD_USAGE)
    except OwnerBusy as exc:
        return _complain(exc, BUSY)
    except NextdueError as exc:
        return _complain(exc, BAD_USAGE if isinstance(exc, USAGE) else FAULT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        nobody_listens()
        return OK
    except OSError as exc:
        if exc.filename is None:
            raise  # not about a file of the user's: a fault of ours, with its traceback
        wrong_path = isinstance(exc, FileNotFoundError | NotADirectoryError | IsADirectoryError)
        return _complain(exc, BAD_USAGE if wrong_path else FAULT)


def _complain(exc: Exception, code: int) -> int:
    print(f"nextdue: {exc}", file=sys.stderr)
    return code
