"""assert_repeatable: a task that bears its worker's death anywhere passes, one that doesn't is told where."""

import contextlib
import sqlite3
import time
from pathlib import Path

import pytest

import nextdue as package
from nextdue import BadDefinition, Context, GiveUp, Retry, Snooze, assert_repeatable


@pytest.fixture
def mail(nd):
    @nd.task
    def mail(to: str) -> None: ...

    return mail


def test_a_file_and_a_keyed_task_are_repeatable(nd, mail, tmp_path):
    file = tmp_path / "a.csv"

    @nd.task
    def export(ctx: Context, day: str) -> None:
        with ctx.replace(file) as out:
            out.write(day)
        mail.using(key=day).enqueue("ada")

    assert_repeatable(export, ("2026-12-01",))
    assert_repeatable(export, {"day": "2026-12-01"})
    assert file.read_text() == "2026-12-01"


def test_a_task_without_a_key_is_enqueued_twice(nd, mail):
    @nd.task
    def order(n: int) -> None:
        mail.enqueue("ada")

    with pytest.raises(AssertionError) as caught:
        assert_repeatable(order, (1,))
    said = str(caught.value)
    assert said.startswith("order(1) is not harmless to repeat: its worker died after a task was enqueued (mail)")
    once, now = said.split("now:")
    assert once.count("ada") == 1
    assert now.count("ada") == 2


def test_a_file_that_grows_is_found(nd, tmp_path):
    file = tmp_path / "log.txt"

    @nd.task
    def append(ctx: Context, line: str) -> None:
        before = file.read_text() if file.exists() else ""
        with ctx.replace(file) as out:
            out.write(before + line)

    with pytest.raises(AssertionError, match=r"died after ctx\.replace renamed a file \(.*log.txt\)"):
        assert_repeatable(append, ("x",))


def test_files_are_as_they_were_before_each_trial(nd, tmp_path):
    file: Path = tmp_path / "counter"
    file.write_text("old")

    @nd.task
    def first_only(ctx: Context) -> None:
        if file.read_text() == "old":
            with ctx.replace(file) as out:
                out.write("new")

    assert_repeatable(first_only)
    assert file.read_text() == "new"


def test_a_state_of_ones_own_with_a_reset_names_the_point(nd, seen):
    @nd.task
    def charge(order: int) -> None:
        seen.append(order)

    with pytest.raises(AssertionError, match="after the task had returned, before its end was written"):
        assert_repeatable(charge, (1,), state=lambda: list(seen), reset=seen.clear)


def test_what_is_lost_between_two_effects_is_found(nd, mail, tmp_path):
    marker = tmp_path / "sent"

    @nd.task
    def once(ctx: Context) -> None:
        if not marker.exists():
            with ctx.replace(marker):
                pass
            mail.enqueue("ada")

    with pytest.raises(AssertionError, match=r"died after ctx\.replace renamed a file") as caught:
        assert_repeatable(once)
    assert "'tasks': []" in str(caught.value).split("now:")[1]


def test_a_state_that_piles_up_asks_for_a_reset(nd, seen):
    @nd.task
    def charge(order: int) -> None:
        seen.append(order)

    with pytest.raises(AssertionError) as caught:
        assert_repeatable(charge, {"order": 1}, state=lambda: list(seen))
    said, another = str(caught.value).split("after another one:")
    assert said.startswith("charge(order=1) can't be judged: two single runs of it leave different states. There is no")
    assert "give reset=" in said
    assert said.endswith("after a single run:\n    [1]\n")
    assert another.count("1") > 2


def test_chance_is_not_taken_for_a_repetition(nd, tmp_path):
    """A state that no two runs share says nothing of crashes."""

    @nd.task
    def stamp(ctx: Context) -> None:
        with ctx.replace(tmp_path / "stamp") as out:
            out.write(str(time.monotonic_ns()))

    with pytest.raises(AssertionError, match=r"can't be judged: .* the time of now, or chance\?"):
        assert_repeatable(stamp)


def test_when_a_row_was_made_is_not_compared(nd):
    @nd.task
    def note() -> None:
        with nd.transaction() as tx:
            tx.execute(
                "CREATE TABLE IF NOT EXISTS note(n, at DEFAULT (strftime('%f', 'now')), day DEFAULT CURRENT_DATE)"
            )
            tx.execute("DELETE FROM note")
            tx.execute("INSERT INTO note(n) VALUES (1)")
        time.sleep(0.002)

    assert_repeatable(note)


@pytest.fixture
def pay(nd):
    @nd.task(retry=Retry(limit=2))
    def pay(order: int, once: bool) -> None:
        with nd.transaction() as tx:
            tx.execute(f"INSERT {'OR IGNORE' if once else ''} INTO pay(id) VALUES (?)", (order if once else None,))

    return pay


def test_rows_of_ones_own_in_the_same_file_are_compared(nd, pay):
    def tables() -> None:
        with nd.transaction() as tx:
            tx.execute("CREATE TABLE pay(id INTEGER PRIMARY KEY AUTOINCREMENT)")

    assert_repeatable(pay, (1, True), reset=tables)
    with pytest.raises(
        AssertionError, match="not harmless to repeat: its worker died after the task had ret"
    ) as caught:
        assert_repeatable(pay, (1, False), reset=tables)
    once, now = str(caught.value).split("now:")
    assert "'(1,)'" in once
    assert "'(2,)'" not in once
    assert "'(1,)', '(2,)'" in now
    assert "nextdue_" not in now


def test_a_table_that_can_not_be_read_stands_in_nobody_s_way(box, nd, mail):
    """As one of an extension that only the application loads."""
    nd.find()
    with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "INSERT INTO sqlite_schema VALUES ('table', 'v', 'v', 0, 'CREATE VIRTUAL TABLE v USING unknown(a)')"
        )

    @nd.task
    def order(n: int) -> None:
        mail.using(key=str(n)).enqueue("ada")

    box.assert_repeatable(order, (1,))


def test_a_table_that_is_missing_asks_for_a_reset(pay):
    with pytest.raises(AssertionError, match=r"no such table: pay \(test_.*in pay\)\. Each .* or give reset="):
        assert_repeatable(pay, (1, True))


def test_each_trial_begins_with_the_tables_of_the_test(box, nd, mail, pay):
    with nd.transaction() as tx:
        tx.execute("CREATE TABLE pay(id INTEGER PRIMARY KEY)")
        tx.execute("INSERT INTO pay VALUES (7)")
    waiting = mail.enqueue("ada")
    nd.pause(queue="default")
    box.assert_repeatable(pay, (1, True))
    with pytest.raises(AssertionError, match="not harmless") as caught:
        box.assert_repeatable(pay, (1, False))
    assert "'(7,)', '(8,)']" in str(caught.value).split("now:")[0]
    with nd.transaction() as tx:
        assert tx.execute("SELECT id FROM pay").fetchall() == [(7,)]
    assert [h.id for h in nd.find()] == [waiting.id]
    assert [paused.word for paused in nd.paused()] == ["default"]


def test_what_only_the_very_first_run_does_can_not_be_judged(nd, seen):
    """What it leaves where nobody looks keeps it from doing it again."""

    @nd.task
    def once_only() -> None:
        seen.append(1)
        with nd.transaction() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS a(n)")
            tx.execute("INSERT INTO a SELECT 1 WHERE ?", (len(seen) == 1,))

    with pytest.raises(AssertionError, match=r"can't be judged: .* Give a reset= that undoes it"):
        assert_repeatable(once_only)


def test_an_effect_that_can_not_be_seen_is_no_proof(nd, seen):
    @nd.task
    def send(to: str) -> None:
        seen.append(to)

    with pytest.raises(AssertionError, match=r"nothing that send\('ada'\) does can be seen here: .*; give state="):
        assert_repeatable(send, ("ada",))
    assert seen == ["ada"]
    assert_repeatable(send, ("ada",), state=lambda: None)


def test_tables_that_only_reset_made_are_no_effect(nd):
    def tables() -> None:
        with nd.transaction() as tx:
            tx.execute("CREATE TABLE a(n)")
            tx.execute("INSERT INTO a VALUES (1)")

    with pytest.raises(AssertionError, match="nothing that idle"):
        assert_repeatable(nd.task(name="idle")(lambda: None), reset=tables)


def test_a_state_that_is_set_and_not_added_to_passes(nd):
    paid: dict[int, int] = {}

    @nd.task
    def pay(order: int) -> None:
        paid[order] = 100

    assert_repeatable(pay, (1,), state=lambda: dict(paid))


def test_retries_and_snoozes_are_gone_through(nd):
    tries: list[int] = []

    @nd.task(retry=Retry(base="1h"))
    def slow(ctx: Context) -> None:
        tries.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError
        if tries[-2:] != [2, 2]:
            raise Snooze("1 day")

    assert_repeatable(slow, state=lambda: None)
    assert len(tries) > 4


def test_the_same_instant_and_id_in_each_trial(nd, tmp_path):
    @nd.task
    def stamp(ctx: Context) -> None:
        with ctx.replace(tmp_path / "stamp") as out:
            out.write(f"{ctx.id} {ctx.scheduled_for}")
        time.sleep(0.002)

    assert_repeatable(stamp)


def test_a_task_that_fails_for_good_is_no_candidate(nd):
    @nd.task
    def broken(n: int) -> None:
        raise GiveUp("there is no order 7")

    with pytest.raises(AssertionError, match=r"broken\(7\) ended dead in a single run: GiveUp: there is no order 7"):
        assert_repeatable(broken, (7,))


def test_only_the_task_itself_is_worked_off(nd, seen):
    @nd.task
    def child() -> None:
        seen.append("child")

    @nd.task
    def parent() -> None:
        child.using(key="c").enqueue()

    assert_repeatable(parent)
    assert seen == []


def test_it_works_beside_the_sandbox_of_a_test(box, nd, mail):
    @nd.task
    def order(n: int) -> None:
        mail.using(key=str(n)).enqueue("ada")

    waiting = order.enqueue(1)
    box.assert_repeatable(order, (2,))
    assert nd.find() == [] or [h.id for h in nd.find()] == [waiting.id]
    assert box.drain() == {"done": 2}


@pytest.mark.parametrize("args", ["a", 1, None])
def test_arguments_are_a_tuple_or_a_dict(mail, args):
    with pytest.raises(BadDefinition, match="args are a tuple, or a dict by name"):
        assert_repeatable(mail, args)


def test_a_function_is_no_task():
    with pytest.raises(BadDefinition, match="takes a task"):
        assert_repeatable(len, ("a",))  # type: ignore[arg-type]


def test_its_name_in_the_package_is_the_same_function():
    from nextdue.testing import assert_repeatable as inner

    assert package.assert_repeatable is inner
