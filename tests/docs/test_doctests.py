"""The examples in docstrings hold."""

import doctest
import importlib
import pkgutil

import pytest

import nextdue

MODULES = [m.name for m in pkgutil.walk_packages(nextdue.__path__, "nextdue.") if m.name != "nextdue.__main__"]
WITH_EXAMPLES = {
    "nextdue.app",
    "nextdue.clock",
    "nextdue.cron",
    "nextdue.due",
    "nextdue.every",
    "nextdue.task",
    "nextdue.testing.clock",
    "nextdue.testing.sandbox",
}


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0
    assert found.attempted > 0 or name not in WITH_EXAMPLES
