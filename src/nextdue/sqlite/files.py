"""The files beside the database and the file system they lie on."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from nextdue.errors import StoreError, StoreMissing, StoreReadOnly, Unsupported

SHARED = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "vboxsf", "vmhgfs"),
        *("afs", "ceph", "glusterfs", "lustre", "gfs2", "ocfs2", "fuse", "fuseblk"),
    )
)
"""File systems on which locks or shared memory are not coherent, so that WAL would corrupt the file."""
OURS = ("-wake", "-owner", "-workers")
"""What the files of ours beside the database are called; -wal and -shm are SQLite's."""
LINUX = sys.platform.startswith("linux")
FLEETING = frozenset({"tmpfs", "ramfs", "overlay"})
"""File systems whose content goes with a restart or the next deploy."""


def absolute(path: str | os.PathLike[str]) -> Path:
    """The path as it will be used for ever, whatever the process's directory becomes."""
    return Path(os.path.abspath(os.fspath(path)))


def filesystem(path: Path) -> str:
    """The type of the file system that holds `path` ("" where the system doesn't say)."""
    real = os.path.realpath(path.parent)
    found, longest = "", -1
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    for line in mounts:
        left, _, right = line.partition(" - ")
        point = left.split()[4].encode("latin-1", "replace").decode("unicode_escape")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:
            found, longest = right.split()[0], len(point)
    return found


def is_shared(kind: str) -> bool:
    """Whether SQLite's WAL isn't safe on this type of file system."""
    return kind in SHARED or kind.startswith("fuse.")


def refuse_shared(path: Path) -> None:
    """Raise Unsupported where SQLite's WAL isn't safe."""
    if sys.platform == "win32":
        raise Unsupported("nextdue doesn't run on Windows; in WSL, on WSL's own disk, it does")
    kind = filesystem(path)
    if is_shared(kind):
        raise Unsupported(
            f"{path} lies on {kind}, where locks and shared memory are not coherent and SQLite's WAL would corrupt "
            "it; put the file on a local disk"
        )


def create(path: Path) -> None:
    """Make an empty file that only its owner can read; leave an existing one as it is."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise StoreError(f"{path} is a directory; give the path of a file in it") from None
    except FileNotFoundError:
        raise StoreMissing(f"{path.parent} doesn't exist; make the directory first") from None
    except PermissionError as exc:
        raise StoreReadOnly(f"{path} can't be created: {exc.strerror}") from None
    except (OSError, UnicodeError) as exc:
        raise StoreError(f"{path!a} can't be created: {exc}") from None


def is_wal(path: Path) -> bool:
    """Whether the file is in WAL mode, by its -wal or its header (https://sqlite.org/fileformat2.html, offset 18).

    With a -wal it may be open in this process too: to open and close it here would drop the locks of that.
    """
    if beside(path, "-wal").exists():
        return True
    try:
        with path.open("rb") as file:
            return file.read(20)[18:] == b"\2\2"
    except OSError:
        return True  # SQLite will say what is wrong with it


def beside(path: Path, suffix: str) -> Path:
    """A file of ours beside the database."""
    return path.with_name(path.name + suffix)


def mode_of(path: Path) -> int:
    """The permissions of the database, which the files beside it share."""
    return os.stat(path).st_mode & 0o666


Identity = tuple[int, int]
Status = tuple[int, int, int]


def identity(path: Path) -> Identity | None:
    """Device and inode: the same as long as it is the same file. None if there is no file."""
    found = status_of(path)()
    return None if found is None else found[:2]


def status_of(path: Path) -> Callable[[], Status | None]:
    """A function that tells the file's device, inode and size each time; None if there is no file."""
    if LINUX:
        from nextdue.sqlite import linux  # here, for `import nextdue` shall not load ctypes

        return linux.status_of(path)

    def status() -> Status | None:
        try:
            found = os.stat(path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size

    return status
