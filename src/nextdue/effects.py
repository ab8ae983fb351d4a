"""Effects that a repeat can't harm: a file that is there whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from nextdue.points import point


@contextlib.contextmanager
def replace(
    path: str | os.PathLike[str],
    mode: str = "w",
    *,
    encoding: str | None = None,
    newline: str | None = None,
    before_rename: Callable[[], None] = lambda: None,
) -> Iterator[IO[Any]]:
    """Write a file that appears under its name only when it is complete and on disk.

    A temporary file in the same directory, fsync, rename, fsync of the directory. If the block raises, or
    `before_rename` does, the old file stays and the temporary one is removed. An existing file keeps its
    permissions. Text is UTF-8 unless `encoding` says otherwise; `mode` is "w" or "wb".
    """
    if mode not in ("w", "wb"):
        raise ValueError(f'replace() writes whole files: mode must be "w" or "wb", not {mode!r}')
    target = Path(os.path.realpath(path))
    fresh = temporary_beside(target)
    if mode == "w":
        encoding = encoding or "utf-8"
    fd = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        # A descriptor of its own: the block may close the file itself, as archive writers do.
        with os.fdopen(os.dup(fd), mode, encoding=encoding, newline=newline) as file:
            yield file
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(fd, os.stat(target).st_mode & 0o7777)
        os.fsync(fd)
        before_rename()
        point("replace", target)
        os.rename(fresh, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        raise
    finally:
        os.close(fd)
    sync_directory(target.parent)
    point("replaced", target)


def temporary_beside(target: Path) -> Path:
    """A new name in the same directory, for what is renamed when it is complete."""
    # Cut, so that a name of the greatest length has room for the rest; 40 characters may have four bytes each.
    return target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.tmp")


def sync_directory(folder: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
