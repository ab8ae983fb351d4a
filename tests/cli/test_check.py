"""`nextdue check`: a sound file has no findings, and each broken invariant is found."""

import json

import pytest

from nextdue.sqlite import inspect
from nextdue.sqlite.database import PAGES
from nextdue.sqlite.migrate import VERSION, statements
from nextdue.statements import load


@pytest.fixture
def busy(shop):
    """A file with every kind of row: 1 and 2 wait, 3 is done with a key, 4 runs, 5 is cancelled, 6 is dead."""
    receipt = shop.nd.tasks["receipt"]
    receipt.using(key="three").enqueue(3)
    shop.sql("UPDATE nextdue_task SET id = 3")
    shop.nd.run(1, once=True)
    for id, key, rest in ((1, None, None), (2, "two", None), (4, None, None), (5, "five", None), (6, "six", "dead")):
        made = receipt.using(delay="1h", key=key).enqueue(id)
        shop.sql(
            "UPDATE nextdue_task SET id = ?1, rest = ?2, due = iif(?2 IS NULL, due, NULL) WHERE id = ?3",
            (id, rest, made.id),
        )
    assert shop.nd.get(5).cancel()
    shop.sql("UPDATE nextdue_task SET token = 1 << 32, claims = 1, scheduled_for = 1 WHERE id = 4")
    return shop


def findings(shop):
    with shop.nd.caller.use() as store:
        return inspect.check(store.database)


def test_a_new_file_and_a_busy_one_are_sound(shop, cli, busy, capsys):
    assert findings(busy) == []
    capsys.readouterr()
    assert cli("check", "shop.db") == (0, f"{shop.path}: sound\n", "")
    code, out, _ = cli("check", "shop:nd", "--json")
    assert (code, json.loads(out)) == (0, {"path": str(shop.path), "findings": []})


PLANNED = "INSERT INTO nextdue_schedule(name, key, plan) VALUES"
PLANTED = [
    ("UPDATE nextdue_task SET rest = 'done' WHERE id = 1", "task 1: it must have either a due or a reason to rest"),
    ("UPDATE nextdue_task SET due = NULL WHERE id = 1", "task 1: it must have either a due or a reason to rest"),
    ("UPDATE nextdue_task SET due = 'soon' WHERE id = 1", "task 1: its due is no instant: 'soon'"),
    ("UPDATE nextdue_task SET due = -1 WHERE id = 1", "task 1: its due is no instant: -1"),
    ("UPDATE nextdue_task SET due = NULL, rest = 'tired' WHERE id = 1", "task 1: unknown rest 'tired'"),
    ("UPDATE nextdue_task SET due = NULL, rest = 'held' WHERE id = 4", "task 4: it is at rest and has a token"),
    ("UPDATE nextdue_task SET token = 9 << 32 WHERE id = 4", "its token names worker 9, which never was"),
    ("UPDATE nextdue_task SET token = 5 WHERE id = 4", "its token names worker 0, which never was"),
    ("UPDATE nextdue_task SET claims = 0 WHERE id = 4", "task 4: it is running and was never claimed"),
    ("UPDATE nextdue_task SET scheduled_for = NULL WHERE id = 4", "task 4: it is running and was never claimed"),
    ("UPDATE nextdue_task SET lane = 77 WHERE id = 1", "task 1: it is in lane 77, which isn't there"),
    ("UPDATE nextdue_task SET name = 'other' WHERE id = 1", "task 1: it is called 'other' in a lane of 'receipt'"),
    ("UPDATE nextdue_task SET gone_at = NULL WHERE id = 3", "task 3: it occupies its key for ever"),
    ("UPDATE nextdue_task SET gone_at = NULL WHERE id = 5", "task 5: it occupies its key for ever"),
    ("UPDATE nextdue_task SET key = NULL WHERE id = 3", "task 3: it is finished and has no key: a row too many"),
    ("UPDATE nextdue_task SET gone_at = 5 WHERE id = 1", "task 1: it isn't finished and would be purged"),
    ("UPDATE nextdue_task SET gone_at = 5 WHERE id = 6", "task 6: it isn't finished and would be purged"),
    ("UPDATE nextdue_task SET args = '[1' WHERE id = 1", "task 1: its arguments aren't JSON"),
    ("UPDATE nextdue_task SET args = '1' WHERE id = 1", "task 1: its arguments are no JSON array or object"),
    ("UPDATE nextdue_task SET attempts = -1 WHERE id = 1", "task 1: attempts -1"),
    ("UPDATE nextdue_task SET crashes = 'many' WHERE id = 1", "task 1: crashes 'many'"),
    ("UPDATE nextdue_task SET claims = -2 WHERE id = 1", "task 1: claims -2"),
    ("UPDATE nextdue_task SET created = -2 WHERE id = 1", "task 1: created -2"),
    ("UPDATE sqlite_sequence SET seq = 3 WHERE name = 'nextdue_task'", "task 6: its id will be used again"),
    ("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'nextdue_worker'", "its token names worker 1, which never was"),
    ("INSERT INTO nextdue_lane VALUES (50, 'q', 'receipt', 500, 0)", "lane 50: 'q', 'receipt', priority 500"),
    ("INSERT INTO nextdue_lane VALUES (50, '', 'receipt', 0, 0)", "lane 50: '', 'receipt', priority 0"),
    ("UPDATE nextdue_run SET outcome = 'odd' WHERE task = 3", "unknown outcome 'odd'"),
    ("UPDATE nextdue_run SET started = ended + 1 WHERE task = 3", "it ended before it began"),
    ("UPDATE nextdue_run SET task = 99 WHERE task = 3", "its task 99 never was"),
    ("UPDATE nextdue_run SET task = 1, key = NULL WHERE task = 3", "its task 1 is done and still there"),
    ("UPDATE nextdue_run SET result = '{' WHERE task = 3", "its result isn't JSON"),
    (
        "INSERT INTO nextdue_run(task, name, claim, ended, outcome) "
        "VALUES (1, 'r', 1, 5, 'failed'), (1, 'r', 1, 6, 'failed')",
        "task 1: its claim 1 ended 2 times: failed,failed",
    ),
    (
        "INSERT INTO nextdue_worker(id, started, host, pid) VALUES (7, 0, 'here', 1); "
        "UPDATE sqlite_sequence SET seq = 2 WHERE name = 'nextdue_worker'",
        "worker 7: its number",
    ),
    (f"{PLANNED} ('receipt', '@a', '{{}}')", "schedule 'receipt' 'a': it has no row, so it never runs"),
    (f"{PLANNED} ('receipt', 'two', '{{}}')", "schedule 'receipt' 'wo': its key is no schedule's"),
    (f"{PLANNED} ('receipt', '@a', '{{')", "its plan isn't JSON"),
    (f"{PLANNED} ('receipt', '@a', '[]')", "its plan is no JSON object"),
    (f"{PLANNED} ('receipt', '@a', x'7b7d')", "its plan is no text"),
    (f"{PLANNED} ('receipt', '@a', '{{}}'); UPDATE nextdue_schedule SET fired = 'x'", "fired 'x'"),
    (f"{PLANNED} ('receipt', '@a', '{{}}'); UPDATE nextdue_schedule SET missed = -1", "missed -1"),
    (f"{PLANNED} ('receipt', '@a', '{{}}'); UPDATE nextdue_schedule SET missed_ever = 1.5", "missed_ever 1.5"),
    (f"{PLANNED} ('receipt', '@a', '{{}}'); UPDATE nextdue_schedule SET last = 'x'", "its last slot is no instant"),
    ("UPDATE nextdue_meta SET value = 0 WHERE name = 'schema'", "meta: schema 0, expected"),
    ("DELETE FROM nextdue_meta WHERE name = 'store'", "meta: the store has no id"),
    ("DROP INDEX nextdue_task_due", "schema: nextdue_task_due is missing"),
    ("DROP TRIGGER nextdue_tasks_insert", "schema: nextdue_tasks_insert is missing"),
    ("DROP TABLE nextdue_run", "schema: nextdue_run is missing"),
    (
        "DROP INDEX nextdue_task_key; UPDATE nextdue_task SET key = 'two' WHERE id = 6",
        "task receipt: the key 'two' is held by 2 rows: 2,6",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "finding"), PLANTED, ids=[damage[:70] for damage, _ in PLANTED])
def test_damage_is_found(busy, cli, damage, finding):
    for statement in damage.split("; "):
        busy.sql(statement)
    found = findings(busy)
    assert [text for text in found if finding in text], found
    code, out, _ = cli("check", "shop.db")
    assert code == 1 or "meta: schema" in finding
    assert finding in out or "meta: schema" in finding


def test_an_index_that_lost_a_row_is_found(busy):
    busy.sql("PRAGMA writable_schema=ON")
    busy.sql(
        "UPDATE sqlite_master SET sql = replace(sql, 'token IS NOT NULL', 'token IS NULL') "
        "WHERE name = 'nextdue_task_lease'"
    )
    busy.sql("PRAGMA writable_schema=RESET")
    assert any(text.startswith("nextdue_task: ") for text in findings(busy))


def test_many_findings_are_cut(busy):
    busy.nd.tasks["receipt"].enqueue_many([(n,) for n in range(60)])
    busy.sql("UPDATE nextdue_task SET attempts = -1")
    found = findings(busy)
    assert len(found) == inspect.FINDINGS + 1
    assert found[-1] == "tasks: there are more findings than these 50"


def test_both_pages_of_statements_have_names_of_their_own():
    assert not set(load("nextdue.sqlite", *PAGES)) & set(load("nextdue.sqlite", inspect.PAGE))


def test_check_knows_every_object_of_the_schema(shop):
    made = {name for (name,) in shop.sql("SELECT name FROM sqlite_master WHERE name LIKE 'nextdue%'")}
    assert set(inspect.objects()) == made
    assert all(statements(number) for number in range(1, VERSION + 1))
