"""Sleeping until something is to be done: no polling, and no wake-up is ever lost.

`<db>-wake` is written by whoever put a nearer task; inotify shows that in every process. The WAL is watched too,
for commits by raw SQL and users' own connections. The order that loses nothing: take the waiting events, make sure
that no commit is in flight, look, and only then wait. An event taken before a look can't hide a commit from it.
"""

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nextdue.ports import Woken
from nextdue.sqlite.files import beside, mode_of

LONGEST_S = 3_600.0
"""The longest sleep where clock steps and resumes are noticed."""
LONGEST_BLIND_S = 1.0
"""The time between two looks where nothing can be watched."""
GRACE_S = 0.000_4
"""An event of the WAL comes before its commit is visible; a ring, if there is one, comes within this."""
PAUSE_S = (0.005, 0.020)
"""Shortest and longest pause between two looks while others keep committing."""
BUSY_S = 0.000_25
"""First pause while somebody's commit is in flight."""
EXACT_S = 0.003
"""Below this a wait is timed by a timer; epoll's own timeout is cheaper, but up to a millisecond late."""
CALM_S = 0.050
"""After so long without a foreign commit, the next one is looked at once."""
DEATH_S = 0.001
"""From the event of a death to the probe: the lock is let go of just after."""
DEATHS_S = 10.0
"""The time between two probes for dead neighbours where nothing can be watched."""


class Bell:
    """Rings the alarms of all workers on this file, in any process."""

    def __init__(self, database: Path) -> None:
        self._path, self._mode = beside(database, "-wake"), mode_of(database)
        self._fd = self._open()

    def _open(self) -> int:
        return os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, self._mode)

    def ring(self) -> None:
        """Write the byte that wakes them. If that can't be done, the commit itself wakes them a little later."""
        with contextlib.suppress(OSError):
            if os.fstat(self._fd).st_nlink == 0:
                os.close(self._fd)
                self._fd = self._open()
            os.pwrite(self._fd, b"\n", 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def ring(database: Path) -> None:
    """Make every idle worker of this file look again, for those who ring once."""
    with contextlib.closing(Bell(database)) as bell:
        bell.ring()


def make_alarm(
    database: Path,
    quiet: Callable[[], bool],
    check_file: Callable[[], None],
    pause_s: tuple[float, float] = PAUSE_S,
) -> "LinuxAlarm | PlainAlarm":
    """The best alarm that this platform has.

    `quiet` says whether no commit is in flight, `check_file` raises StoreGone if the file was deleted or replaced,
    `pause_s` are the shortest and longest pause between two looks while others keep committing.
    """
    linux = sys.platform == "linux"
    return LinuxAlarm(database, quiet, check_file, pause_s) if linux else PlainAlarm(check_file)


class LinuxAlarm:
    """ports.Alarm by inotify, timerfd and eventfd: wakes in well under a millisecond, and not at all when idle."""

    def __init__(
        self,
        database: Path,
        quiet: Callable[[], bool],
        check_file: Callable[[], None],
        pause_s: tuple[float, float] = PAUSE_S,
    ) -> None:
        from nextdue.sqlite import linux

        self._quiet, self._check_file, self._pause_s = quiet, check_file, pause_s
        self._linux = linux
        self._wake_path, self._folder = beside(database, "-wake"), beside(database, "-workers")
        self._bell = Bell(database)
        self._called = self._asleep = self._listening = self._come = False
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rings, self._commits = linux.Inotify(), linux.Inotify()
        self._wall, self._soon = linux.Timer(time.CLOCK_REALTIME), linux.Timer(time.CLOCK_MONOTONIC)
        self._deaths = self._rings.watch(self._folder, linux.IN_CLOSE_WRITE)
        self._wakes = self._rings.watch(self._wake_path, linux.IN_MODIFY)
        for file in (database, beside(database, "-wal")):
            self._rings.watch(file, linux.IN_ATTRIB | linux.IN_MOVE_SELF)
        check_file()  # what came before the watching
        self._commits.watch(beside(database, "-wal"), linux.IN_MODIFY)
        self._epoll = select.epoll()
        for fd in (self._event, self._rings.fd, self._wall.fd, self._soon.fd):
            self._epoll.register(fd, select.EPOLLIN)
        self._epoll.register(self._commits.fd, 0)

    def ring(self) -> None:
        self._bell.ring()

    def call(self) -> None:
        if not self._called:
            self._called = True
            if self._asleep:
                os.eventfd_write(self._event, 1)

    def sleep(self, look: Callable[[], int | None], limit_ms: int | None, *, full: bool = False) -> Woken:
        end = time.monotonic() + min(LONGEST_S, LONGEST_S if limit_ms is None else limit_ms / 1000)
        self._asleep = True
        try:
            # Whoever calls from here on writes to the eventfd; whoever called before left the flag.
            if self._called:
                return Woken.CALLED
            return self._rest(look, end) if full else self._sleep(look, end)
        finally:
            self._asleep = self._called = False

    def _rest(self, look: Callable[[], int | None], end: float) -> Woken:
        """Sleep without room for more: nothing of the WAL counts, and no due. What rang before is still to be read."""
        self._take_events()
        # A due of the last look may pass meanwhile; its timer would never let the limit be seen.
        self._wall.at(None)
        while (woken := self._why(self._poll(end), end)) is None:
            look()
        return woken

    def _sleep(self, look: Callable[[], int | None], end: float) -> Woken:
        woken: Woken | None = None
        pause = in_flight = 0.0
        streaming = False
        while woken is None:
            self._take_events()
            if self._interrupted():
                return Woken.CALLED
            # While others go on committing the next look comes anyway, so this one needn't see the last of them.
            sure = not streaming and self._quiet()
            if self._interrupted():
                return Woken.CALLED
            wait_ms = look()
            if wait_ms is not None and wait_ms <= 0:
                return Woken.DUE
            self._set_wall(wait_ms)
            if not (sure or streaming):
                in_flight = min(max(in_flight * 2, BUSY_S), self._pause_s[1])
                woken = self._why(self._poll(min(end, time.monotonic() + in_flight)), end)
                continue
            in_flight = 0.0
            if pause:  # deaf to the WAL for a while
                happened = self._poll(min(end, time.monotonic() + pause))
                woken, streaming = self._why(happened, end), self._commits.discard()
                if streaming:
                    pause = min(pause * 2, self._pause_s[1])
                if streaming or happened is not None or woken is not None or not sure:
                    continue
            woken, pause = self._listen(end, pause)
        return woken

    def _interrupted(self) -> bool:
        """Whether somebody called meanwhile: a short task is through before the first look, which can be spared."""
        if self._called:
            with contextlib.suppress(BlockingIOError):  # else it is yet to be written, and ends the next sleep
                os.eventfd_read(self._event)
        return self._called

    def _set_wall(self, wait_ms: int | None) -> None:
        at = None if wait_ms is None else (time.time_ns() // 1_000_000 + wait_ms) * 1_000_000
        self._wall.at(at)

    def _listen(self, end: float, pause: float) -> tuple[Woken | None, float]:
        """Wait for anything; answers why to return (None: look again) and how long to be deaf after that look."""
        self._epoll.modify(self._commits.fd, select.EPOLLIN | select.EPOLLONESHOT)
        self._listening = True
        begun = time.monotonic()
        happened = self._poll(end)
        if happened != self._commits.fd:
            return self._why(happened, end), 0.0
        if pause and time.monotonic() - begun < CALM_S:
            return None, min(pause * 2, self._pause_s[1])
        happened = self._poll(time.monotonic() + GRACE_S)
        return self._why(happened, end), self._pause_s[0]

    def _why(self, happened: int | None, end: float) -> Woken | None:
        if happened == self._event:
            os.eventfd_read(self._event)
            return Woken.CALLED
        if happened == self._wall.fd and self._come:
            return Woken.DUE
        if happened == self._rings.fd and self._take_rings():
            time.sleep(DEATH_S)
            return Woken.DEATH
        # Whatever happened: rings without a pause must not keep a lease from being renewed.
        return Woken.LIMIT if time.monotonic() >= end else None

    def _poll(self, until: float) -> int | None:
        """The descriptor of what happened first, or None when `until` (monotonic, s) came."""
        left = until - time.monotonic()
        exact = left < EXACT_S
        self._soon.at(int(until * 1e9) if exact else None)
        found = {fd for fd, _ in self._epoll.poll(None if exact else left)}
        if self._soon.fd in found:
            self._soon.drain()
        if self._wall.fd in found:
            self._come = self._wall.drain()
        return next((fd for fd in (self._event, self._rings.fd, self._wall.fd, self._commits.fd) if fd in found), None)

    def _take_events(self) -> None:
        if self._listening:
            self._epoll.modify(self._commits.fd, 0)
            self._listening = False
        self._commits.discard()

    def _take_rings(self) -> bool:
        """Take the rings; whether a neighbour died among them."""
        died = False
        for number, mask in self._rings.drain():
            if number == self._deaths:
                died = True
            elif number != self._wakes:
                self._check_file()
            elif mask & self._linux.IN_IGNORED:
                self._bell.ring()  # somebody deleted the file: makes a new one
                self._wakes = self._rings.watch(self._wake_path, self._linux.IN_MODIFY)
        return died

    def close(self) -> None:
        self._epoll.close()
        for part in (self._rings, self._commits, self._wall, self._soon, self._bell):
            part.close()

    def __del__(self) -> None:
        # Not by close(): whoever is about to write to it, in another thread, holds this object for so long.
        with contextlib.suppress(AttributeError):
            os.close(self._event)


class PlainAlarm:
    """ports.Alarm where files can't be watched: looks every second."""

    def __init__(self, check_file: Callable[[], None]) -> None:
        self._check_file = check_file
        self._changed = threading.Condition()
        self._called = False

    def ring(self) -> None:
        self.call()

    def call(self) -> None:
        with self._changed:
            self._called = True
            self._changed.notify()

    def sleep(self, look: Callable[[], int | None], limit_ms: int | None, *, full: bool = False) -> Woken:
        end = time.monotonic() + min(DEATHS_S, DEATHS_S if limit_ms is None else limit_ms / 1000)
        while True:
            self._check_file()
            wait_ms = look()
            if wait_ms is not None and wait_ms <= 0:
                return Woken.DUE
            left = end - time.monotonic()
            if left <= 0:
                return Woken.LIMIT | Woken.DEATH
            nap = min(left, LONGEST_BLIND_S, LONGEST_BLIND_S if wait_ms is None else wait_ms / 1000)
            with self._changed:
                if self._changed.wait_for(lambda: self._called, nap):
                    self._called = False
                    return Woken.CALLED

    def close(self) -> None:
        """It holds nothing."""
