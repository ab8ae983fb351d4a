"""ARCHITECTURE.md is one page, and the functions that it names keep what it says they keep."""

import importlib
import re
import tomllib

import pytest

from tests.docs.pages import TOP

TEXT = (TOP / "ARCHITECTURE.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT[TEXT.index("## Laws") :].splitlines()
    if re.match(r"\| \d", line)
]
NAMED = [(row[0], name) for row in ROWS for name in re.findall(r"`([\w.]+)`", row[2])]


def found(dotted: str) -> object:
    """The object of a dotted name within nextdue: the longest part that is a module, then attributes."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(["nextdue", *parts[:end]]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            thing = getattr(thing, name)
        return thing
    raise ModuleNotFoundError(dotted)


def test_every_law_of_this_version_has_a_row():
    assert [row[0] for row in ROWS] == [*map(str, range(1, 15))]
    assert all(len(row) == 4 for row in ROWS)


@pytest.mark.parametrize(("law", "dotted"), NAMED)
def test_a_named_function_exists(law, dotted):
    assert callable(found(dotted))


def test_a_wrong_name_is_found():
    with pytest.raises(AttributeError):
        found("worker.Worker.tock")
    with pytest.raises(ModuleNotFoundError):
        found("work.Worker")


def test_the_folders_of_tests_are_those_of_the_project():
    known = set(re.findall(r"`tests/(\w+)/`", (TOP / "CONTRIBUTING.md").read_text("utf-8")))
    named = {folder for row in ROWS for folder in row[3].strip(" |").split(", ")}
    assert named <= known
    assert all((TOP / "tests" / folder).is_dir() for folder in named)


def test_the_layers_are_those_that_are_checked():
    contract = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    drawn = TEXT[TEXT.index("## Layers") : TEXT.index("`due`, `schedule`")]
    lines = [re.split(r" {2,}", line.strip())[0] for line in drawn.splitlines() if line.startswith("    ")]
    assert lines == [layer.strip("()") for layer in contract["layers"]]


def test_it_is_one_page():
    assert len(TEXT.splitlines()) <= 70
