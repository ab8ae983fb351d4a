"""A backup is of one instant, complete, and under its name only when it is."""

import contextlib
import os
import signal
import sqlite3
import time

import pytest

from nextdue.errors import BadDefinition, NextdueError, NotAStore, StoreError, StoreMissing
from nextdue.sqlite import backup as backing
from nextdue.sqlite.inspect import check
from tests.process.harness import until

WRITER = """
@nd.task
def work(n: int) -> None:
    pass

def write(rate=500):
    begun, n = time.monotonic(), 0
    while True:
        work.using(delay="9d").enqueue(n)
        note("acknowledged", n)
        n += 1
        time.sleep(max(0, begun + n / rate - time.monotonic()))
"""


def content(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {args for (args,) in db.execute("SELECT args FROM nextdue_task")}


def sound(path):
    reader = backing.Reader(path)
    try:
        return check(reader)
    finally:
        reader.connection.close()


def acknowledged(place):
    return sum(line.startswith("acknowledged") for line in place.notes())


def grow(place, rows=150_000):
    """A file of some 10 MB, so that a backup takes long enough to be met."""
    place.does("import shop; shop.work.using(delay='9d').enqueue(-1)")
    with contextlib.closing(sqlite3.connect(place.db)) as db, db:
        db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO nextdue_task("
            "lane, name, due, args, created) "
            "SELECT lane, name, due + i, '[0]', created FROM nextdue_task, n WHERE id = 1",
            (rows,),
        )


@pytest.mark.beside
def test_each_holds_what_was_acknowledged_before_it_began(place):
    """F058: 20 backups while another process puts 500 tasks a second."""
    place.script(WRITER)
    grow(place, 20_000)
    writer = place.python("import shop; shop.write()")
    place.noted("acknowledged", 50)
    for number in range(20):
        before = acknowledged(place)
        path = place.folder / f"backup-{number}.db"
        done = place.cli("backup", "shop.db", str(path))
        assert done.ends(30) == 0, done.text
        assert sound(path) == []
        assert {f"[{n}]" for n in range(before)} <= content(path)
    assert acknowledged(place) > 500
    writer.kill()
    place.checked()


def test_a_big_file_is_copied_beside_a_busy_writer_without_beginning_anew(place):
    """F058: without a snapshot SQLite would start again at each commit of another process."""
    place.script(WRITER)
    grow(place)
    place.python("import shop; shop.write()")
    place.noted("acknowledged", 50)
    before = acknowledged(place)
    begun = time.monotonic()
    # Small steps with pauses make of it what is otherwise a file of a gigabyte.
    place.does(
        "import shop, time; from nextdue.sqlite import backup\n"
        "backup.PAGES, backup._let_fork = 20, lambda database: lambda: time.sleep(0.005)\n"
        "shop.nd.backup('backup.db')\n"
    )
    assert time.monotonic() - begun < 15
    assert acknowledged(place) > before
    assert {f"[{n}]" for n in range(before)} <= content(place.folder / "backup.db")


@pytest.mark.beside
def test_one_that_is_killed_leaves_nothing_under_the_name(place):
    place.script(WRITER)
    grow(place)
    name = place.folder / "backup.db"
    name.write_text("the backup of yesterday")
    for after in (0.0, 0.05, 0.2):
        program = place.cli("backup", "shop.db", "backup.db", "--force")
        until(lambda: list(place.folder.glob(".backup.db.*.tmp")))
        time.sleep(after)
        program.kill()
        for path in place.folder.glob(".backup.db.*.tmp"):
            path.unlink()
        assert name.read_text() == "the backup of yesterday"
    place.checked()


def test_a_process_that_works_can_back_up_and_fork(place):
    """F054, F055: the copy is made on a connection of its own, and no lock of the others goes with it."""
    place.script(
        WRITER
        + """
def main():
    import subprocess
    work.enqueue(0)
    with nd.working(2):
        thread = threading.Thread(target=lambda: [nd.backup(HERE / f"backup-{n}.db") for n in range(5)])
        thread.start()
        forks = 0
        while thread.is_alive():
            forks += 1
            pid = os.fork()
            if pid == 0:
                work.enqueue(1)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            # Somebody else opens and closes the file: if our locks were gone, it would remove the -wal.
            subprocess.run([sys.executable, "-c", "import sqlite3; c = sqlite3.connect('shop.db'); "
                "c.execute('SELECT count(*) FROM nextdue_task').fetchone(); c.close()"], check=True)
            work.enqueue(2)
        until(lambda: nd.find(state="waiting") == [] == nd.find(state="running"))
    print("forks", forks)
"""
    )
    grow(place, 60_000)
    with contextlib.closing(sqlite3.connect(place.db)) as db, db:
        db.execute("UPDATE nextdue_task SET due = NULL, rest = 'dead'")
    place.does("import shop; shop.main()")
    assert len(list(place.folder.glob("backup-*.db"))) == 5
    place.checked()


@pytest.fixture
def nd(tmp_path):
    from nextdue import Nextdue

    nd = Nextdue(tmp_path / "shop.db")
    nd.task(name="work")(lambda: None).using(delay="1h").enqueue()
    yield nd
    nd.close()


def left(nd):
    return sorted(path.name for path in nd.path.parent.iterdir() if not path.name.startswith("shop.db"))


@pytest.mark.beside
def test_it_needs_no_other_file_and_has_the_mode_of_the_original(nd):
    nd.path.chmod(0o640)
    made = nd.backup(nd.path.with_name("backup.db"))
    assert made.stat().st_mode & 0o777 == 0o640
    made.chmod(0o400)
    assert len(content(made)) == 1
    assert left(nd) == ["backup.db"]


@pytest.mark.beside
@pytest.mark.parametrize(
    ("path", "error", "says"),
    [
        ("shop.db", BadDefinition, "belongs to the file that is backed up"),
        ("shop.db-wal", BadDefinition, "belongs to the file that is backed up"),
        ("link.db", BadDefinition, "belongs to the file that is backed up"),
        ("there.db", BadDefinition, "is there already"),
        (".", BadDefinition, "is a directory"),
        ("nosuch/backup.db", StoreError, "make the directory first"),
        ("", BadDefinition, "is no path"),
        ("a\x00b", BadDefinition, "is no path"),
    ],
)
def test_a_path_that_cannot_be_meant_is_refused(nd, monkeypatch, path, error, says):
    monkeypatch.chdir(nd.path.parent)
    nd.path.with_name("there.db").write_text("mine")
    os.link(nd.path, nd.path.with_name("link.db"))
    before = left(nd)
    with pytest.raises(error, match=says):
        nd.backup(path)
    assert left(nd) == before
    assert nd.path.with_name("there.db").read_text() == "mine"


def test_only_when_told_to_another_file_is_replaced(nd):
    target = nd.path.with_name("there.db")
    target.write_text("mine")
    nd.backup(target, overwrite=True)
    assert len(content(target)) == 1
    nd.path.with_name("there.db-wal").write_text("of a program that has it open")
    with pytest.raises(StoreError, match=r"shows that there\.db is in use"):
        nd.backup(target, overwrite=True)


def test_a_linked_file_is_known_by_its_real_name(nd):
    from nextdue import Nextdue

    link = nd.path.with_name("current.db")
    link.symlink_to(nd.path)
    linked = Nextdue(link)
    linked.find()
    for name in ("shop.db", "shop.db-wal", "current.db"):
        with pytest.raises(BadDefinition, match="belongs to the file"):
            linked.backup(nd.path.with_name(name), overwrite=True)
    target = nd.path.with_name("latest.db")
    target.symlink_to(nd.path.with_name("monday.db"))
    assert linked.backup(target).name == "monday.db"
    assert target.is_symlink()
    linked.close()


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    from nextdue import Nextdue

    with pytest.raises(StoreMissing):
        Nextdue(tmp_path / "shop.db").backup(tmp_path / "backup.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.beside
@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE nextdue_task SET lane = 77",
        "DROP INDEX nextdue_task_gone",
        "PRAGMA writable_schema=ON; UPDATE sqlite_master SET rootpage = 3 WHERE name = 'nextdue_task_key'",
    ],
)
def test_what_is_not_sound_is_not_kept(nd, harm):
    nd.close()
    with contextlib.closing(sqlite3.connect(nd.path)) as db:
        db.executescript(harm)
    with pytest.raises(NotAStore, match=r"isn't sound|damaged"):
        nd.backup(nd.path.with_name("backup.db"))
    assert left(nd) == []


def test_a_full_disk_is_said_and_leaves_nothing(place):
    place.script(WRITER)
    grow(place)
    program = place.python(
        "import resource, shop\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "try: shop.nd.backup('backup.db')\n"
        "except NextdueError as exc: print(type(exc).__name__, exc)\n".replace("NextdueError", "shop.NextdueError")
    )
    assert program.ends(30) == 0, program.text
    assert "nothing was written there" in program.text
    assert not list(place.folder.glob("*backup.db*"))
    place.checked()


def test_ctrl_c_ends_it_and_leaves_nothing(place):
    place.script(WRITER)
    grow(place)
    program = place.cli("backup", "shop.db", "backup.db")
    until(lambda: list(place.folder.glob(".backup.db.*.tmp")))
    program.send(signal.SIGINT)
    assert program.ends(30) in (130, 0), program.text
    assert not list(place.folder.glob(".backup.db.*"))


@pytest.mark.beside
def test_the_errors_are_ours(nd):
    with pytest.raises(NextdueError):
        nd.backup(nd.path)
