"""The examples in the docstrings of the pages hold."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["language", "shown", "times"])
def test_the_examples_of_a_module_hold(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"signal_feeds.web.{name}"))
    assert found.attempted > 0
    assert found.failed == 0
