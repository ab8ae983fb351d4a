"""Deploys: old and new code on one file, tasks stored by one and run by the other."""

import pytest

from tests.process.harness import Place, cpu_s, until
from tests.process.test_quiet import settled_down

pytestmark = pytest.mark.beside

RELEASE = "UPDATE nextdue_task SET due = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), rest = NULL {}"
"""What a person does with held tasks once the code fits again."""


def release(place: Place, where: str = "WHERE rest = 'held'") -> None:
    place.rows(RELEASE.format(where))


OLD = """
@nd.task
def report(n: int) -> None:
    note("old", "report", n)
"""
RENAMED = """
@nd.task(aliases=["report"])
def export(n: int) -> None:
    note("new", "export", n)
"""


def test_a_renamed_task_beside_the_old_worker(place: Place) -> None:
    """F092: both names are served, each task runs once, the old worker never touches the new name."""
    place.script(OLD, "old.py")
    place.script(RENAMED, "new.py")
    workers = [place.worker(module="old"), place.worker(module="new")]
    for batch in range(5):
        numbers = range(batch * 20, batch * 20 + 20)
        place.does(f"import old; [old.report.enqueue(n) for n in {numbers!r}]")
        place.does(f"import new; [new.export.enqueue(100 + n) for n in {numbers!r}]")
    place.empties()
    ran = [note.split() for note in place.notes()]
    assert sorted(int(n) for _, _, n in ran) == list(range(200))
    assert {who for who, _, n in ran if int(n) >= 100} == {"new"}
    assert [worker.terminate() for worker in workers] == [0, 0]
    assert place.rows("SELECT outcome, count(*) FROM nextdue_runs GROUP BY 1") == [("done", 200)]
    place.checked()


def test_a_task_of_a_killed_old_worker_goes_on_under_its_new_name(place: Place) -> None:
    """F092, F034: the row keeps the name under which it was stored, the new code knows it."""
    place.script(OLD.replace('note("old", "report", n)', 'note("begun", n); time.sleep(60)'), "old.py")
    place.script(RENAMED, "new.py")
    old = place.worker(module="old")
    place.does("import old; old.report.using(key='k').enqueue(7)")
    place.noted("begun 7")
    old.kill()
    new = place.worker(module="new")
    place.noted("new export 7")
    place.empties()
    assert new.terminate() == 0
    assert place.rows("SELECT name, key, outcome FROM nextdue_runs ORDER BY ended_ms") == [
        ("report", "k", "crashed"),
        ("report", "k", "done"),
    ]
    place.checked()


GROWN = """
@nd.task
def report(n: int, pages: int = 1) -> None:
    note("new", "report", n, pages)
"""


def test_a_new_parameter_with_a_default(place: Place) -> None:
    """What old code stored runs with the default; what new code stores without the argument fits old workers too."""
    place.script(OLD, "old.py")
    place.script(GROWN, "new.py")
    place.does("import old; old.report.enqueue(1)")
    new = place.worker(module="new")
    place.noted("new report 1 1")
    assert new.terminate() == 0
    old = place.worker(module="old")
    place.does("import new; new.report.enqueue(2)")
    place.noted("old report 2")
    assert old.terminate() == 0
    place.checked()


def test_an_old_worker_holds_what_it_does_not_understand(place: Place) -> None:
    """F088, F091: nothing is cut off, failed or lost; once the old worker is gone, the new one runs all of it."""
    place.script(OLD, "old.py")
    place.script(GROWN, "new.py")
    old = place.worker(module="old")
    place.does("import new; [new.report.enqueue(n, 5) for n in range(20)]")
    until(lambda: place.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'held'") == 20)
    assert place.notes() == []
    old.says("report #1 held: arguments: BadArguments: report: 2 arguments given, it takes (n: int)")
    assert old.terminate() == 0
    release(place)
    new = place.worker(module="new")
    place.empties()
    assert new.terminate() == 0
    assert sorted(place.notes()) == sorted(f"new report {n} 5" for n in range(20))
    place.checked()


CHANGES = {
    "removed": ("(n: int, to: str)", "5, 'ada'", "(n: int)", "2 arguments given, it takes (n: int)"),
    "required": ("(n: int)", "5", "(n: int, to: str)", "1 arguments given, it takes (n: int, to: str)"),
    "renamed": (
        "(n: int, *, to: str)",
        "5, to='ada'",
        "(n: int, *, recipient: str)",
        "report has no argument ['to']; it takes (n: int, *, recipient: str)",
    ),
    "retyped": ("(n: int)", "5", "(n: str)", "Expected `str`, got `int` - at `n`"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_arguments_that_no_longer_fit_are_held_until_the_code_does(place: Place, change: str) -> None:
    """F088, F091: at rest with the text of what didn't fit, no attempt, no second claim; then run as if nothing was."""
    before, call, after, words = CHANGES[change]
    body = f"\n@nd.task(retry=Retry(base=0.01, jitter=0, limit=3))\ndef report{before}:\n    note('ran', n)\n"
    place.script(body, "old.py")
    place.script(body.replace(before, after), "new.py")
    place.does(f"import old; old.report.using(key='k').enqueue({call})")
    new = place.worker(module="new")
    until(lambda: place.one("SELECT state FROM nextdue_tasks") == "held")
    settled_down(new.pid)
    cpu = cpu_s(new.pid)
    shown = place.cli("ls", str(place.db))
    assert shown.ends() == 0
    assert "held" in shown.text
    where = "SELECT attempts, crashes, claims, reason, message FROM nextdue_tasks"
    attempts, crashes, claims, reason, message = place.rows(where)[0]
    assert (attempts, crashes, claims, reason) == (0, 0, 1, "arguments")
    assert words in message
    assert place.rows("SELECT outcome, reason FROM nextdue_runs") == [("held", "arguments")]
    answers = place.does(f"import old; h = old.report.using(key='k').enqueue({call}); print(h.created, h.state)")
    assert answers == "False held", "its key is still its own"
    assert cpu_s(new.pid) - cpu <= 0.02
    assert new.terminate() == 0
    release(place)
    fixed = place.worker(module="old")
    place.noted("ran 5")
    place.empties()
    assert fixed.terminate() == 0
    assert len(place.notes()) == 1
    place.checked()


def test_a_rollback_and_a_second_try(place: Place) -> None:
    """F091, F092: tasks of a version that was taken back wait, untouched, until it returns."""
    place.script(OLD, "old.py")
    place.script(OLD + "\n@nd.task\ndef added(n: int) -> None:\n    note('added', n)\n", "new.py")
    place.does("import new; [new.added.using(delay=0.2).enqueue(n) for n in range(10)]")
    before = place.rows("SELECT * FROM nextdue_tasks")
    old = place.worker(module="old")
    place.does("import old; old.report.using(delay=0.3).enqueue(1)")
    place.noted("old report 1")
    settled_down(old.pid)
    assert old.terminate() == 0
    assert place.rows("SELECT * FROM nextdue_tasks") == before
    new = place.worker(module="new")
    place.empties()
    assert new.terminate() == 0
    assert sorted(note for note in place.notes() if note.startswith("added")) == [f"added {n}" for n in range(10)]
    place.checked()


RESULTS = """
@nd.task(keep_result=True)
def total(day: str) -> {}:
    return {}
"""


def test_results_across_a_deploy(place: Place) -> None:
    """What old workers return reaches new callers if it still fits, and is said to be of another type if not."""
    place.script(RESULTS.format("int", "5"), "old.py")
    place.script(RESULTS.format("float", "2.5"), "wider.py")
    place.script(RESULTS.format("dict[str, int]", "{'sum': 5}"), "other.py")
    old = place.worker(module="old")
    assert place.does("import wider; print(repr(wider.total.enqueue('monday').result(10)))") == "5.0"
    said = place.does("""
import other
try:
    other.total.enqueue("monday").result(10)
except other.ResultNotKept as error:
    print(error)
""")
    assert "its result is of another type than the function returns now" in said
    assert "Expected `object`, got `int`" in said
    assert old.terminate() == 0
