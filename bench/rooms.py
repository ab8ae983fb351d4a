"""A room is a fresh folder on a real disk: one database, its records, the logs of its processes."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import records

TOP = Path(__file__).resolve().parent.parent

# fsync costs nothing on these, so that a figure measured there would say nothing about durability.
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})


class NoDisk(RuntimeError):
    """No folder on a real disk was found."""


@dataclass(frozen=True)
class Room:
    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / "bench.db"

    @property
    def records_path(self) -> Path:
        return self.folder / "records"

    def records(self) -> list[records.Record]:
        return records.read(self.records_path)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def environment(self) -> dict[str, str]:
        """What the processes of this room need to find its files and the bench package."""
        paths = [str(TOP), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            records.DATABASE_VARIABLE: str(self.database),
            records.RECORDS_VARIABLE: str(self.records_path),
            "PYTHONPATH": os.pathsep.join(paths),
        }


def file_system(path: Path) -> str:
    """Type of the file system that holds `path`, from the mount table ("unknown" where there is none)."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    real = path.resolve()
    best, answer = -1, "unknown"
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = Path(before.split(" ")[4].replace("\\040", " "))
        # <=: of two mounts on one point the later one lies on top
        if (real == mount or mount in real.parents) and best <= len(mount.parts):
            best, answer = len(mount.parts), after.split(" ")[0]
    return answer


@contextmanager
def base_folder() -> Iterator[Path]:
    """A folder for all rooms of a run, under build/ of the checkout or $TMPDIR, removed at the end."""
    seen = []
    for parent in (TOP / "build", Path(tempfile.gettempdir())):
        try:
            parent.mkdir(exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
        except OSError as error:
            seen.append(f"{parent}: {error}")
            continue
        kind = file_system(folder)
        if kind in _IN_MEMORY:
            folder.rmdir()
            seen.append(f"{parent}: {kind}")
            continue
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    raise NoDisk(f"The bench needs a folder on a real disk; set TMPDIR to one. Seen: {'; '.join(seen)}")


@contextmanager
def fresh_room(base: Path) -> Iterator[Room]:
    """A room that is removed after use; kept when the block fails, until the run's end, for its logs."""
    room = Room(Path(tempfile.mkdtemp(dir=base)))
    yield room
    shutil.rmtree(room.folder, ignore_errors=True)


def fsync_cost_ms(folder: Path, samples: int = 50) -> float:
    """Median cost of making 4 KiB durable by fdatasync, what SQLite calls for each commit."""
    path = folder / "fsync-probe"
    costs = []
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for index in range(samples):
            os.pwrite(descriptor, bytes(4096), index * 4096)
            begun = time.perf_counter()
            os.fdatasync(descriptor)
            costs.append((time.perf_counter() - begun) * 1000)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(costs)
