"""What a worker shows while it works: nothing while it is idle, for an idle worker must not wake up."""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nextdue.cli.logs import say
from nextdue.records import Settlement
from nextdue.worker import Worker

EVERY_S = 10.0
"""The time between two summary lines where there is no terminal."""
REFRESH_S = 0.25
"""The shortest time between two refreshes on a terminal."""


class Progress(Protocol):
    """Told by the worker of each batch that was settled."""

    def begin(self, worker: Worker) -> None:
        """The worker is ready."""
        ...

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """The hook of the worker."""
        ...

    def end(self) -> None:
        """No more will come."""
        ...


def make_progress() -> Progress:
    """A live line on a terminal, else a line now and then."""
    if sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        return LiveLine()
    return Lines(say)


class Lines:
    """At most one summary line per 10 s, printed when something was settled; no timer."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._counts: Counter[str] = Counter()
        self._said = clock()

    def begin(self, worker: Worker) -> None:
        self._said = self._clock()

    def settled(self, settlements: Sequence[Settlement]) -> None:
        self._counts.update(s.outcome for s in settlements)
        now = self._clock()
        if now - self._said >= EVERY_S:
            self._said = now
            self._say(text(self._counts))

    def end(self) -> None:
        return


class LiveLine:
    """One line that is rewritten in place, at most 4 times a second and only when something was settled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._drawn = float("-inf")
        self._timer: threading.Timer | None = None
        self._live: Any = None
        self._worker: Worker | None = None

    def begin(self, worker: Worker) -> None:
        from rich.console import Console
        from rich.live import Live

        self._worker = worker
        # Without auto_refresh rich has no thread that wakes up; prints of tasks appear above the line.
        self._live = Live("", console=Console(highlight=False), auto_refresh=False)
        self._live.start()

    def settled(self, settlements: Sequence[Settlement]) -> None:
        with self._lock:
            self._counts.update(s.outcome for s in settlements)
            if self._live is None or self._timer is not None:
                return
            wait = self._drawn + REFRESH_S - time.monotonic()
            if wait <= 0:
                self._draw()
            else:
                # One shot, so that the last change of a burst is shown too.
                self._timer = threading.Timer(wait, self._on_time)
                self._timer.daemon = True
                self._timer.start()

    def _on_time(self) -> None:
        with self._lock:
            self._timer = None
            self._draw()

    def _draw(self) -> None:
        if self._live is not None:
            running = len(self._worker.running) if self._worker else 0
            self._live.update(f"{text(self._counts)}, {running} running", refresh=True)
            self._drawn = time.monotonic()

    def end(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            live, self._live = self._live, None
            if live is not None:
                live.update("")
                live.stop()


def text(counts: Counter[str]) -> str:
    """The counts so far, the usual ones first.

    >>> text(Counter(failed=1, done=1200))
    '1,200 done, 1 failed'
    """
    order = ("done", "failed", "dead")
    words = [*order, *sorted(set(counts) - set(order))]
    return ", ".join(f"{counts[word]:,} {word}" for word in words if counts[word]) or "0 done"
