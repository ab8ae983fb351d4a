"""INSERT INTO nextdue_tasks: what any program with SQL may put, and what it is told when it can't be."""

import contextlib
import sqlite3
from datetime import UTC, datetime
from typing import Any

import pytest

from nextdue import Context
from nextdue.clock import to_ms

COLUMNS = "name, args, due_utc, key, queue, priority"


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture(autouse=True)
def task(world, nd, seen):
    """The task that other programs call, and a file with tables."""

    @nd.task
    def note(ctx: Context, a: object = None, b: int = 2) -> None:
        seen.append((a, b))

    nd.find()
    # SQLite's own clock speaks in the trigger: from now on the workers' clock is far ahead of it.
    world.clock.advance(10 * 365 * 86_400_000)
    return note


def insert(world, **values: Any) -> int:
    """INSERT these columns; how many rows that made."""
    before = world.count()
    marks = ", ".join("?" for _ in values)
    world.sql(f"INSERT INTO nextdue_tasks({', '.join(values)}) VALUES ({marks})", *values.values())
    return int(world.count() - before)


@pytest.mark.parametrize(
    ("args", "given"),
    [
        (None, (None, 2)),
        ("[]", (None, 2)),
        ('["x"]', ("x", 2)),
        ('["x", 5]', ("x", 5)),
        ('{"b": 7}', (None, 7)),
        ('\n {"a": {"c": [1.5, null]}}', ({"c": [1.5, None]}, 2)),
        ('["größe \\u00e9 🎉"]', ("größe é 🎉", 2)),
        ("[123456789012345678901234567890]", (123456789012345678901234567890, 2)),
    ],
)
def test_arguments_are_a_json_array_or_an_object_by_name(world, seen, args, given):
    assert insert(world, name="note", args=args) == 1
    assert world.work() == {"done": 1}
    assert seen == [given]


def test_what_is_left_out_has_its_default(world):
    insert(world, name="note")
    row = world.sql("SELECT queue, priority, key, args, state, attempts FROM nextdue_tasks")
    assert row == [("default", 0, None, "[]", "waiting", 0)]
    ((due, created),) = world.sql("SELECT due_ms, created_ms FROM nextdue_tasks")
    assert due == created
    assert abs(due - datetime.now(UTC).timestamp() * 1000) < 60_000


def test_a_lane_is_made_for_what_is_new(world, task):
    insert(world, name="note", queue="mail", priority=-7)
    insert(world, name="unknown")
    assert world.work() == {"done": 1}
    assert world.sql("SELECT name, state FROM nextdue_tasks") == [("unknown", "waiting")]


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2036-12-01T09:00:00Z", datetime(2036, 12, 1, 9, tzinfo=UTC)),
        ("2036-12-01T09:00:00.123Z", datetime(2036, 12, 1, 9, 0, 0, 123_000, tzinfo=UTC)),
        ("2036-12-01 09:00:00", datetime(2036, 12, 1, 9, tzinfo=UTC)),
        ("2036-12-01 09:00", datetime(2036, 12, 1, 9, tzinfo=UTC)),
        ("2036-12-01", datetime(2036, 12, 1, tzinfo=UTC)),
        ("2036-12-01T09:00:00+03:00", datetime(2036, 12, 1, 6, tzinfo=UTC)),
        ("2036-12-01T09:00:00-08:00", datetime(2036, 12, 1, 17, tzinfo=UTC)),
        ("2036-02-29", datetime(2036, 2, 29, tzinfo=UTC)),
        ("1970-01-01", datetime(1970, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999Z", datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    ],
)
def test_a_due_is_a_text_in_utc_unless_it_says_another_offset(world, text, utc):
    insert(world, name="note", due_utc=text)
    assert world.sql("SELECT due_ms FROM nextdue_tasks") == [(to_ms(utc),)]


def test_what_sqlite_itself_says_of_time_is_a_due(world):
    world.sql("INSERT INTO nextdue_tasks(name, due_utc) VALUES ('note', datetime('now', '+5 minutes'))")
    world.sql("INSERT INTO nextdue_tasks(name, due_utc) SELECT 'note', due_utc FROM nextdue_tasks")
    ((first, created), (second, _)) = world.sql("SELECT due_ms, created_ms FROM nextdue_tasks")
    assert first == second
    assert 290_000 < first - created <= 300_000


NAME = "name must be a text of 1 to 200 characters"
KEY = "key must be a text of 1 to 200 characters"
QUEUE = "queue must be a text of 1 to 200 characters"
ARGS = "args must be a JSON array or object"
DUE = "due_utc must be a text like 2026-12-01T09:00:00Z"
PRIORITY = "priority must be a whole number from -100 to 100"
NUL = "must not contain a NUL character"
OTHERS = "only name, args, due_utc, key, queue and priority can be given"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": None}, NAME),
        ({"args": "[]"}, NAME),
        ({"name": ""}, NAME),
        ({"name": 5}, NAME),
        ({"name": b"note"}, NAME),
        ({"name": "n" * 201}, NAME),
        ({"name": "note\x00"}, NUL),
        ({"key": ""}, KEY),
        ({"key": 42}, KEY),
        ({"key": b"k"}, KEY),
        ({"key": "k" * 201}, KEY),
        ({"key": "k\x00"}, NUL),
        ({"queue": ""}, QUEUE),
        ({"queue": 5}, QUEUE),
        ({"queue": "q\x00"}, NUL),
        ({"args": ""}, ARGS),
        ({"args": "["}, ARGS),
        ({"args": "5"}, ARGS),
        ({"args": '"a"'}, ARGS),
        ({"args": "null"}, ARGS),
        ({"args": "[NaN]"}, ARGS),
        ({"args": "{'a': 1}"}, ARGS),
        ({"args": 5}, ARGS),
        ({"args": b"[]"}, ARGS),
        ({"args": b"\x80\x04\x95"}, ARGS),
        ({"args": "[1]\x00garbage"}, NUL),
        ({"args": '["' + "a" * (1 << 20) + '"]'}, "args are over 1 MiB"),
        ({"args": '["' + "é" * (1 << 19) + '"]'}, "args are over 1 MiB"),
        ({"due_utc": ""}, DUE),
        ({"due_utc": "tomorrow"}, DUE),
        ({"due_utc": "now"}, DUE),
        ({"due_utc": "12:00"}, DUE),
        ({"due_utc": "2460000"}, DUE),
        ({"due_utc": 1_796_126_400}, DUE),
        ({"due_utc": 2_460_000.5}, DUE),
        ({"due_utc": "2026-02-31T00:00:00Z"}, DUE),
        ({"due_utc": "2026-13-01"}, DUE),
        ({"due_utc": "10000-01-01"}, DUE),
        ({"due_utc": "1969-12-31T23:59:59Z"}, DUE),
        ({"due_utc": "2026-12-01T25:00:00Z"}, DUE),
        ({"priority": 101}, PRIORITY),
        ({"priority": "5"}, PRIORITY),
        ({"priority": 1.5}, PRIORITY),
        ({"due_ms": 1_796_126_400_000}, OTHERS),
        ({"state": "dead"}, OTHERS),
        ({"id": 5}, OTHERS),
        ({"attempts": 1}, OTHERS),
    ],
)
def test_what_can_not_be_a_task_is_refused_and_nothing_is_stored(world, refuses, values, words):
    """F086, F108: the same rules as in Python, said by the database."""
    named = values if "name" in values or values == {"args": "[]"} else {"name": "note", **values}
    with refuses(sqlite3.IntegrityError, f"nextdue_tasks: .*{words}"):
        insert(world, **named)
    assert world.sql("SELECT count(*) FROM nextdue_lane") == [(0,)]


def test_one_bad_row_of_many_stores_none(world, refuses):
    with refuses(sqlite3.IntegrityError, ARGS):
        world.sql("INSERT INTO nextdue_tasks(name, args) SELECT 'note', value FROM json_each('[\"[1]\", \"[\"]')")


def test_a_rolled_back_insert_never_was(world):
    with contextlib.closing(sqlite3.connect(world.path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO nextdue_tasks(name) VALUES ('note')")
        connection.execute("ROLLBACK")
    assert world.count() == 0


def test_tasks_are_not_changed_through_the_view(world):
    insert(world, name="note")
    for statement in ("UPDATE nextdue_tasks SET state = 'dead'", "DELETE FROM nextdue_tasks"):
        with pytest.raises(sqlite3.OperationalError, match="because it is a view"):
            world.sql(statement)


# keys


@pytest.mark.parametrize("state", ["waiting", "done", "held", "dead", "cancelled"])
def test_keys_follow_the_rules_of_enqueue(world, nd, task, state):
    """F110: what is in use stays as it is; dead and cancelled ones start anew."""
    handle = task.using(key="k").enqueue("first")
    if state == "cancelled":
        handle.cancel()
    elif state != "waiting":
        world.sql("UPDATE nextdue_task SET args = ?", {"held": "[1,2,3]"}.get(state, '["first"]'))
        world.work()
        if state == "dead":
            world.sql("UPDATE nextdue_task SET rest = 'dead', gone_at = NULL, attempts = 12, reason = 'why'")
            world.sql("UPDATE nextdue_task SET expires = 5, latest = 5, grp = 'old', again_due = 5, again_args = '[]'")
    assert handle.state == state
    before = world.sql("SELECT * FROM nextdue_task")
    assert insert(world, name="note", key="k", args='["second"]', priority=5) == 0
    if state in ("dead", "cancelled"):
        view = nd.get("note", "k").view()
        assert (view.state, view.args, view.attempts, view.reason) == ("waiting", '["second"]', 0, None)
        assert view.priority == 5
        assert world.sql("SELECT expires, latest, grp, again_due, again_args FROM nextdue_task") == [(None,) * 5]
    else:
        assert world.sql("SELECT * FROM nextdue_task") == before


def test_a_key_put_by_sql_is_in_use_for_enqueue_and_remembered_a_day(world, task):
    insert(world, name="note", key="k")
    assert not task.using(key="k").enqueue().created
    world.work()
    world.clock.advance(86_399_999)
    assert not task.using(key="k").enqueue().created
    world.clock.advance(1)
    assert task.using(key="k").enqueue().created


def test_the_deepest_arguments_that_sql_takes_end_no_worker(world, nd, task):
    """How deep is too deep depends on the Python; the worker lives either way."""
    insert(world, name="note", args="[" * 1500 + "]" * 1500)
    task.enqueue("beside")
    assert world.work() in ({"held": 1, "done": 1}, {"done": 2})


# what the checks of SQL let through is held, never run wrongly and never the end of a worker


@pytest.mark.parametrize(
    "args",
    [
        '["a", 2, 3]',
        '["a", "two"]',
        '{"c": 1}',
        '["\\ud800"]',
        "[1e999]",
        '{"__reduce__": ["os.system", ["true"]]}',
    ],
)
def test_arguments_that_do_not_fit_are_held(world, nd, seen, task, args):
    """F088, F127."""
    insert(world, name="note", args=args)
    task.enqueue("beside")
    assert world.work() == {"held": 1, "done": 1}
    assert seen == [("beside", 2)]
    view = nd.find(state="held")[0].view()
    assert (view.args, view.reason, view.attempts) == (args, "arguments", 0)


def test_text_that_is_no_utf_8_ends_no_worker(world, nd, task, seen):
    world.sql("INSERT INTO nextdue_tasks(name, args) VALUES ('note', CAST(x'5b22ff225d' AS TEXT))")
    world.sql("INSERT INTO nextdue_tasks(name, key) VALUES ('note', CAST(x'ff6b' AS TEXT))")
    world.sql("INSERT INTO nextdue_tasks(name) VALUES (CAST(x'ff' AS TEXT))")
    task.enqueue("beside")
    assert world.work() == {"done": 3}
    assert ("beside", 2) in seen
    assert [h.name for h in nd.find(state="waiting")] == ["�"]


@pytest.mark.parametrize("name", ["os.system", "os:system", "subprocess.call", "builtins.eval", "note.__call__"])
def test_a_name_is_never_looked_for_outside_the_application(world, nd, seen, name, monkeypatch):
    """F127: names come from the declared tasks only."""
    imported: list[str] = []
    monkeypatch.setattr("builtins.__import__", _spy(imported))
    insert(world, name=name, args='["exit 1"]')
    assert world.advance("1d") == {}
    assert [h.name for h in nd.find(state="waiting")] == [name]
    assert seen == []
    assert not {"subprocess", "pickle", name.split(".", maxsplit=1)[0]} & set(imported) - {"os"}


def _spy(imported: list[str]) -> Any:
    plain = __import__

    def spy(name, *args, **kwargs):
        imported.append(name)
        return plain(name, *args, **kwargs)

    return spy


def test_the_views_show_what_happened(world, task):
    insert(world, name="note", key="k", args='["x"]', due_utc="2026-12-01T09:00:00Z")
    world.work()
    assert world.sql("SELECT state, due_utc, key, claims FROM nextdue_tasks") == [("done", None, "k", 1)]
    ((name, key, outcome, started, ended, for_ms),) = world.sql(
        "SELECT name, key, outcome, started_utc, ended_utc, scheduled_for_ms FROM nextdue_runs"
    )
    assert (name, key, outcome, for_ms) == ("note", "k", "done", to_ms(datetime(2026, 12, 1, 9, tzinfo=UTC)))
    assert started == ended
    assert to_ms(datetime.fromisoformat(ended)) == world.clock.now()
