"""The statements of transactions: none goes over a big table, for each runs while somebody's block holds the lock."""

import re

import pytest

from nextdue.sqlite.store import SqliteStore
from nextdue.sqlite.tx import SQL
from tests.plans.test_plans import plan

STATEMENTS = {name: text for name, text in SQL.items() if name.startswith("tx_") and not text.startswith("PRAGMA")}
BOUNDED = {
    "tx_number": {"SCAN CONSTANT ROW"},
    # The lanes of one name, of which there are as many as queues and priorities it was put with; t is its group, a row
    # of two parameters.
    "tx_unblock": {"SCAN l", "SCAN t", "SCAN CONSTANT ROW"},
    "tx_follow": {"SCAN l"},
    # Two rows from the old end, in the order in which it lies: LIMIT ends it.
    "tx_purge_runs": {"SCAN nextdue_run", "SCAN (subquery-1)"},
    "tx_purge_kept": {"SCAN nextdue_run", "SCAN (subquery-1)"},
    "tx_tables": {"SCAN sqlite_master"},
    "tx_did": {"SCAN CONSTANT ROW"},
}
INDEXES = {
    "tx_unblock": "nextdue_task_blocked (name=? AND grp=? AND lane=? AND wished>?)",
    "tx_purge_tasks": "nextdue_task_gone (gone_at<?)",
    "tx_purge_results": "nextdue_result_keep (keep<?)",
    "tx_key": "nextdue_task_key (name=? AND key=?)",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = SqliteStore(tmp_path_factory.mktemp("plans") / "shop.db")
    yield store
    store.close()


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_a_statement_seeks(name, store):
    lines = [line.strip() for line in plan(store.database.connection, STATEMENTS[name])]
    assert {line for line in lines if line.startswith("SCAN")} <= BOUNDED.get(name, set())
    assert not [line for line in lines if "TEMP B-TREE" in line], lines
    if name in INDEXES:
        assert INDEXES[name] in "\n".join(lines)
    if re.search(r"token = :token", STATEMENTS[name]):
        assert any("USING INTEGER PRIMARY KEY (rowid=?)" in line for line in lines), lines
