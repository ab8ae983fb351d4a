"""Where each rule of Signal is tested. `python -m apps.signal.tests.rules.test_index` prints this table anew.

| rule | tests |
|---|---|
| success | politeness/test_politeness rules/test_dues store/test_attempts |
| failure | politeness/test_politeness rules/test_deaths rules/test_dues rules/test_siege store/test_attempts |
| our own fault | politeness/test_politeness rules/test_deaths rules/test_dues store/test_attempts |
| last_error | fetching/test_reasons rules/test_dues |
| --network off | cli/test_worker rules/test_one_owner rules/test_running |
| --once | cli/test_worker |
| one owner | cli/test_worker refreshing/test_refreshing rules/test_one_owner rules/test_refresh rules/test_running web/test_serve |
| order | rules/test_sources |
| fixtures | fixtures/test_fixtures rules/test_sources |
| forced refresh | cli/test_sources refreshing/test_refreshing rules/test_clock rules/test_refresh store/test_attempts |
| configuration | cli/test_worker rules/test_sources settings/test_settings |
| output | cli/test_worker rules/test_sources |
| removed source | cli/test_sources rules/test_sources |
| 1 one unconditional request | rules/test_dues rules/test_requests rules/test_sources |
| 2 validators | rules/test_disk rules/test_requests store/test_attempts |
| 3 no sooner than asked for | parsing/test_hints politeness/test_politeness rules/test_dues store/test_attempts |
| 4 a restart asks nobody again | rules/test_clock rules/test_requests rules/test_running rules/test_sources |
| 5 Retry-After | politeness/test_politeness rules/test_clock rules/test_dues |
| 6 a clean request | fetching/test_client rules/test_requests |
| 7 an honest name | cli/test_worker fetching/test_client rules/test_requests |
| 8 compression | fetching/test_client rules/test_requests |
| 9 skipHours, skipDays | parsing/test_hints politeness/test_politeness rules/test_dues |
| 10 gone | politeness/test_politeness rules/test_clock rules/test_dues store/test_attempts |
| 11 moved | politeness/test_politeness rules/test_requests store/test_attempts |
| 12 one host | cli/test_worker rules/test_requests settings/test_settings |
| 13 first requests are spread | cli/test_sources opml/test_commands politeness/test_politeness rules/test_sources |
"""  # noqa: E501

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROWS = {
    "success": "Rule success",
    "failure": "Rule failure",
    "our own fault": "Rule our own fault",
    "last_error": "Rule last_error",
    "--network off": "Rule --network off",
    "--once": "Rule --once",
    "one owner": "Rule one owner",
    "order": "Rule order",
    "fixtures": "Rule fixtures",
    "forced refresh": "Rule forced refresh",
    "configuration": "Rule configuration",
    "output": "Rule output",
    "removed source": "Rule removed source",
    "1 one unconditional request": "Acceptance 1",
    "2 validators": "Acceptance 2",
    "3 no sooner than asked for": "Acceptance 3",
    "4 a restart asks nobody again": "Acceptance 4",
    "5 Retry-After": "Acceptance 5",
    "6 a clean request": "Acceptance 6",
    "7 an honest name": "Acceptance 7",
    "8 compression": "Acceptance 8",
    "9 skipHours, skipDays": "Acceptance 9",
    "10 gone": "Acceptance 10",
    "11 moved": "Acceptance 11",
    "12 one host": "Acceptance 12",
    "13 first requests are spread": "Acceptance 13",
}
"""The rows of the table, and how the docstring of a test names one."""


def named() -> dict[str, list[str]]:
    """The modules, as `folder/module`, in which the docstring of a test names each row."""
    found: dict[str, list[str]] = {row: [] for row in ROWS}
    for path in sorted(TESTS.glob("*/test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for row in rows_in(ast.get_docstring(node) or ""):
                    found[row].append(f"{path.parent.name}/{path.stem}")
    return {row: sorted(set(modules)) for row, modules in found.items()}


def rows_in(docstring: str) -> list[str]:
    """Those that a docstring names: "Rule success", "rules success and failure", "acceptance 1 and 4".

    >>> rows_in("Acceptance 1 and 4: a month. Rule forced refresh: logged.")
    ['forced refresh', '1 one unconditional request', '4 a restart asks nobody again']
    """
    text = docstring.lower()
    numbers = {
        number
        for listed in re.findall(r"acceptance ((?:\d+(?:, | and )?)+)", text)
        for number in re.findall(r"\d+", listed)
    }
    words = " ".join(re.findall(r"rules? ([^.:;]*)", text))
    return [
        row
        for row, name in ROWS.items()
        if (
            name.split()[1] in numbers
            if name.startswith("Acceptance")
            else re.search(rf"(?<!\w){re.escape(row)}", words)
        )
    ]


def table() -> str:
    """The rows of the table in this module's docstring."""
    return "".join(f"| {row} | {' '.join(modules)} |\n" for row, modules in named().items())


def test_every_rule_has_a_test_that_names_it() -> None:
    assert [row for row, tests in named().items() if not tests] == []


def test_this_table_is_true() -> None:
    assert (__doc__ or "").endswith(f"|---|---|\n{table()}"), "print it anew"


if __name__ == "__main__":
    print(table(), end="")
