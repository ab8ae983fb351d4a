"""One application in a sandbox: led to a file of the test's own, with one worker that is moved by hand."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from nextdue.app import Nextdue
from nextdue.clock import utc_text
from nextdue.errors import BadDefinition
from nextdue.executors.context import Definition
from nextdue.records import TaskView
from nextdue.schedules import declare
from nextdue.sqlite import care
from nextdue.task import RunIn
from nextdue.testing.clock import FakeClock
from nextdue.testing.crashes import Crashes, Killed
from nextdue.testing.failures import Failures
from nextdue.testing.parts import (
    Idle,
    RunUntil,
    SandboxCaller,
    SandboxDesk,
    SandboxExecutor,
    SandboxStore,
)
from nextdue.worker import Hook, Worker, servings

SPINS = 1_000
"""So many ticks in a row at one instant, without an ending, are too many."""

SHOWN = 10
"""How many tasks are in the report of a failing test."""


class Place:
    """An application and its worker. `takes_ms`: how long tasks take, by name."""

    def __init__(
        self,
        app: Nextdue,
        path: Path,
        clock: FakeClock,
        crashes: Crashes,
        failures: Failures,
        *,
        takes_ms: dict[str, int],
        patience: Callable[[], float],
        hook: Hook,
        run_until: RunUntil,
        only: str | None = None,
    ) -> None:
        self.app, self.path, self.crashed, self.expired = app, path, 0, 0
        self._clock, self._crashes, self._only = clock, crashes, only
        self._takes_ms, self._patience, self._hook, self._run_until = takes_ms, patience, hook, run_until
        self._worker: Worker | None = None
        self._declared = 0
        self._executor: SandboxExecutor | None = None
        self._before: dict[str, Any] | None = None
        self._failures = failures

    # the application

    def redirect(self) -> None:
        """From now on the application is on the test's file. Raises BadDefinition if a worker of it runs."""
        app = self.app
        if app._service is not None and app._service.alive():
            raise BadDefinition(f"a worker on {app.path} was started in this process; stop() it before the test")
        self._before = dict(vars(app))
        caller = SandboxCaller(self.path, self._open_store, self._run_until)
        caller.declared = app.definitions
        vars(app).update(
            path=self.path,
            open_store=self._open_store,
            caller=caller,
            desk=SandboxDesk(self.path, self._open_store, self._crashes),
            working=lambda *args, **options: Idle(),
        )

    def restore(self) -> None:
        """Let go of the test's file and lead the application back to its own, whatever the test made of it."""
        before, self._before = self._before, None
        if before is None:
            return
        try:
            if self._worker is not None:
                self._worker.close()
            self.app.close()
        finally:
            for name in ("open_store", "working"):
                vars(self.app).pop(name, None)
            vars(self.app).update(before)

    def _open_store(self) -> SandboxStore:
        app = self.app
        return SandboxStore(self.path, self._clock, self._crashes, keep_rows=app._keep_rows, keep_ms=app._keep_ms)

    def report(self) -> list[str]:
        """Where its file is, and what is in it, nearest due first."""
        lines = [f"the test's database is kept: {self.path}"]
        if not self.path.exists():
            return lines
        with contextlib.suppress(Exception), contextlib.closing(self._open_store()) as store:  # the test comes first
            found = care.listed(store, care.EVERYTHING, limit=SHOWN + 1)
            lines += [f"at {utc_text(self._clock.now())} there are in it:"] if found else []
            views = [store.get(task.id) for task in found[:SHOWN]]
            lines += [f"  {_line(view)}" for view in views if view is not None]
            lines += ["  and more"] if len(found) > SHOWN else []
        return lines

    # its worker

    def busy(self) -> bool:
        """Whether a task's function is running at this moment."""
        return self._executor is not None and self._executor.busy

    def turn(self) -> tuple[int | None, int | None]:
        """One tick; in how many ms another one is needed, and in how many something falls due (None: never)."""
        try:
            worker, executor = self._live()
            called = executor.calls
            limit = worker.tick()
            self.expired += worker.totals.pop("expired", 0)
            if executor.calls > called:  # who knows what it put, and where
                return 0, None
            return limit, worker.look_ms()
        except Killed:
            self.die()
            return 0, None
        except BaseException:
            self.die()
            raise

    def _live(self) -> tuple[Worker, SandboxExecutor]:
        """The worker, knowing all tasks of now, and its executor; new ones if there are none."""
        definitions = self._definitions()
        options = {name: d.options for name, d in definitions.items()}
        if self._worker is None or self._executor is None:
            self._crashes.reborn()
            self._executor = SandboxExecutor(
                definitions,
                self.app.desk,
                self._clock,
                self._crashes,
                self._failures,
                self._takes_ms,
                self._patience,
            )
            self._worker = Worker(
                self._open_store(),
                self._executor,
                options,
                slots=dict.fromkeys(get_args(RunIn), 1),
                random=lambda: 0.0,
                hook=self._hook,
            )
            self.crashed += len(self._worker.recovered)
            self._declare(self._worker.store)
        elif options.keys() != self._worker.options.keys() or self._declared != len(self.app.schedules.declared()):
            self._worker.options = options
            self._worker.store.serve(servings(options), None)
            self._declare(self._worker.store)
        return self._worker, self._executor

    def _definitions(self) -> Mapping[str, Definition]:
        known = self.app.definitions
        if self._only is None:
            return known
        return {name: d for name, d in known.items() if d.options.name == self._only}

    def _declare(self, store: Any) -> None:
        pairs = self.app.schedules.declared()
        self._declared = len(pairs)
        wanted = pairs if self._only is None else [pair for pair in pairs if pair[0].name == self._only]
        declare(store, wanted, lambda: 0.0)

    def leave(self) -> None:
        """The worker is stopped gracefully: what it runs goes back, and no crash is counted."""
        if self._worker is not None:
            self._worker.stop(0)
            while not self._worker.ended():
                self._worker.tick()
            self._worker.close()
            self._worker = None

    def die(self) -> None:
        """The worker's process is no more: its lock is free, and whatever it held falls due again."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.executor.close()
            worker.store.close()


def _line(view: TaskView) -> str:
    key = "" if view.key is None else f" {view.key!r}"
    due = "" if view.due is None else f", due {utc_text(view.due)}"
    said = (view.message or "").partition("\n")[0][:100]
    return f"#{view.id} {view.name}{key} is {view.state}{due}{said and f': {said}'}"
