"""Saying who blocks the event loop: a thread beside it that looks on only while the loop has work.

A loop that waits is inside its selector; so long as it is anywhere else, one coroutine has it and all others stand
still. The selector notes when it was left, and the watch reads that note at most once a second.
"""

import logging
import selectors
import sys
import threading
import time
from collections.abc import Callable

log = logging.getLogger("nextdue")

BLOCKED_S = 1.0
"""How long a coroutine may keep the loop to itself before it is reported."""


class WatchedSelector(selectors.DefaultSelector):
    """A selector that notes since when (monotonic seconds) its loop is busy, and tells it to a sleeping watch."""

    def __init__(self) -> None:
        super().__init__()
        self.busy_since: float | None = None
        self.left = threading.Event()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As in the base class."""
        self.busy_since = None
        ready = super().select(timeout)
        self.busy_since = time.monotonic()
        if not self.left.is_set():
            self.left.set()
        return ready

    def close(self) -> None:
        """As in the base class; the watch needn't sleep any longer."""
        super().close()
        self.left.set()


def watch(selector: WatchedSelector, thread: threading.Thread, who: Callable[[], str | None]) -> None:
    """Report from now on each task that blocks the loop of `thread`, once, for as long as that thread lives.

    `who` names the task that has the loop at the moment. Raises RuntimeError if there can be no thread for it.
    """

    def look() -> None:
        told: set[str] = set()
        while thread.is_alive():
            selector.left.wait()
            selector.left.clear()
            thread.join(BLOCKED_S)
            since = selector.busy_since
            if since is None:
                continue
            thread.join(max(0.0, since + BLOCKED_S - time.monotonic()))
            if selector.busy_since == since and thread.is_alive():
                _report(thread, who() or "a coroutine that a task has started beside itself", told)

    threading.Thread(target=look, name="nextdue-watch", daemon=True).start()


def _report(thread: threading.Thread, who: str, told: set[str]) -> None:
    name = who.partition(" #")[0]
    if name in told:
        return
    told.add(name)
    frame = sys._current_frames().get(thread.ident or 0)
    log.warning(
        "%s blocks the event loop for over %g s, at %s: all other coroutines stand still. "
        "Write await asyncio.to_thread(...) for what takes long, or a plain function",
        who,
        BLOCKED_S,
        f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?",
    )
