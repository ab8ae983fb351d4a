"""inotify, timerfd and statx by a few lines of ctypes (the os module has timerfd only from 3.13, the others never).

Sources: inotify(7), timerfd_create(2), statx(2), <sys/inotify.h>, <sys/timerfd.h>, <linux/stat.h>.
"""

import ctypes
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

IN_MODIFY = 0x2
IN_ATTRIB = 0x4
IN_CLOSE_WRITE = 0x8
IN_MOVE_SELF = 0x800
IN_IGNORED = 0x8000
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
                data = os.read(self.fd, 4096)
            except BlockingIOError:
                return events
            at = 0
            while at < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                events.append((number, mask))
                at += _EVENT.size + length
            if len(data) < 2048:
                return events

    def discard(self) -> bool:
        """Take all waiting events unread; whether there were any."""
        found = False
        try:
            while len(os.read(self.fd, 4096)) > 2048:
                found = True
        except BlockingIOError:
            return found
        return True

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


class _Spec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns")]


class Timer:
    """A descriptor that becomes readable at an instant of the wall clock, or when that clock is set."""

    def __init__(self, clock: int) -> None:
        self.fd = _checked(_libc.timerfd_create(clock, os.O_NONBLOCK | os.O_CLOEXEC), "timerfd_create")
        self._at: int | None = None
        self._flags = _TFD_ABSTIME | (_TFD_CANCEL_ON_SET if clock == time.CLOCK_REALTIME else 0)

    def at(self, ns: int | None) -> None:
        """Ring at this instant of its clock; None switches it off. To be set again once it rang."""
        if ns == self._at:
            return
        self._at = ns
        spec = _Spec(0, 0, *divmod(max(ns, 1), 1_000_000_000)) if ns is not None else _Spec(0, 0, 0, 0)
        _checked(_libc.timerfd_settime(self.fd, self._flags, ctypes.byref(spec), None), "timerfd_settime")

    def drain(self) -> bool:
        """Take its ringing; False if it only says that the clock was set."""
        self._at = None
        try:
            os.read(self.fd, 8)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


_AT_FDCWD = -100
_STATX_INO_AND_SIZE = 0x300
_STATUS = struct.Struct("32x Q Q 88x I I 112x")
_held = ctypes.PyDLL(None)
"""The same library, called without letting go of the interpreter: with busy threads that costs 5 ms a call."""
_held.statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def status_of(path: Path) -> Callable[[], tuple[int, int, int] | None]:
    """A function that tells a file's device, inode and size; None if there is none or it can't be told.

    os.stat would ask for the times as well. Since Linux 6.13 whoever asks makes the next write record a finer one,
    which makes each commit of the WAL a third dearer (measured 2026-11-30 on ext4, Linux 6.18: 258 against 193 us).
    """
    statx, name = _held.statx, os.fsencode(path)
    found = ctypes.create_string_buffer(_STATUS.size)
    address = ctypes.addressof(found)

    def status() -> tuple[int, int, int] | None:
        if statx(_AT_FDCWD, name, 0, _STATX_INO_AND_SIZE, address) != 0:
            return None
        inode, size, major, minor = _STATUS.unpack_from(found)
        return major << 32 | minor, inode, size

    return status
