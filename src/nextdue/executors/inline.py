"""Tasks run at once in the caller's thread, for tests: the same calls and endings, no concurrency."""

from collections.abc import Mapping

from nextdue.executors.call import Context, Definition, Desk, call
from nextdue.records import Claim, Ending


class InlineExecutor:
    """ports.Executor without threads: a claim is run when its ending is asked for."""

    def __init__(self, definitions: Mapping[str, Definition], desk: Desk | None = None) -> None:
        self._definitions, self._desk = definitions, desk
        self._queue: list[Claim] = []

    def start(self, claim: Claim) -> None:
        self._queue.append(claim)

    def finished(self) -> list[Ending]:
        claims, self._queue = self._queue, []
        return [call(self._definitions[claim.name], claim, Context(claim, self._desk)) for claim in claims]

    def limit_ms(self) -> int | None:
        return 0 if self._queue else None

    def cancel(self, claim: Claim) -> None:
        """Nothing runs while anybody could ask."""

    def progress(self) -> list[tuple[Claim, str]]:
        return []

    def waiting(self, kind: str | None = None) -> int:
        return 0

    def withdraw(self) -> list[Claim]:
        claims, self._queue = self._queue, []
        return claims

    def lose(self, claim: Claim) -> None:
        self._queue = [waiting for waiting in self._queue if waiting != claim]

    def close(self) -> None:
        self._queue.clear()
