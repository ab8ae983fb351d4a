"""While a sandbox is open, an application that was given to none can't reach its own file: the test forgot use()."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import nextdue.app as application
import nextdue.service as working
from nextdue.app import Nextdue
from nextdue.errors import BadDefinition
from nextdue.executors import declared
from nextdue.sqlite.lives import Ownership
from nextdue.sqlite.store import SqliteStore
from nextdue.testing.parts import SandboxCaller

_open: list[object] = []


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """For so long, applications open no files but those of sandboxes; BadDefinition says what to do instead."""
    me = object()
    _open.append(me)
    for app in declared.applications():
        if isinstance(app, Nextdue) and not isinstance(app.caller, SandboxCaller):
            app.caller.close()  # what it has open from before; it would have to open it again
            app.desk.close()
    vars(application).update(SqliteStore=_refuse)
    vars(working).update(Ownership=_refuse)
    try:
        yield
    finally:
        _open.remove(me)
        if not _open:
            vars(application).update(SqliteStore=SqliteStore)
            vars(working).update(Ownership=Ownership)


def _refuse(path: Path, *more: object, **options: object) -> NoReturn:
    __tracebackhide__ = True
    name = next((_name(app) for app in declared.applications() if app.path == path), "nd")
    raise BadDefinition(
        f"{name} isn't in this sandbox, so that this would reach {path} itself; "
        f"say nextdue.use({name}) before, in the test or in a fixture"
    )


def _name(app: declared.Application) -> str:
    """What a test calls this application: by the module that declares its tasks, if it lies there."""
    own = {definition.fn.__module__ for definition in app.definitions.values()}
    modules: dict[str, Any] = dict(sys.modules)
    names = [
        (word not in own, f"{word}.{name}")
        for word, module in modules.items()
        for name, value in declared.top_level(module).items()
        if value is app
    ]
    return min(names)[1] if names else "nd"
