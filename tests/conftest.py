"""How hypothesis runs here, and which tests may run beside others.

No example has a deadline, for a machine may be busy, and a failure can be repeated from what it prints. At a desk there
are new examples each time; in CI the same ones, so that what landed yesterday passes today.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("nextdue", deadline=None, max_examples=100, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("nextdue")

HERE = Path(__file__).parent
ALONE = (
    "process/",
    "demo/",
    "cli/test_worker.py",
    "contract/test_executor_laws.py",
    "contract/test_executor_loop.py",
    "contract/test_process_executor.py",
    "contract/test_process_finding.py",
    "docs/test_examples.py",
)
"""What measures real time, counts what an idle process uses, or waits for real processes."""
BESIDE = (
    "process/test_gone.py",
    "process/test_herd.py",
    "process/test_restore.py",
)
"""Those among them that wait for what happens, however long it takes, and measure nothing."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        where = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
        if where.startswith(ALONE) and where not in BESIDE:
            item.add_marker(pytest.mark.alone)
