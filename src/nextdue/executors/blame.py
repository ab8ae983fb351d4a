"""Where a task failed: the line of its own code for the history, the traceback for the log."""

import functools
import inspect
import os
import traceback
from collections.abc import Callable
from typing import Any

from nextdue.task import MAX_MESSAGE

folder = functools.lru_cache(maxsize=1_000)(os.path.dirname)
"""A flood of failures passes the same few files."""
OURS = folder(__file__)


class InChild(Exception):
    """A failure in a child process, of which only the printed traceback came over."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def place(fn: Callable[..., Any], exc: BaseException) -> str | None:
    """The last line of the task's own code that the exception passed: 'shop.py:31 in export'.

    Its own is what lies in the folder of its function, or below; what is installed there isn't.
    """
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is None:
        return None
    home, found = folder(code.co_filename) + os.sep, None
    for frame, line in traceback.walk_tb(exc.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(home) and "site-packages" not in file[len(home) :]:
            found = file, line, frame.f_code.co_name
    if found is None:
        return None
    file, line, name = found
    return f"{os.path.basename(file)}:{line} in {name}".encode("utf-8", "replace").decode()


class Shortened(Exception):
    """Stands for an exception whose text is too long for a log."""


def without_ours(exc: BaseException, message: str) -> BaseException:
    """The exception itself, or its `message` if it is a long one; the traceback begins at the task's function."""
    first = exc.__traceback__
    while first is not None and folder(first.tb_frame.f_code.co_filename) == OURS:
        first = first.tb_next
    name = type.__dict__["__name__"].__get__(type(exc))  # past a metaclass that has another idea of it
    told = exc if len(name) + len(message) < MAX_MESSAGE - 100 else Shortened(message)
    return told.with_traceback(first or exc.__traceback__)


def printed(exc: BaseException | None) -> str | None:
    """The traceback as text, of which at most the end comes over to another process."""
    return None if exc is None else "".join(traceback.format_exception(exc))[-20_000:].encode(errors="replace").decode()
