"""The pytest plugin: the fixture `nextdue`."""

import shutil
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from nextdue.testing.sandbox import Sandbox

_FAILED = pytest.StashKey[bool]()


@pytest.fixture(name="nextdue")
def _nextdue(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The real engine of nextdue on a file of this test's own, under a clock that only the test moves."""
    sandbox = Sandbox(tmp_path_factory.mktemp("nextdue")).__enter__()
    yield sandbox
    sandbox.close()
    if not request.node.stash.get(_FAILED, False):
        shutil.rmtree(sandbox.folder)
        sandbox.check()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails keeps its files, and says where they are and what its tasks raised."""
    report = yield
    sandbox: Any = getattr(item, "funcargs", {}).get("nextdue")
    if report.failed and call.when != "teardown" and isinstance(sandbox, Sandbox):
        item.stash[_FAILED] = True
        if sandbox.files:
            report.sections.append(("nextdue", sandbox.report()))
    return report
