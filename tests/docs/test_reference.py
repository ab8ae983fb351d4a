"""docs/reference.md names everything that a program may call, and nothing that isn't there."""

import inspect
import re
from pathlib import Path

import pytest

import nextdue
from nextdue import Call, Handle, Nextdue, Pause, RunView, Task, TaskView
from tests.docs.pages import TOP

PAGE = TOP / "docs" / "reference.md"


def section(heading: str, page: Path = PAGE) -> set[str]:
    """The words in code spans under a heading."""
    text = page.read_text("utf-8")
    begin = text.index(f"## {heading}\n")
    end = text.find("\n## ", begin + 3)
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", text[begin : end if end > 0 else None]))))


def parameters(function: object) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "fn"}  # type: ignore[arg-type]


def public(kind: type) -> set[str]:
    found = {name for base in kind.__mro__[:-1] for name in vars(base) if not name.startswith("_")}
    return found - {"caller", "definitions", "desk", "open_store"}  # for other parts of nextdue


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("`Nextdue(path, ...)`", public(Nextdue) | parameters(Nextdue) | parameters(Nextdue.find)),
        ("`@nd.task`", parameters(nextdue.Retry)),
        ("A task", parameters(Task.using) | {"enqueue", "enqueue_many", "aenqueue", "using"}),
        ("A handle", public(Handle)),
        ("Working", parameters(Nextdue.working)),
        ("`Service`", public(nextdue.Service) - {"loop", "warn_of_late"} | {"queues"}),
        ("`TaskView`", set(TaskView.__struct_fields__)),
        ("`RunView`", set(RunView.__struct_fields__)),
        ("`Pause`", set(Pause._fields)),
    ],
)
def test_everything_is_named(heading, names):
    assert names - section(heading) == set()


def test_every_option_of_a_task_is_named():
    assert parameters(Nextdue._declare) - section("Declaring", TOP / "docs" / "tasks.md") == set()


def test_what_is_not_named_is_found():
    assert {"zzz"} - section("A task") == {"zzz"}
    assert "base" not in section("A task")


def test_a_call_stores_as_a_task_does():
    assert {"enqueue", "enqueue_many", "aenqueue"} <= set(dir(Call)) & set(dir(Task))
