"""How SQLite goes about each statement: golden plans, and no plan that grows with the backlog or the history.

NEXTDUE_GOLDEN=1 writes plans.txt anew; read its diff before it is committed.
"""

import os
import re
import sqlite3
from pathlib import Path

import pytest

from nextdue.sqlite import migrate
from nextdue.sqlite.store import SqliteStore

GOLDEN = Path(__file__).with_name("plans.txt")
TRIGGER = re.compile(r"CREATE (?:TEMP )?TRIGGER (\w+) [^\n]*(?:\nWHEN (.*?))?\nBEGIN\n(.*?)\nEND", re.DOTALL)
SCRIPTS = {"worker_setup", "limits_setup", "caller_setup"}
"""Pages of several statements; of these the insides of the triggers are planned."""
BOUNDED = {
    # As many as one tick found expired; the thousand behind one that isn't admitted, to have them in their order.
    "nextdue_odd_do fills nextdue_left": {"USE TEMP B-TREE FOR DISTINCT"},
    "nextdue_refused_do fills nextdue_behind 2": {"USE TEMP B-TREE FOR ORDER BY"},
    # A few rows from the old end of the history, in the order in which it lies: LIMIT ends the scan.
    "nextdue_purge_do changes nextdue_now": {"SCAN nextdue_run"},
    "nextdue_settle_do fills nextdue_purge": {"SCAN nextdue_run"},
    # As many as there are kinds of executors; as were settled by one tick; as a dead worker held.
    "look": {"USE TEMP B-TREE FOR GROUP BY"},
    "nextdue_onward_do fills nextdue_freed": {"USE TEMP B-TREE FOR DISTINCT"},
    "nextdue_bury_do fills nextdue_freed": {"USE TEMP B-TREE FOR DISTINCT"},
    # Small, and read only when a worker starts.
    "forget_rates": {"SCAN nextdue_rate"},
    # All schedules, only when a worker starts or the clock was set back.
    "cut_periods": {"SCAN g"},
    # The newest lines of the history, likewise.
    "runs": {"SCAN nextdue_run"},
}
"""Statements that may go over a big table, and why."""
RUNNING = "INDEX nextdue_task_lease"
"""Only what runs is in this index: as many rows as the workers hold."""


class Nulls(dict):
    def __missing__(self, name):
        return None


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = SqliteStore(tmp_path_factory.mktemp("plans") / "shop.db")
    worker = store.enlist()
    yield store
    store.resign(worker)
    store.close()


def statements(sql: dict[str, str]) -> dict[str, str]:
    """Every statement by name, those inside of triggers with parameters for NEW's columns."""
    found = {name: text for name, text in sql.items() if name not in SCRIPTS}
    scripts = [sql[name] for name in sorted(SCRIPTS)]
    scripts += [text for number in range(1, migrate.VERSION + 1) for text in migrate.statements(number)]
    for script in scripts:
        for trigger, when, body in TRIGGER.findall(script):
            if when:
                found[f"{trigger} when"] = "SELECT " + re.sub(r"\b(?:NEW|OLD)\.(\w+)", r":\1", when)
            for text in body.split(";"):
                clean = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--")).strip()
                if clean and "RAISE(" not in clean:
                    named(found, trigger, re.sub(r"\b(?:NEW|OLD)\.(\w+)", r":\1", clean))
    return found


def named(found: dict[str, str], trigger: str, text: str) -> None:
    does = {"INSERT": "fills", "DELETE": "purges", "UPDATE": "changes"}[text.split(maxsplit=1)[0]]
    table = next(word for word in re.findall(r"\w+", text) if word.startswith("nextdue_"))
    name, number = f"{trigger} {does} {table}", 1
    while name in found:
        number += 1
        name = f"{trigger} {does} {table} {number}"
    found[name] = text


def plan(connection: sqlite3.Connection, text: str) -> list[str]:
    lines, depth = [], {0: 0}
    for id, parent, _, detail in connection.execute("EXPLAIN QUERY PLAN " + text, Nulls()):
        depth[id] = depth.get(parent, 0) + 1
        lines.append("  " * depth[id] + detail)
    return lines


def all_plans(store: SqliteStore) -> dict[str, list[str]]:
    connection = store.database.connection
    return {name: plan(connection, text) for name, text in statements(store.database.sql).items()}


def written(plans: dict[str, list[str]]) -> str:
    series = ".".join(map(str, sqlite3.sqlite_version_info[:2]))
    parts = [f"SQLite {series}\n"]
    parts += [f"\n{name}\n" + "".join(f"{line}\n" for line in lines) for name, lines in sorted(plans.items())]
    return "".join(parts)


def test_the_plans_are_the_golden_ones(store):
    now = written(all_plans(store))
    if os.environ.get("NEXTDUE_GOLDEN"):
        GOLDEN.write_text(now, "utf-8")
    golden = GOLDEN.read_text("utf-8")
    if golden.splitlines()[0] != now.splitlines()[0]:
        pytest.skip(f"the golden plans are of {golden.splitlines()[0]}")
    assert now == golden


def offences(name: str, text: str, lines: list[str]) -> list[str]:
    """Lines of a plan whose cost grows with the number of tasks or runs."""
    aliases = {"nextdue_task", "nextdue_run", "nextdue_schedule"}
    aliases |= {
        alias
        for alias in re.findall(r"\bnextdue_(?:task|run|schedule)\s+(?:AS\s+)?(\w+)", text)
        if alias not in {"WHERE", "SET", "CROSS", "ORDER", "LEFT", "JOIN", "ON"}
    }
    growing = []
    for line in map(str.strip, lines):
        scans = line.startswith("SCAN ") and line.split()[1] in aliases and not line.endswith(RUNNING)
        # An index made for the occasion costs what a scan does, and a sort more.
        sorts = line.startswith("USE TEMP B-TREE") or " USING AUTOMATIC " in line
        if (scans or sorts) and line not in BOUNDED.get(name, ()):
            growing.append(line)
    return growing


def test_no_plan_grows_with_the_backlog_or_the_history(store):
    texts = statements(store.database.sql)
    found = {name: offences(name, texts[name], lines) for name, lines in all_plans(store).items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_each_exception_is_still_one(store):
    plans = all_plans(store)
    for name, allowed in BOUNDED.items():
        assert allowed <= {line.strip() for line in plans[name]}, name


def test_the_claim_goes_by_lane_and_due(store):
    lines = "\n".join(all_plans(store)["nextdue_tick_do fills nextdue_claimed"])
    assert lines.count("SEARCH n USING INDEX nextdue_task_due (lane=? AND due<?)") == 1
    assert lines.count("SEARCH n USING INDEX nextdue_task_due (lane=? AND due=? AND rowid>?)") == 1
    assert lines.count("SEARCH n USING INDEX nextdue_task_due (lane=? AND due>? AND due<?)") == 1


@pytest.mark.parametrize("index", ["nextdue_task_due", "nextdue_task_lease", "nextdue_task_gone", "nextdue_task_key"])
def test_without_this_index_a_plan_would_grow(store, index):
    """The test above can fail."""
    connection = store.database.connection
    connection.execute("BEGIN")
    try:
        connection.execute(f"DROP INDEX {index}")
        texts = statements(store.database.sql)
        plans = {}
        for name, text in texts.items():
            if "ON CONFLICT" not in text:  # without the index of keys that is an error
                # Another text, for an EXPLAIN in sqlite3's cache would tell of the schema before.
                plans[name] = plan(connection, f"{text}\n-- without {index}")
    finally:
        connection.execute("ROLLBACK")
    assert any(offences(name, texts[name], lines) for name, lines in plans.items())
