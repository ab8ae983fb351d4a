"""One worker at a time: the lock that is taken before anything is asked of the database."""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nextdue import BadDefinition, Nextdue, NextdueError, OwnerBusy, StoreError, StoreMissing
from tests.process.harness import Place, until

pytestmark = pytest.mark.beside

SHOP = """
nd = Nextdue(HERE / "shop.db", exclusive=HERE / "shop.lock")

@nd.task
def work(n: int) -> None:
    note("work", n)
"""


@pytest.fixture
def app(tmp_path: Path) -> Nextdue:
    return Nextdue(tmp_path / "app.db", exclusive=tmp_path / "app.lock")


@pytest.mark.parametrize(
    "words",
    [
        ("worker", "shop:nd"),
        ("worker", "shop:nd", "--once", "-q", "default"),
        ("worker", "plain:nd", "--exclusive", "-q", "default"),
        ("run",),
        ("start",),
    ],
    ids=["worker", "queues", "option", "run", "start"],
)
def test_a_refused_worker_does_not_touch_the_database(place: Place, words: tuple[str, ...]) -> None:
    place.script(SHOP)
    place.script('@nd.task\ndef work(n: int) -> None:\n    note("work", n)\n', "plain.py")
    lock = place.folder / ("shop.db-owner" if "plain:nd" in words else "shop.lock")
    lock.write_text("pid 7 on elsewhere, since 2026-01-01T00:00:00Z: tea")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if words[0] == "worker":
            refused = place.cli(*words)
            assert refused.ends(20) == 3
        else:
            refused = place.python(f"import shop; shop.nd.{words[0]}()")
            assert refused.ends(20) == 1
            assert "OwnerBusy" in refused.text
    assert "pid 7 on elsewhere, since 2026-01-01T00:00:00Z: tea" in refused.text
    assert "don't delete" in refused.text
    assert not (place.folder / "shop.db").exists()


def test_every_worker_of_the_application_takes_its_lock(place: Place) -> None:
    """Named by pid, host, start and command; what a dead one wrote means nothing."""
    place.script(SHOP)
    first = place.cli("worker", "shop:nd")
    first.says("serves")
    assert place.cli("worker", "shop:nd").ends(20) == 3
    second = place.cli("worker", "shop:nd", "--once")
    assert second.ends(20) == 3
    said = rf"pid {first.pid} on \S+, since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ: .*worker shop:nd"
    assert re.search(said, second.text)
    assert "Traceback" not in second.text
    first.kill()
    assert re.search(said, (place.folder / "shop.lock").read_text())
    third = place.cli("worker", "shop:nd")
    third.says("serves")
    place.does("import shop; shop.work.enqueue(1)")
    place.noted("work 1")
    assert third.terminate() == 0
    assert (place.folder / "shop.lock").read_bytes() == b""
    assert not (place.folder / "shop.db-owner").exists()


@pytest.mark.parametrize("how", ["subprocess.Popen(['sleep', '60'], close_fds=False).pid", "fork()"])
def test_no_child_keeps_the_lock_of_a_dead_worker(place: Place, how: str) -> None:
    place.script(
        SHOP
        + f"""
import subprocess

def fork():
    pid = os.fork()
    if not pid:
        time.sleep(60)
        os._exit(0)
    return pid

@nd.task
def leave(n: int) -> None:
    note("child", {how})
    time.sleep(60)
"""
    )
    place.does("import shop; shop.leave.enqueue(1)")
    first = place.cli("worker", "shop:nd")
    child = int(until(lambda: [note for note in place.notes() if note.startswith("child")])[0].split()[1])
    os.kill(first.pid, 9)
    first.ends(20)
    os.kill(child, 0)  # it lives
    second = place.cli("worker", "shop:nd", "-q", "default")
    second.says("serves")
    assert second.alive()


def test_two_in_one_process_and_again_after_the_end(app: Nextdue, tmp_path: Path) -> None:
    @app.task
    def work() -> None: ...

    with app.working() as service:
        with pytest.raises(OwnerBusy, match=f"pid {os.getpid()} on"):
            app.working().open()
        service.lock()  # it has it
        with pytest.raises(NextdueError, match="open already"):
            service.open()
    app.start()
    app.stop()
    with service:
        assert (tmp_path / "app.lock").read_text().startswith(f"pid {os.getpid()} ")
    app.run(once=True)
    app.close()


def test_a_worker_knows_whether_it_was_told_to_stop(app: Nextdue) -> None:
    through = app.working(once=True)
    assert not through.stopping()
    through.run()
    assert not through.stopping()
    with app.working() as told:
        assert not told.stopping()
        told.ask_to_stop()
        assert told.stopping()
    assert told.stopping()
    app.close()


def test_what_could_not_be_opened_leaves_the_lock(tmp_path: Path) -> None:
    (tmp_path / "app.db").mkdir()
    app = Nextdue(tmp_path / "app.db", exclusive=tmp_path / "app.lock")
    for _ in range(2):
        with pytest.raises(StoreError, match="is a directory"):
            app.working().open()


def test_what_was_opened_and_never_worked_is_closed_by_stop(app: Nextdue) -> None:
    handle = app.task(nothing).enqueue()
    service = app.working(once=True)
    service.open()
    service.stop()
    assert list((app.path.parent / "app.db-workers").iterdir()) == []
    other = app.working(once=True)
    other.open()
    other.run()
    assert handle.state == "done"
    app.close()


def nothing() -> None: ...


def test_a_fork_of_a_worker_is_refused_and_its_parent_goes_on(app: Nextdue, tmp_path: Path) -> None:
    with app.working():
        child = os.fork()
        if not child:
            try:
                app.working().start()
            except OwnerBusy:
                os._exit(3)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        with pytest.raises(OwnerBusy):
            app.working().start()
    app.close()


def test_a_lock_file_that_was_deleted_is_named_by_no_one_but_made_anew(app: Nextdue, tmp_path: Path) -> None:
    app.run(once=True)
    (tmp_path / "app.lock").unlink()
    app.run(once=True)
    assert (tmp_path / "app.lock").stat().st_mode & 0o777 == 0o600
    app.close()


def test_the_text_is_one_printable_line(tmp_path: Path) -> None:
    code = (
        "import sys; from nextdue import Nextdue; nd = Nextdue('app.db', exclusive='app.lock')\n"
        "s = nd.working(); s.open(); print(open('app.lock').read()); s.stop()"
    )
    words = ["--name", "two\nlines \x1b[31m", "x" * 5_000]
    shown = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    line = shown.stdout.rstrip("\n")
    assert line.isprintable()
    assert "two\\nlines" in line
    assert len(line) <= 1_000


@pytest.mark.parametrize("bad", [7, "", b"lock", "a\x00b", ["x"], "app.db", "app.db-wal", "./app.db-workers"])
def test_what_is_no_lock_file_is_refused_at_once(bad: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadDefinition, match="exclusive"):
        Nextdue("app.db", exclusive=bad)  # type: ignore[arg-type]


def test_a_file_that_cannot_be_the_lock_is_refused_and_kept(tmp_path: Path) -> None:
    mine, link, pipe = tmp_path / "notes.txt", tmp_path / "link", tmp_path / "pipe"
    mine.write_text("mine")
    link.symlink_to("app.db")
    os.mkfifo(pipe)
    Nextdue(tmp_path / "app.db").find()
    cases: list[tuple[Path, type[Exception], str]] = [
        (tmp_path / "none" / "lock", StoreMissing, "none doesn't exist; make the directory first"),
        (tmp_path, StoreError, "is a directory"),
        (mine, StoreError, "holds something else"),
        (link, StoreError, "itself"),
        (pipe, StoreError, "is no file"),
        (mine / "lock", StoreError, "can't be opened"),
    ]
    for path, error, words in cases:
        with pytest.raises(error, match=words):
            Nextdue(tmp_path / "app.db", exclusive=path).working().open()
    assert mine.read_text() == "mine"


def test_exclusive_of_a_worker_is_yes_or_no(app: Nextdue) -> None:
    with pytest.raises(BadDefinition, match="takes a file"):
        app.working(exclusive="here.lock")  # type: ignore[arg-type]


def test_exclusive_true_is_the_file_beside_the_database(tmp_path: Path) -> None:
    app = Nextdue(tmp_path / "app.db", exclusive=True)
    with app.working(), pytest.raises(OwnerBusy, match=r"app\.db-owner"):
        Nextdue(tmp_path / "app.db").run(exclusive=True)
    with Nextdue(tmp_path / "app.db").working():
        pass
    app.close()
