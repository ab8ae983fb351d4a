"""How hypothesis runs here, and which tests may run beside others.

No example has a deadline, for a machine may be busy, and a failure can be repeated from what it prints. At a desk there
are new examples each time; in CI the same ones, so that what landed yesterday passes today.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("nextdue", deadline=None, max_examples=100, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("nextdue")

ALONE = (
    "tests/process/",
    "tests/demo/",
    "tests/cli/test_worker.py",
    "tests/contract/test_executor_laws.py",
    "tests/contract/test_executor_loop.py",
    "tests/contract/test_process_executor.py",
    "tests/contract/test_process_finding.py",
    "tests/docs/test_examples.py",
)
"""Where real time is measured, or what an idle process uses, or a wait for a real process is short."""
BESIDE = (
    "tests/process/test_backup.py::test_each_holds_what_was_acknowledged_before_it_began",
    "tests/process/test_backup.py::test_one_that_is_killed_leaves_nothing_under_the_name",
    "tests/process/test_deploys.py",
    "tests/process/test_finish.py::test_killed_at_each_statement_it_is_all_or_nothing",
    "tests/process/test_gone.py",
    "tests/process/test_herd.py",
    "tests/process/test_restore.py",
    "tests/process/test_scale.py::test_a_long_reader_lets_the_wal_grow_and_its_end_shrinks_it",
    "tests/process/test_scale.py::test_a_worker_does_not_grow",
)
"""The long ones there that wait for what happens, as long as it takes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(ALONE) and not item.nodeid.startswith(BESIDE):
            item.add_marker(pytest.mark.alone)
