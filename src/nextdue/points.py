"""Where something a task does becomes durable. A test kit can end the worker there; elsewhere nothing happens.

Whoever makes something durable calls `point("enqueue", what)` right before and `point("enqueued", what)` right after.
"""

import contextlib
from collections.abc import Callable, Iterator

Hook = Callable[[str, object], None]

POINTS = {
    "claim": "right after the claim, before the task was started",
    "renew": "in the middle of its run, before its lease was renewed",
    "settle": "after the task had returned, before its end was written",
    "commit": "after its end was written, before the worker knew",
    "enqueue": "before a task was enqueued",
    "enqueued": "after a task was enqueued",
    "finish": "at the end of ctx.finish, before its commit",
    "finished": "after the commit of ctx.finish",
    "begun": "after a step was marked as begun, before its effect",
    "effect": "after the effect of a step, before it was marked as done",
    "marked": "after a step was marked as done",
    "replace": "before ctx.replace renamed a file",
    "replaced": "after ctx.replace renamed a file",
}
"""Each point and where it lies."""

_hook: Hook | None = None


def point(name: str, what: object = None) -> None:
    """A point of POINTS is reached by the running task. `what`: the file, the task's name."""
    if _hook is not None:
        _hook(name, what)


@contextlib.contextmanager
def watched(hook: Hook) -> Iterator[None]:
    """While this lasts, `hook` hears of every point, and may raise there."""
    global _hook  # noqa: PLW0603
    before, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = before
