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
"""Where real time is measured, or what an idle process uses, or a wait for a real process is short.

Those there that wait for what happens, as long as it takes, have the mark `beside`.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(ALONE) and item.get_closest_marker("beside") is None:
            item.add_marker(pytest.mark.alone)
