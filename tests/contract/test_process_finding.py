"""Children that can't be started, and tasks that they find or can't find."""

import functools
import importlib.util
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from nextdue import Nextdue
from nextdue.executors import process
from tests.process.harness import children


def test_a_child_that_can_not_start_fails_one_task_and_pauses(rig, monkeypatch):
    monkeypatch.setattr(process, "START_PAUSE_S", (0.5, 60))
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", b"/bin/false")
    r = rig(2)
    first = r.start("noop")
    r.start("noop")
    (ending,) = r.ended(1)[:1]
    assert (ending.claim, ending.kind, ending.reason) == (first, "failed", "child_start")
    assert "exited with code 1 before it was up" in (ending.message or "")
    begun = time.monotonic()
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", os.fsencode(sys.executable))
    endings = r.ended(2)
    if endings[1].kind == "failed":  # both were started at once
        endings.append(r.run("noop"))
    assert endings[-1].kind == "done"
    assert time.monotonic() - begun > 0.3


def test_a_child_that_is_not_up_in_time_is_killed(rig, monkeypatch, tmp_path):
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o700)
    monkeypatch.setattr(process, "START_LIMIT_S", 0.3)
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", os.fsencode(slow))
    ending = rig().run("noop")
    assert (ending.kind, ending.reason) == ("failed", "child_start")
    assert "wasn't up within 0.3 s" in (ending.message or "")


def test_an_interpreter_that_is_not_there_is_told(rig, monkeypatch):
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", b"/nowhere/python")
    ending = rig().run("noop")
    assert (ending.kind, ending.reason) == ("failed", "child_start")
    assert "/nowhere/python" in (ending.message or "")


def module(folder: Path, body: str, name: str = "plugin") -> Nextdue:
    """The application of a module that lies outside the path, as plugins do."""
    file = folder / f"{name}.py"
    file.write_text("from pathlib import Path\nfrom nextdue import *\n" + body)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    nd: Nextdue = made.nd
    return nd


@pytest.fixture
def plugin(tmp_path) -> Iterator:
    before = set(sys.modules)
    yield functools.partial(module, tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_module_outside_the_path_is_found_by_its_file(rig, plugin):
    nd = plugin("nd = Nextdue(Path(__file__).with_name('a.db'))\n@nd.task\ndef work() -> None: pass\n")
    assert rig(nd=nd).run("work").kind == "done"


def test_a_function_of_another_module_is_found_by_its_application(rig, plugin):
    nd = plugin("nd = Nextdue(Path(__file__).with_name('a.db'))\nimport os\nnd.task(name='sync')(os.sync)\n"
                "from tests.contract.chores import noop\nnd.task(name='other')(noop.definition.fn)\n")  # fmt: skip
    assert rig(nd=nd).run("other").kind == "done"


def test_an_import_that_fails_is_the_task_s_failure_and_tried_again(rig, plugin, tmp_path):
    nd = plugin("nd = Nextdue(Path(__file__).with_name('a.db'))\n@nd.task\ndef work() -> None: pass\n")
    file = tmp_path / "plugin.py"
    good = file.read_text()
    file.write_text("import nothing_of_this_name\n")
    r = rig(nd=nd)
    ending = r.run("work")
    assert (ending.kind, ending.reason) == ("failed", "import")
    assert ending.message == "ModuleNotFoundError: No module named 'nothing_of_this_name'"
    file.write_text("raise SystemExit('a script without a guard')\n")
    assert r.run("work").message == "SystemExit: a script without a guard"
    file.write_text(good + "# again")
    assert r.run("work").kind == "done"
    assert len(children(os.getpid())) == 1


def test_an_import_that_hangs_ends_at_its_limit(rig, plugin, tmp_path, monkeypatch):
    nd = plugin("nd = Nextdue(Path(__file__).with_name('a.db'))\n@nd.task(time_limit=0.3)\ndef work() -> None: pass\n")
    (tmp_path / "plugin.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(process, "START_LIMIT_S", 1)
    ending = rig(nd=nd).run("work")
    assert (ending.kind, ending.reason) == ("failed", "import")


def test_a_path_that_differs_in_the_child_is_told(rig, plugin):
    nd = plugin("import os\nnd = Nextdue(Path(__file__).with_name(f'{os.getpid()}.db'))\n"
                "@nd.task\ndef work() -> None: pass\n")  # fmt: skip
    ending = rig(nd=nd).run("work")
    assert (ending.kind, ending.reason) == ("failed", "import")
    assert "give Nextdue a path that is the same in every process" in (ending.message or "")


def test_a_task_that_is_declared_in_a_function_is_told(rig, tmp_path):
    nd = Nextdue(tmp_path / "a.db")

    @nd.task
    def inner() -> None: ...

    ending = rig(nd=nd).run("inner")
    assert (ending.kind, ending.reason) == ("failed", "import")
    assert "at the top level of a module" in (ending.message or "")


def test_a_function_typed_into_an_interpreter_is_told():
    code = (
        "from nextdue import Nextdue; from nextdue.executors.declared import checked_place\n"
        "def typed(): pass\n"
        "checked_place(typed)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "BadDefinition" in done.stderr
    assert "needs a function that lies in a file" in done.stderr


def test_what_only_says_that_it_is_a_module_is_passed_by(rig, monkeypatch):
    """As `_cffi_backend.Lib`, which cryptography puts among the modules."""

    class Pretender:
        __class__ = property(lambda self: ModuleType)

    monkeypatch.setitem(sys.modules, "pretender", Pretender())
    assert rig(1).run("noop").kind == "done"
