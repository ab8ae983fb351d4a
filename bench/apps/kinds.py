"""What only nextdue is asked: tasks with keys, in groups, that fail, that settle themselves; in each kind of executor.

An application for each kind of executor, so that its worker has no other; each with a task that says it is up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bench import records
from bench.apps import bodies
from nextdue import Context, Nextdue, Retry
from nextdue.calls import Task

threads, loop, processes = (Nextdue(records.database()) for _ in range(3))


@threads.task(name="ready")
def ready() -> None:
    bodies.stamp(records.READY)


@loop.task(name="ready-loop")
async def ready_loop() -> None:
    bodies.stamp(records.READY)


@processes.task(name="ready-process", run_in="process")
def ready_process() -> None:
    bodies.stamp(records.READY)


@threads.task(name="noop")
def noop(number: int) -> None:
    pass


@loop.task(name="noop-loop")
async def noop_loop(number: int) -> None:
    pass


@processes.task(name="noop-process", run_in="process")
def noop_process(number: int) -> None:
    pass


@threads.task(name="fails", retry=Retry(limit=1))
def fails(number: int) -> None:
    raise ValueError("it can't be done")


@threads.task(name="grouped", limit=8)
def grouped(number: int) -> None:
    pass


@threads.task(name="finishes")
def finishes(ctx: Context, number: int) -> None:
    with ctx.finish() as tx:
        tx.execute(bodies.ORDER)


@threads.task(name="steps")
def steps(ctx: Context, number: int) -> None:
    ctx.step("nothing", int)


@threads.task(name="repeatable")
def repeatable(ctx: Context, number: int) -> None:
    ctx.step("nothing", int, repeatable=True)


@threads.task(name="waits")
def waits(ctx: Context, number: int) -> None:
    ctx.wait_for("an event that never comes")


@threads.task(name="orders")
def orders(number: int) -> None:
    bodies.order()


def _key(number: int) -> dict[str, Any]:
    return {"key": f"key-{number}"}


def _one_of_many_groups(number: int) -> dict[str, Any]:
    return {"group": f"group-{number % 1000}"}


def _one_group(number: int) -> dict[str, Any]:
    return {"group": "all"}


class Kind(NamedTuple):
    """Tasks that are put alike: `ready` says that their worker is up, `options` are each one's for using()."""

    task: Task[Any, Any]
    ready: Task[[], Any] = ready
    options: Callable[[int], dict[str, Any]] | None = None
    outcome: str = "done"

    def put(self, number: int) -> None:
        task = self.task.using(**self.options(number)) if self.options else self.task
        task.enqueue(number)

    def put_many(self, count: int) -> None:
        """All by one commit."""
        if self.options is None:
            self.task.enqueue_many([(number,) for number in range(count)])
            return
        with self.task.app.transaction() as tx:
            for number in range(count):
                self.task.using(tx=tx, **self.options(number)).enqueue(number)


KINDS = {
    "plain": Kind(noop),
    "coroutine": Kind(noop_loop, ready_loop),
    "process": Kind(noop_process, ready_process),
    "keyed": Kind(noop, options=_key),
    "failing": Kind(fails, outcome="dead"),
    "groups": Kind(grouped, options=_one_of_many_groups),
    "group": Kind(grouped, options=_one_group),
    "finishing": Kind(finishes),
    "ordering": Kind(orders),
    "step": Kind(steps),
    "repeatable": Kind(repeatable),
}
