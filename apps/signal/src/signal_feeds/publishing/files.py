"""Files that appear together: none before all are on disk, each whole or not at all."""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from signal_feeds.errors import Unwritable


class Placed(NamedTuple):
    """A file, and whether it is another one than before."""

    path: Path
    changed: bool


def place(folder: Path, files: Mapping[str, bytes]) -> list[Placed]:
    """Write files into a folder, which is made if only it is missing. Raises Unwritable; then nothing has changed.

    A temporary file beside each, fsync, and when all are there, the renames and fsync of the folder. One that would be
    the same is left alone, with its time. Only a crash between two renames leaves some new and some old ones.
    """
    folder, made, renamed = folder.absolute(), False, 0
    try:
        made = _make(folder)
        with contextlib.ExitStack() as stack:
            fresh = [stack.enter_context(_beside(Path(os.path.realpath(folder / name)), files[name])) for name in files]
            for source, target in filter(None, fresh):
                os.rename(source, target)
                renamed += 1
            _sync(folder)
    except OSError as error:
        if made and not renamed:
            with contextlib.suppress(OSError):
                folder.rmdir()
        key, why = "file.half" if renamed else "file.unwritable", error.strerror or error
        raise Unwritable(key, path=error.filename or folder, why=why) from None
    return [Placed(folder / name, pair is not None) for name, pair in zip(files, fresh, strict=True)]


def _make(folder: Path) -> bool:
    """Whether it had to be made. Only the last folder of the path: a path that is half wrong is a slip."""
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is a file, not a folder", str(folder)) from None
        return False
    return True


@contextlib.contextmanager
def _beside(target: Path, content: bytes) -> Iterator[tuple[Path, Path] | None]:
    """A temporary file with this content on disk, and its target; None if the target has that content."""
    if _has(target, content):
        yield None
        return
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        fd = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        error.filename = str(target)  # the one that somebody asked for
        raise
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(fd, os.stat(target).st_mode & 0o7777)
            os.fsync(fd)
        yield fresh, target
    finally:
        with contextlib.suppress(FileNotFoundError):  # renamed by now, if all went well
            fresh.unlink()


def _has(target: Path, content: bytes) -> bool:
    try:
        # Reading also finds now, before anything is renamed, what can't be replaced.
        return target.read_bytes() == content
    except FileNotFoundError:
        return False


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
