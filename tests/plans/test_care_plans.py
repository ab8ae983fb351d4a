"""The pages for people: what health asks never grows with the rows, and what ls asks goes by an index where one is."""

import inspect
import sqlite3

import pytest

from nextdue.sqlite import care, health
from nextdue.sqlite.store import SqliteStore
from nextdue.statements import load
from tests.plans.test_plans import Nulls, offences, plan

SEEN = {
    # The first of the groups, in the order of the index: LIMIT 1 ends the scan.
    "health_blocked": {"SCAN nextdue_task USING COVERING INDEX nextdue_task_group", "USE TEMP B-TREE FOR GROUP BY"},
    # The newest line that a worker wrote: LIMIT 1 ends the scan.
    "health_facts": {"SCAN nextdue_run"},
    # Names and groups, not tasks.
    "health_held": {f"USE TEMP B-TREE FOR {what}" for what in ("GROUP BY", "DISTINCT", "ORDER BY")},
    "health_dead": {f"USE TEMP B-TREE FOR {what}" for what in ("DISTINCT", "ORDER BY")},
    # Of as many waits as are counted, which LIMIT ends.
    "health_waits": {f"USE TEMP B-TREE FOR {what}" for what in ("GROUP BY", "count(DISTINCT)")},
    "health_late": {"USE TEMP B-TREE FOR ORDER BY"},
}
"""Lines of health's plans that look as if they grew, and why they don't."""


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "shop.db")
    yield store
    store.close()


@pytest.mark.parametrize("name", sorted(load("nextdue.sqlite", health.PAGE)))
def test_no_statement_of_health_grows_with_the_rows(store, name):
    text = load("nextdue.sqlite", health.PAGE)[name]
    lines = plan(store.database.connection, text)
    assert set(offences(name, text, lines)) <= SEEN.get(name, set())


def test_that_test_can_fail(store):
    text = "SELECT count(*) FROM nextdue_task n WHERE n.rest = 'dead'"
    assert offences("x", text, plan(store.database.connection, text))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("care_due", "SEARCH t USING INDEX nextdue_task_due (lane=? AND due>?)"),
        ("care_running", "SCAN t USING INDEX nextdue_task_lease"),
        ("care_page_rest", "SEARCH t USING INDEX nextdue_task_rest (rest=? AND name>?)"),
        ("care_aged_rest", "SEARCH t USING INDEX nextdue_task_rest (rest=?)"),
        ("care_page_key", "SEARCH t USING INDEX nextdue_task_key (name=? AND key=? AND rowid>?)"),
        ("care_blocked", "SEARCH t USING INDEX nextdue_task_blocked (name=? AND grp>?)"),
        ("care_waits", "SCAN m USING INDEX nextdue_mark_open"),  # an index of those that wait alone
        ("care_page", "SEARCH t USING INTEGER PRIMARY KEY (rowid>?)"),
        ("care_retry", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)"),
        ("care_run_now", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)"),
        ("care_purge", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)"),
        ("care_purge_lines", "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"),
    ],
)
def test_what_people_ask_goes_by_an_index(store, name, line):
    lines = plan(store.database.connection, load("nextdue.sqlite", care.PAGE)[name])
    if sqlite3.sqlite_version_info[:2] != (3, 40):
        pytest.skip("these are the words of SQLite 3.40")
    assert line in {found.strip() for found in lines}, lines


def test_every_statement_of_the_pages_is_asked_for():
    """A page's name that nobody uses is a mistake; so is one that isn't there."""
    text = inspect.getsource(care) + inspect.getsource(health)
    verbs = {"care_retry", "care_run_now", "care_purge"}
    for page in (care.PAGE, health.PAGE):
        for name in load("nextdue.sqlite", page):
            assert name in verbs or f'"{name}"' in text, name


def test_the_statements_run_with_what_they_name(store):
    """With every parameter NULL: no statement speaks of a column or table that isn't there."""
    care.sight(store, 1)
    for page in (care.PAGE, health.PAGE):
        for name, text in load("nextdue.sqlite", page).items():
            if not name.endswith("_setup"):
                store.database.connection.execute("EXPLAIN " + text, Nulls()).fetchall()
