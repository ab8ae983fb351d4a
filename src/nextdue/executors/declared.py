"""Which applications this process has declared, so that a child process finds a task again by its name.

A function can't be sent to another process, only the way to it: the modules that declare it, the file of the
database and the task's name. The child imports those modules and asks here what they have declared.
"""

import importlib
import importlib.util
import sys
import weakref
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol

import msgspec

from nextdue.errors import BadDefinition
from nextdue.executors.context import Definition, Desk

MAIN = "__nextdue_main__"
"""The name under which a child loads the script: its `if __name__ == "__main__"` part is not run."""


class Application(Protocol):
    """What is asked of a Nextdue."""

    path: Path

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """Every task, by each name under which it may be stored."""
        ...


_applications: "weakref.WeakSet[Application]" = weakref.WeakSet()
_child: list[bool] = []


class Home(msgspec.Struct, frozen=True, array_like=True):
    """A module that takes part in declaring a task. `main`: it is the script or the module that was started."""

    module: str | None
    file: str | None
    main: bool = False


class Found(NamedTuple):
    """A task in a child, and the desk of its application, by which it reaches the store."""

    definition: Definition
    desk: Desk | None


def remember(application: Application) -> None:
    """An application was made."""
    _applications.add(application)


def applications() -> list[Application]:
    """Those that were made and are still there."""
    return list(_applications)


def become_child() -> None:
    """From now on this process only runs the tasks that its parent sends."""
    _child.append(True)


def in_child() -> bool:
    """Whether this process only runs the tasks that its parent sends."""
    return bool(_child)


def find(name: str, path: str | None) -> Found:
    """The definition of a task, here and now. Raises BadDefinition if nobody declared it for this database."""
    elsewhere = set()
    for application in list(_applications):
        if name in application.definitions:
            if path is None or str(application.path) == path:
                return Found(application.definitions[name], getattr(application, "desk", None))
            elsewhere.add(str(application.path))
    if elsewhere:
        raise BadDefinition(
            f"in the child process task {name} belongs to {', '.join(sorted(elsewhere))} instead of {path}: "
            "give Nextdue a path that is the same in every process"
        )
    raise BadDefinition(
        f"the child process finds no task {name}: declare it, and its Nextdue, at the top level of a module"
    )


def checked_place(fn: Callable[..., object]) -> None:
    """Raises BadDefinition for a function that no other process could find: one typed into an interpreter."""
    if _home(fn.__module__) is None:
        raise BadDefinition(
            f'{fn.__qualname__}: run_in="process" needs a function that lies in a file; '
            "a child process can't find what was typed into an interpreter"
        )


def databases(definitions: Mapping[str, Definition]) -> dict[str, str | None]:
    """For each task the file of the application that declared it; None if no application is known to have."""
    return {
        name: next((str(app.path) for app in _declaring(name, definition)), None)
        for name, definition in definitions.items()
    }


def homes(definitions: Mapping[str, Definition]) -> dict[str, list[Home]]:
    """For each task the modules to be imported: its function's own, then those that hold its application.

    None for a function that was typed into an interpreter.
    """
    holding = {app: _holders(app) for app in list(_applications)}
    found: dict[str, list[Home]] = {}
    for name, definition in definitions.items():
        holders = [word for app in _declaring(name, definition) for word in holding[app]]
        places = [_home(word) for word in dict.fromkeys([definition.fn.__module__, *holders])]
        found[name] = [place for place in places if place is not None] if places[0] else []
    return found


def _declaring(name: str, definition: Definition) -> list[Application]:
    return [app for app in list(_applications) if app.definitions.get(name) is definition]


def _holders(application: Application) -> list[str]:
    """The modules with this application at their top level; those that load themselves lazily aren't woken."""
    modules = list(sys.modules.items())
    return [word for word, module in modules if any(value is application for value in top_level(module).values())]


def top_level(module: object) -> dict[str, object]:
    """The names of a module; none of what lies among the modules and only says that it is one, as of cffi."""
    real = issubclass(type(module), ModuleType)
    return dict(ModuleType.__getattribute__(module, "__dict__")) if real else {}


def _home(word: str | None) -> Home | None:
    """How a child gets at a module of this process; None for what was typed into an interpreter."""
    if word is None:
        return None
    module = sys.modules.get(word)
    file = getattr(module, "__file__", None)
    if word != "__main__":
        return Home(word, file)
    spec: ModuleSpec | None = getattr(module, "__spec__", None)
    if spec is None and file is None:
        return None
    return Home(spec.name if spec else None, None if file is None else str(Path(file).absolute()), main=True)


def load(home: Home) -> None:
    """Import a module in the child. Raises whatever it raises."""
    if home.main:
        if MAIN not in sys.modules:
            _load_main(home)
        return
    assert home.module is not None
    try:
        importlib.import_module(home.module)
    except ModuleNotFoundError as exc:
        parts = home.module.split(".")
        ours = exc.name in {".".join(parts[: n + 1]) for n in range(len(parts))}
        if not ours or home.file is None:
            raise
        _load_file(home.module, home.file)


def _load_file(word: str, file: str) -> None:
    """A module that was loaded from a file outside the path, as plugins and tests are."""
    spec = importlib.util.spec_from_file_location(word, file)
    if spec is None or spec.loader is None:
        raise BadDefinition(f"the child process can't import {word} from {file}")
    module = importlib.util.module_from_spec(spec)
    _run(module, lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]


def _load_main(home: Home) -> None:
    """Load the started script or module under another name, as multiprocessing does."""
    if home.module is None:
        assert home.file is not None
        module = ModuleType(MAIN)
        module.__file__ = home.file
        with open(home.file, "rb") as file:
            code = compile(file.read(), home.file, "exec", dont_inherit=True)
    else:
        spec = PathFinder.find_spec("__main__") if home.module == "__main__" else importlib.util.find_spec(home.module)
        loader = getattr(spec, "loader", None)
        if spec is None or loader is None:
            raise BadDefinition(f"the child process can't find the module {home.module} that was started")
        module = importlib.util.module_from_spec(spec)
        module.__name__ = MAIN
        code = loader.get_code(spec.name)
    started, sys.modules["__main__"] = sys.modules["__main__"], module
    try:
        _run(module, lambda: exec(code, module.__dict__))
    except BaseException:
        sys.modules["__main__"] = started
        raise


def _run(module: ModuleType, body: Callable[[], object]) -> None:
    """Run a module's body under its name; one that fails is forgotten, so that the next attempt begins anew."""
    sys.modules[module.__name__] = module
    try:
        body()
    except BaseException:
        del sys.modules[module.__name__]
        raise
