"""All executors of one worker as one: a claim goes to the executor that its task asks for by run_in.

An executor is made when its first claim comes, so a program without coroutines loads no event loop.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

from nextdue.executors.call import Definition, Desk
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
    ) -> None:
        self._kinds = {name: definition.options.run_in for name, definition in definitions.items()}
        self.sizes: dict[RunIn, int] = {kind: size for kind, size in sizes.items() if kind in self._kinds.values()}
        self._definitions, self._wake, self._desk = definitions, wake, desk
        self._made: dict[RunIn, Executor] = {}

    def start(self, claim: Claim) -> None:
        kind = self._kinds[claim.name]
        executor = self._made.get(kind)
        if executor is None:
            module, name = MAKERS[kind]
            make = getattr(import_module(module), name)
            own = {name: d for name, d in self._definitions.items() if self._kinds[name] == kind}
            executor = self._made[kind] = make(self.sizes[kind], own, self._wake, self._desk)
        executor.start(claim)

    def finished(self) -> list[Ending]:
        return [ending for executor in self._made.values() for ending in executor.finished()]

    def limit_ms(self) -> int | None:
        limits = [executor.limit_ms() for executor in self._made.values()]
        return min((ms for ms in limits if ms is not None), default=None)

    def cancel(self, claim: Claim) -> None:
        if (executor := self._of(claim)) is not None:
            executor.cancel(claim)

    def progress(self) -> list[tuple[Claim, str]]:
        return [said for executor in self._made.values() for said in executor.progress()]

    def waiting(self, kind: RunIn | None = None) -> int:
        """How many claims aren't started yet, in all or in one executor."""
        if kind is not None:
            return self._made[kind].waiting() if kind in self._made else 0
        return sum(executor.waiting() for executor in self._made.values())

    def withdraw(self) -> list[Claim]:
        return [claim for executor in self._made.values() for claim in executor.withdraw()]

    def lose(self, claim: Claim) -> None:
        if (executor := self._of(claim)) is not None:
            executor.lose(claim)

    def close(self) -> None:
        for executor in self._made.values():
            executor.close()

    def _of(self, claim: Claim) -> Executor | None:
        return self._made.get(self._kinds[claim.name])
