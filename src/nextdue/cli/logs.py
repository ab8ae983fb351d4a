"""Where a worker's words go: its lines on stdout, the lines of the logger "nextdue" on stderr."""

import logging
import os
import sys


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """Silent once the application has set up logging of its own: each line appears once."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            self.stream = sys.stderr  # rich replaces it while a live line is shown
            super().emit(record)


def to_stderr() -> None:
    """Show the log on stderr, unless the application shows it already."""
    log = logging.getLogger("nextdue")
    if log.hasHandlers():
        return
    handler = _Stderr()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log.addHandler(handler)
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)


def say(line: str) -> None:
    """A line on stdout, at once. Does nothing when nobody listens any more: the work is more important."""
    try:
        print(line, flush=True)
    except OSError:
        nobody_listens()


def nobody_listens() -> None:
    """The reader of stdout went away, as in `| head`: what is still printed, also by Python at its end, vanishes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
