"""inotify and timerfd by a few lines of ctypes (the os module has timerfd only from 3.13, inotify never).

Sources: inotify(7), timerfd_create(2), <sys/inotify.h>, <sys/timerfd.h>.
"""

import ctypes
import os
import struct
import time
from pathlib import Path

IN_MODIFY = 0x2
IN_CLOSE_WRITE = 0x8
IN_IGNORED = 0x8000
_IN_NONBLOCK = os.O_NONBLOCK
_TFD_ABSTIME = 1
_TFD_CANCEL_ON_SET = 2
_EVENT = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


class Inotify:
    """A descriptor that becomes readable when a watched file or folder changes."""

    def __init__(self) -> None:
        self.fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")

    def watch(self, path: Path, mask: int) -> int:
        """Watch a path; answers the number that its events carry. Raises OSError."""
        return _checked(_libc.inotify_add_watch(self.fd, os.fsencode(path), mask), f"inotify_add_watch {path}")

    def drain(self) -> list[tuple[int, int]]:
        """Take all waiting events, as (number, mask)."""
        events: list[tuple[int, int]] = []
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return events
            at = 0
            while at < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                events.append((number, mask))
                at += _EVENT.size + length
            if len(data) < 32768:
                return events

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


class _Spec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns")]


class Timer:
    """A descriptor that becomes readable at an instant of the wall clock, or when that clock is set."""

    def __init__(self, clock: int) -> None:
        self.fd = _checked(_libc.timerfd_create(clock, os.O_NONBLOCK | os.O_CLOEXEC), "timerfd_create")
        self._flags = _TFD_ABSTIME | (_TFD_CANCEL_ON_SET if clock == time.CLOCK_REALTIME else 0)

    def at(self, ns: int | None) -> None:
        """Ring at this instant of its clock; None switches it off."""
        spec = _Spec(0, 0, *divmod(max(ns, 1), 1_000_000_000)) if ns is not None else _Spec(0, 0, 0, 0)
        _checked(_libc.timerfd_settime(self.fd, self._flags, ctypes.byref(spec), None), "timerfd_settime")

    def drain(self) -> None:
        """Take its ringing, or the word that the clock was set."""
        try:
            os.read(self.fd, 8)
        except OSError:
            return

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)
