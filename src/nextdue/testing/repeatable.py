"""Is a task harmless to repeat? It is run with its worker dying at each point where something becomes durable."""

import pprint
import shutil
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nextdue.app import Task
from nextdue.errors import BadDefinition
from nextdue.handle import Handle
from nextdue.testing.crashes import Passage
from nextdue.testing.sandbox import Sandbox

MOST = 100
"""The most points at which a crash is tried."""
RUNS = 100
"""The most runs in one trial."""
SHOWN = 2_000
"""How many characters of a state are shown."""

State = Callable[[], object]


def assert_repeatable(
    task: Task[..., Any, Any],
    args: Any = (),
    *,
    state: State | None = None,
    reset: Callable[[], object] | None = None,
    at: datetime | None = None,
) -> None:
    """Raise AssertionError if a repetition of this task would leave another state than a single run, naming the point.

    The task is run once, then again for each point that it passed (the claim, each ctx.replace and each enqueue, the
    end; at most 100 of them), with its worker dying there and the task being retried; at the point `settle` that
    means two whole runs. `args`: a tuple, or a dict by name.
    `state` answers what is to be compared; without it, the files that ctx.replace wrote and the tasks that were
    enqueued are. Before each trial the queue is empty, the files of ctx.replace are as they were, and `reset` is
    called to undo the rest. Without a `reset`, a `state` of your own shows what all trials so far have left. All
    trials begin `at` the same instant (default: now).
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead
    given: Any = task
    if not isinstance(given, Task):
        raise BadDefinition(
            f"assert_repeatable takes a task, as in assert_repeatable(shop.export, (1,)), not {given!r}"
        )
    if not isinstance(args, tuple | list | dict):
        raise BadDefinition(f"assert_repeatable({task.name}): args are a tuple, or a dict by name, not {args!r}")
    _Trials(task, args, state, reset, at or datetime.now(UTC)).run()


class _Trials:
    def __init__(
        self,
        task: Task[..., Any, Any],
        args: Any,
        state: State | None,
        reset: Callable[[], object] | None,
        at: datetime,
    ) -> None:
        self.task, self.state, self.reset, self.at = task, state, reset, at
        self.args = () if isinstance(args, dict) else tuple(args)
        self.kwargs: Mapping[str, Any] = args if isinstance(args, dict) else {}
        self.call = (
            f"{task.name}({', '.join([*map(repr, self.args), *(f'{k}={v!r}' for k, v in self.kwargs.items())])})"
        )
        self._folder = Path()
        """The same in all trials, since a task may write beside its database."""
        self._originals: dict[Path, bytes | None] = {}
        """The files of ctx.replace as they were."""

    def run(self) -> None:
        __tracebackhide__ = True
        with tempfile.TemporaryDirectory(prefix="nextdue-") as folder:
            self._folder = Path(folder, "trial")
            self._run()

    def _run(self) -> None:
        __tracebackhide__ = True
        once, passed = self.trial("in a single run")
        points = list(enumerate(passed))
        if len(points) > MOST:
            points = points[: MOST // 2] + points[-MOST // 2 :]
        if self.state is not None and self.reset is None:
            points.sort(key=lambda point: point[1].point != "settle")  # what piles up shows first by a whole run more
        for place, passage in points:
            state, _ = self.trial(f"after its worker died {passage}", at=place)
            self.compare(once, state, passage)

    def trial(self, when: str, *, at: int | None = None) -> tuple[object, list[Passage]]:
        """The state after the task was run to its end, and the points that it passed."""
        __tracebackhide__ = True
        self._put_back()
        self._folder.mkdir()
        with Sandbox(self._folder) as sandbox:
            sandbox.use(self.task.app, at=self.at, only=self.task.name)
            crashes = sandbox._crashes
            crashes.at_passage, crashes.on_passage = at, self._remember
            handle = self.task.enqueue(*self.args, **self.kwargs)
            sandbox.run_until(lambda: _is_done(handle) or handle.state not in ("waiting", "running"), limit=RUNS)
            if not _is_done(handle) and handle.state not in ("done", "gone"):
                raise AssertionError(f"{self.call} ended {handle.state} {when}: {handle.view().message}")
            state = self._files_and_tasks(handle) if self.state is None else self.state()
            return state, crashes.passed

    def _remember(self, passage: Passage) -> None:
        if passage.point == "replace" and isinstance(passage.what, Path) and passage.what not in self._originals:
            self._originals[passage.what] = _content(passage.what)

    def _put_back(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        for path, content in self._originals.items():
            if content is None:
                path.unlink(missing_ok=True)
            elif path.parent.is_dir():
                path.write_bytes(content)
        if self.reset is not None:
            self.reset()

    def _files_and_tasks(self, handle: Handle[Any]) -> object:
        with self.task.app.caller.use() as store:
            views = [view for view in store.find(limit=10_000) if view.id != handle.id]
        return {
            "files": {str(path): _content(path) for path in sorted(self._originals)},
            "tasks": sorted((v.name, str(v.args), "" if v.key is None else f"key={v.key}") for v in views),
        }

    def compare(self, once: object, state: object, passage: Passage) -> None:
        __tracebackhide__ = True
        if state != once:
            raise AssertionError(
                f"{self.call} is not harmless to repeat: its worker died {passage}, and the retry left another state "
                f"than a single run\nafter a single run:\n{_shown(once)}\nnow:\n{_shown(state)}"
            )


def _is_done(handle: Handle[Any]) -> bool:
    """Whether it came to its end once, though it may have asked to come again."""
    return any(run.outcome == "done" for run in handle.runs())


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _shown(state: object) -> str:
    text = pprint.pformat(state, width=110)
    cut = text if len(text) <= SHOWN else f"{text[:SHOWN]} ... {len(text) - SHOWN} characters more"
    return "\n".join(f"    {line}" for line in cut.splitlines())
