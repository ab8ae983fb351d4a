"""The tree is tidy, and each check that says so can fail."""

from pathlib import Path

import pytest

from tests.conftest import ALONE
from tests.tidy import checks

TOP = Path(__file__).parents[2]
PYPROJECT = (TOP / "pyproject.toml").read_text("utf-8")
PURE = {
    f"src/nextdue/{name}.py": ""
    for name in ("due", "schedule", "cron", "every", "zones", "task", "codec", "records", "ports", "worker")
}
PAGE = "src/nextdue/sqlite/statements.sql"
STORE = "src/nextdue/sqlite/store.py"
SIGNAL_PAGE = "apps/signal/src/signal_feeds/store/statements.sql"
SIGNAL_STORE = "apps/signal/src/signal_feeds/store/store.py"
TYPED = {"src/nextdue/py.typed": "", "apps/signal/src/signal_feeds/py.typed": ""}


def by_name(value: object) -> str | None:
    return getattr(value, "__name__", "")


@pytest.mark.parametrize("check", checks.CHECKS, ids=by_name)
def test_the_tree_has_no(check):
    offences = check(TOP)
    assert not offences, "\n".join(offences)


def test_the_readme_tells_the_two_commands():
    told = checks.commands((TOP / "README.md").read_text("utf-8"))
    assert {"demo", "test"} <= set(told)


def test_the_statements_are_where_the_check_looks():
    assert "-- :name " in (TOP / PAGE).read_text("utf-8")


@pytest.mark.parametrize("start", ALONE)
def test_what_runs_alone_is_there(start):
    path = TOP / start
    assert path.is_dir() if start.endswith("/") else list(path.parent.glob(f"{path.name}*"))


PLANTED = [
    (checks.files_from_500_lines, {"src/a.sql": "--\n" * 499}, []),
    (checks.files_from_500_lines, {"src/a.sql": "--\n" * 500}, ["src/a.sql has 500 lines"]),
    (checks.files_from_500_lines, {"apps/signal/src/a.py": "\n" * 500}, ["apps/signal/src/a.py has 500 lines"]),
    (checks.functions_from_50_lines, {"src/a.py": "def f():\n" + "    1\n" * 48}, []),
    (checks.functions_from_50_lines, {"src/a.py": "def f():\n    '''\n\n'''\n" + "    1\n" * 48}, []),
    (
        checks.functions_from_50_lines,
        {"src/a.py": "class A:\n    async def f():\n" + "        1\n" * 49},
        ["src/a.py:2 f has 50 lines"],
    ),
    (checks.unfinished_work, {"src/a.py": "methods = {'todo': 1}"}, []),
    (checks.unfinished_work, {"src/a.py": "\n# FIXME"}, ["src/a.py:2 says FIXME"]),
    (checks.unfinished_work, {"apps/signal/src/a.py": "# FIXME"}, ["apps/signal/src/a.py:1 says FIXME"]),
    (checks.registry_hosts, {"README.md": "from PyPI", ".git/config": "pypi" + ".org"}, []),
    (
        checks.registry_hosts,
        {"a/b.txt": "files.python" + "hosted.org"},
        ["a/b.txt:1 says python" + "hosted.org"],
    ),
    (checks.impure_rules, PURE | {"src/nextdue/due.py": "from datetime import datetime\nstore.now()"}, []),
    (
        checks.impure_rules,
        PURE | {"src/nextdue/due.py": "def f():\n    import time\n    return datetime.datetime.now(UTC)"},
        ["src/nextdue/due.py:2 imports time", "src/nextdue/due.py:3 calls datetime.datetime.now"],
    ),
    (
        checks.impure_rules,
        PURE | {"src/nextdue/worker.py": "from concurrent.futures import Future"},
        ["src/nextdue/worker.py:1 imports concurrent.futures"],
    ),
    (
        checks.impure_rules,
        {path: text for path, text in PURE.items() if "codec" not in path},
        ["pyproject.toml names nextdue.codec, which is not there"],
    ),
    (
        checks.sql_names,
        {
            PAGE: "-- :name claim\n-- :name renew\n-- :name settle\n-- :name purge\n",
            STORE: "self.sql['claim'], self.sql.renew.strip(), sql.get('settle'), run('purge')",
        },
        [],
    ),
    (checks.sql_names, {PAGE: "\n-- :name claim", STORE: ""}, [f"{PAGE}:2 claim is never used"]),
    (checks.sql_names, {PAGE: "", STORE: "sql['claim']"}, [f"{STORE}:1 asks for claim, which no page has"]),
    (checks.sql_names, {PAGE: "", STORE: "self.sql.claim"}, [f"{STORE}:1 asks for claim, which no page has"]),
    (
        checks.sql_names,
        {PAGE: "-- :name claim\n-- :name claim\n-- :name Settle", STORE: "sql.claim, sql.Settle"},
        [f"{PAGE}:2 claim is there twice", f"{PAGE}:3 'Settle' is no snake_case name"],
    ),
    (
        checks.sql_names,
        {PAGE: "-- :name claim", STORE: "sql.claim", SIGNAL_PAGE: "-- :name claim", SIGNAL_STORE: ""},
        [f"{SIGNAL_PAGE}:1 claim is never used"],
    ),
    (checks.decisions_without_heading, {"docs/decisions/0001-a.md": "# 0001 A\n"}, []),
    (
        checks.decisions_without_heading,
        {"docs/decisions/0001-a.md": "Why\n# 0001 A\n", "docs/decisions/0002-b.md": "# 0001 B\n"},
        [f"docs/decisions/{name}.md does not begin with its number as a heading" for name in ("0001-a", "0002-b")],
    ),
    (
        checks.make_commands,
        {
            "Makefile": "a: b  ## text\n",
            "README.md": "To `make a`, or\nmake sure that\n\n    make a    text\n    $ make a\n",
        },
        [],
    ),
    (
        checks.make_commands,
        {"Makefile": "a:\n", "README.md": "```\nmake b\n```", "docs/c.md": "`make c`, `cd x && make d`"},
        [
            "README.md tells to run 'make b', which is no target",
            "docs/c.md tells to run 'make c', which is no target",
            "docs/c.md tells to run 'make d', which is no target",
        ],
    ),
    (checks.untyped_package, TYPED, []),
    (checks.untyped_package, {}, [f"{path} is missing" for path in TYPED]),
]


@pytest.mark.parametrize(("check", "files", "offences"), PLANTED, ids=by_name)
def test_a_planted_offence_is_found_by(check, files, offences, tmp_path):
    for name, text in ({"pyproject.toml": PYPROJECT} | files).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert check(tmp_path) == offences


def test_each_check_has_a_planted_offence():
    assert {check for check, _, offences in PLANTED if offences} == set(checks.CHECKS)
