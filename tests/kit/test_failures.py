"""Where a task failed is shown by the test that fails because of it."""

import gc
import traceback
import weakref
from pathlib import Path

import pytest

from nextdue import GiveUp, Nextdue, Retry, Snooze, assert_repeatable
from nextdue.testing import NeverEnds, Sandbox
from tests.kit.test_plugin import Project

SHOP = """
from nextdue import Nextdue, Retry

nd = Nextdue("shop.db")

@nd.task(retry=Retry(limit=3))
def ship(order: int) -> None:
    find(order)

def find(order: int) -> None:
    raise LookupError(f"no order {order}")

@nd.task
async def mail(to: str) -> None:
    raise ValueError(to)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    (project.folder / "shop.py").write_text(SHOP)
    return project


def test_a_failing_test_shows_the_tracebacks_of_its_tasks_equal_ones_once(project):
    tests = (
        "import shop\ndef test_a(nextdue):\n    nextdue.use(shop.nd)\n    shop.ship.enqueue(7)\n"
        "    shop.mail.enqueue('ada')\n    nextdue.drain()\n    assert nextdue.advance('1h') == {'done': 1}\n"
    )
    done = project.run(tests)
    section = done.stdout[done.stdout.index("- nextdue -") :]
    assert "ship failed 3 times, each time so:\nTraceback (most recent call last):\n" in section
    assert section.count('shop.py", line 8, in ship') == section.count('shop.py", line 11, in find') == 1
    assert "LookupError: no order 7" in section
    assert 'shop.py", line 15, in mail' in section
    assert "/nextdue/" not in section  # the way through the engine is nobody's business
    assert done.stdout.count("Traceback") == 2


def test_a_test_that_passes_or_used_no_application_shows_nothing(project):
    tests = (
        "import shop\ndef test_a(nextdue):\n    nextdue.use(shop.nd)\n    shop.ship.enqueue(7)\n    nextdue.drain()\n"
        "def test_b(nextdue):\n    assert 0\n"
    )
    done = project.run(tests)
    assert "1 failed, 1 passed" in done.stdout
    assert "- nextdue -" not in done.stdout


def test_what_made_it_dead_is_the_cause_of_not_being_repeatable(project):
    done = project.run("import shop, nextdue\ndef test_a():\n    nextdue.assert_repeatable(shop.ship, (7,))\n")
    assert "shop.py:11: LookupError" in done.stdout
    assert "direct cause" in done.stdout
    assert "test_shop.py:3: AssertionError" in done.stdout


def test_the_cause_of_the_second_attempt_is_told_too(nd, tmp_path):
    @nd.task(retry=Retry(limit=1))
    def once() -> None:
        (tmp_path / "once").mkdir()

    with pytest.raises(AssertionError, match="after its worker died") as caught:
        assert_repeatable(
            once, state=lambda: 1, reset=lambda: (tmp_path / "once").exists() and (tmp_path / "once").rmdir()
        )
    assert isinstance(caught.value.__cause__, FileExistsError)


def test_without_pytest_the_error_of_the_block_carries_it(nd, tmp_path, monkeypatch):
    @nd.task
    def fails() -> None:
        raise GiveUp("no such order")

    def test() -> None:
        with Sandbox() as box:
            box.use(nd)
            fails.enqueue()
            assert box.drain() == {"done": 1}

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(AssertionError) as caught:
        test()
    (note,) = caught.value.__notes__
    assert "in fails\n" in note
    assert note.endswith("GiveUp: no such order")


def test_a_task_that_hangs_is_shown_at_the_line_where_it_does(box, nd):
    @nd.task
    def hang() -> None:
        while True:
            pass

    hang.enqueue()
    box.patience = 0.2
    with pytest.raises(NeverEnds) as caught:
        box.drain()
    cause = caught.value.__cause__
    assert cause is not None
    frame = traceback.extract_tb(cause.__traceback__)[0]
    assert (frame.name, frame.line) in {("hang", "while True:"), ("hang", "pass")}


def test_a_task_that_fails_for_ever_shows_how(box, nd):
    @nd.task(retry=Retry(limit=None))
    def fails() -> None:
        raise ValueError("again")

    fails.enqueue()
    with pytest.raises(NeverEnds) as caught:
        box.advance("1000 days", limit=5)
    assert isinstance(caught.value.__cause__, ValueError)


def test_what_is_no_failure_is_not_reported(box, nd):
    tries: list[int] = []

    @nd.task
    def later() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise Snooze("1m")

    later.enqueue()
    box.crash_at("settle")
    box.advance("1h")
    assert "later" not in box.report()


def test_only_the_last_tracebacks_are_kept(box, nd):
    @nd.task(retry=Retry(limit=1))
    def fails(n: int) -> None:
        raise ValueError(n)

    fails.enqueue_many([(n,) for n in range(20)])
    box.drain()
    assert [line for line in box.report().splitlines() if line.startswith("ValueError")] == [
        f"ValueError: {n}" for n in range(15, 20)
    ]


def test_a_failure_keeps_nothing_of_the_task_alive(box, nd):
    kept: list[weakref.ref[object]] = []

    class Thing: ...

    @nd.task
    def fails() -> None:
        thing = Thing()
        kept.append(weakref.ref(thing))
        raise ValueError

    fails.enqueue()
    box.drain()
    gc.collect()
    assert [ref() for ref in kept] == [None]
    assert "ValueError" in box.report()


def test_an_exception_that_can_not_be_described_is_a_failure_all_the_same(box, nd):
    class Kind(type):
        @property
        def __module__(cls) -> str:  # type: ignore[override]
            raise KeyboardInterrupt

    class Odd(Exception, metaclass=Kind):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    @nd.task
    def fails() -> None:
        raise Odd

    fails.enqueue()
    assert box.drain() == {"failed": 1}
    assert "fails failed:\nits exception can't be described" in box.report()


def test_the_report_names_each_application(nextdue):
    for name in ("one", "two"):
        nextdue.use(Nextdue(f"/nowhere/{name}.db"))
    assert [Path(line.split(": ")[1]).name for line in nextdue.report().splitlines()] == ["one.db", "two.db"]


def test_the_report_shows_what_is_there_by_the_clock_of_the_test(box, nd):
    @nd.task(retry=Retry(base="1h"))
    def fails(n: int) -> None:
        raise ValueError("a\nb" * 100)

    fails.enqueue(0)
    box.drain()
    assert box.report().splitlines()[1:3] == [
        "at 2030-06-01T12:00:00.000Z there are in it:",
        "  #1 fails is waiting, due 2030-06-01T13:00:00.001Z: ValueError: a",
    ]
    fails.using(key="k").enqueue(1)
    fails.using(delay="2h").enqueue_many([(n,) for n in range(20)])
    shown = [line for line in box.report().splitlines() if line.startswith("  ")]
    assert shown[0] == "  #2 fails 'k' is waiting, due 2030-06-01T12:00:00.000Z"
    assert shown[10] == "  and more"


def test_a_report_never_fails(box, nd):
    nd.find()
    nd.close()
    nd.path.write_bytes(b"no database" * 1000)
    assert str(nd.path) in box.report()
    nd.path.unlink()
    assert str(nd.path) in box.report()
    assert not nd.path.exists()
