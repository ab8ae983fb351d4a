"""Which functions can be tasks, and where they run."""

import inspect
from collections.abc import Callable
from typing import Any

from nextdue.errors import BadDefinition
from nextdue.executors import declared
from nextdue.executors.context import Context
from nextdue.task import RunIn


def wants_context(fn: Callable[..., Any]) -> bool:
    """Whether the first parameter is for the Context: it is called ctx or annotated with it."""
    first = next(iter(inspect.signature(fn).parameters.values()), None)
    return first is not None and (first.name == "ctx" or first.annotation in (Context, "Context", "nextdue.Context"))


def refuse_what_is_none(fn: Any) -> None:
    """Raise BadDefinition for what isn't a function, or none that ends."""
    if not callable(fn) or isinstance(fn, type) or not hasattr(fn, "__name__"):
        raise BadDefinition(f"a task must be a function, not {fn!r}; wrap it in one written with def")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise BadDefinition(f"{place(fn)}: a generator can't be a task; write a plain function or a coroutine")


def run_in_of(fn: Callable[..., Any], wished: RunIn | None) -> RunIn:
    """Where this function runs: a coroutine in the loop and nowhere else, anything else never in the loop."""
    if not inspect.iscoroutinefunction(fn):
        if wished == "loop":
            raise BadDefinition(f'{place(fn)}: run_in="loop" is for coroutines; write async def, or leave run_in out')
        if wished == "process":
            declared.checked_place(fn)
        return "thread" if wished is None else wished
    if wished not in (None, "loop"):
        raise BadDefinition(f"{place(fn)}: a coroutine runs in the loop, not in a {wished}; leave run_in out")
    return "loop"


def place(fn: Callable[..., Any]) -> str:
    """Where a function is written, for a message."""
    code = getattr(fn, "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}" if code else "?"
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', fn)} ({where})"
