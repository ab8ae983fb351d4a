import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from signal_feeds.errors import Unwritable
from signal_feeds.publishing.files import place

OLD = {"atom.xml": b"old feed", "feed.json": b"old json", "index.html": b"old page"}
NEW = {"atom.xml": b"new feed", "feed.json": b"new json", "index.html": b"new page"}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    place(folder, OLD)
    return folder


def test_a_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    placed = place(tmp_path / "out", NEW)
    assert content(tmp_path / "out") == NEW
    assert [(file.path, file.changed) for file in placed] == [(tmp_path / "out" / name, True) for name in NEW]


def test_a_path_that_is_half_wrong_is_a_slip(tmp_path: Path) -> None:
    with pytest.raises(Unwritable, match=r"a/b can't be written \(No such file or directory\); nothing was written"):
        place(tmp_path / "a" / "b", NEW)
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"mine")
    with pytest.raises(Unwritable, match="it is a file, not a folder"):
        place(tmp_path / "out", NEW)
    assert (tmp_path / "out").read_bytes() == b"mine"


def test_other_files_in_the_folder_stay(out: Path) -> None:
    (out / "robots.txt").write_bytes(b"mine")
    place(out, NEW)
    assert content(out) == {**NEW, "robots.txt": b"mine"}


def test_a_file_that_would_be_the_same_keeps_its_time(out: Path) -> None:
    """Web servers make ETag and Last-Modified of it."""
    before = {path.name: path.stat() for path in out.iterdir()}
    placed = place(out, {**OLD, "index.html": b"new page"})
    assert [file.path.name for file in placed if file.changed] == ["index.html"]
    for name in ("atom.xml", "feed.json"):
        after = (out / name).stat()
        assert (after.st_ino, after.st_mtime_ns) == (before[name].st_ino, before[name].st_mtime_ns)


def test_nothing_changes_if_one_of_them_can_not_be_written(out: Path) -> None:
    (out / "index.html").unlink()
    (out / "index.html").mkdir()
    with pytest.raises(Unwritable, match=r"index.html can't be written .*; nothing was written"):
        place(out, NEW)
    assert (out / "atom.xml").read_bytes() == b"old feed"
    assert sorted(path.name for path in out.iterdir()) == ["atom.xml", "feed.json", "index.html"]


FULL = """
import resource, signal, sys
from pathlib import Path
from signal_feeds.errors import Unwritable
from signal_feeds.publishing.files import place
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    place(Path(sys.argv[1]), {"atom.xml": b"new", "feed.json": b"x" * 100_000, "index.html": b"new"})
except Unwritable as error:
    print(error)
"""


@pytest.mark.parametrize("there", [True, False])
def test_nothing_changes_if_the_disk_is_full(out: Path, there: bool) -> None:
    target = out if there else out.parent / "fresh"
    run = subprocess.run(
        [sys.executable, "-c", FULL, str(target)], capture_output=True, text=True, check=True, timeout=60
    )
    assert "File too large); nothing was written" in run.stdout
    assert (content(target) == OLD) if there else not target.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(out: Path) -> None:
    out.chmod(0o555)
    with pytest.raises(Unwritable, match=r"/[a-z]+\.[a-z]+ can't be written \(Permission denied"):
        place(out, NEW)
    assert content(out) == OLD


def test_permissions_of_a_file_stay(out: Path) -> None:
    (out / "atom.xml").chmod(0o600)
    place(out, NEW)
    assert stat.S_IMODE((out / "atom.xml").stat().st_mode) == 0o600


def test_a_link_is_followed(out: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.xml").write_bytes(b"old feed")
    (out / "atom.xml").unlink()
    (out / "atom.xml").symlink_to(tmp_path / "elsewhere.xml")
    place(out, NEW)
    assert (out / "atom.xml").is_symlink()
    assert (tmp_path / "elsewhere.xml").read_bytes() == b"new feed"


def test_each_is_on_disk_before_the_first_appears(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def noted(name: str) -> None:
        call = getattr(os, name)

        def spy(*args: object) -> None:
            done.append(name)
            call(*args)

        monkeypatch.setattr(os, name, spy)

    noted("fsync")
    noted("rename")
    place(out, NEW)
    assert done == ["fsync"] * 3 + ["rename"] * 3 + ["fsync"]
