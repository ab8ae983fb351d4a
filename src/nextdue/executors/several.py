"""All executors of one worker as one: a claim goes to the executor that its task asks for by run_in.

Only those that some task asks for are made, so a program without coroutines loads no event loop. They are made at the
start of the worker: later the disk may hold another version, or the process may have no descriptors left for an import.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from nextdue.executors.context import Definition, Desk
from nextdue.ports import Executor
from nextdue.records import Claim, Ending
from nextdue.task import RunIn

MAKERS: dict[RunIn, tuple[str, str]] = {
    "thread": ("nextdue.executors.threads", "ThreadExecutor"),
    "loop": ("nextdue.executors.loop", "LoopExecutor"),
    "process": ("nextdue.executors.process", "ProcessExecutor"),
}


class SeveralExecutors:
    """ports.Executor that hands on to others. `sizes` says how many tasks each of those in use runs at a time."""

    def __init__(
        self,
        sizes: Mapping[RunIn, int],
        definitions: Mapping[str, Definition],
        wake: Callable[[], None],
        desk: Desk | None = None,
        *,
        keep_open: Callable[[], Sequence[int]] = tuple,
        tasks_per_process: int | None = None,
    ) -> None:
        """`keep_open` tells the descriptors that child processes hold as long as they live: their worker's lock."""
        used = {definition.options.run_in for definition in definitions.values()}
        self.sizes: dict[RunIn, int] = {kind: size for kind, size in sizes.items() if kind in used}
        self._executors: dict[RunIn, Executor] = {}
        self._of: dict[str, Executor] = {}
        for kind, size in self.sizes.items():
            module, name = MAKERS[kind]
            own = {name: d for name, d in definitions.items() if d.options.run_in == kind}
            more = {"keep_open": keep_open, "max_tasks": tasks_per_process} if kind == "process" else {}
            executor = self._executors[kind] = getattr(import_module(module), name)(size, own, wake, desk, **more)
            self._of.update(dict.fromkeys(own, executor))

    def simplest(self) -> Executor:
        """Itself; or the only one, for which there is nothing to choose."""
        return next(iter(self._executors.values())) if len(self._executors) == 1 else self

    def start(self, claim: Claim) -> None:
        self._of[claim.name].start(claim)

    def finished(self) -> list[Ending]:
        return [ending for executor in self._executors.values() for ending in executor.finished()]

    def limit_ms(self) -> int | None:
        limits = [executor.limit_ms() for executor in self._executors.values()]
        return min((ms for ms in limits if ms is not None), default=None)

    def cancel(self, claim: Claim) -> None:
        self._of[claim.name].cancel(claim)

    def progress(self) -> list[tuple[Claim, str]]:
        return [said for executor in self._executors.values() for said in executor.progress()]

    def waiting(self, kind: str | None = None) -> int:
        return sum(executor.waiting() for own, executor in self._executors.items() if kind in (None, own))

    def withdraw(self) -> list[Claim]:
        return [claim for executor in self._executors.values() for claim in executor.withdraw()]

    def settled(self, claim: Claim) -> bool:
        return self._of[claim.name].settled(claim)

    def lose(self, claim: Claim) -> None:
        self._of[claim.name].lose(claim)

    def close(self) -> None:
        for executor in self._executors.values():
            executor.close()
