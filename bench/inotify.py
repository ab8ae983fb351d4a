"""The raw notification probe: a byte is written to a file, another process sleeps in inotify until it is."""

from __future__ import annotations

import ctypes
import os
import select
from pathlib import Path

_IN_MODIFY = 0x2
_IN_CLOEXEC = 0o2000000
_EVENT_BYTES = 16  # struct inotify_event of a watched file carries no name


class Watch:
    """Modifications of one file."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = library.inotify_init1(_IN_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        if library.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_MODIFY) < 0:
            raise OSError(ctypes.get_errno(), f"inotify_add_watch {path}")

    def wait(self, timeout_s: float) -> int:
        """Sleep until the file is modified; how many events there were (0: time out)."""
        ready, _, _ = select.select([self._descriptor], [], [], timeout_s)
        return len(os.read(self._descriptor, 64 * _EVENT_BYTES)) // _EVENT_BYTES if ready else 0

    def close(self) -> None:
        os.close(self._descriptor)
