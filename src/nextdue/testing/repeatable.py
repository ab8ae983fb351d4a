"""Is a task harmless to repeat? It is run with its worker dying at each point where something becomes durable."""

import contextlib
import pprint
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nextdue.calls import Task
from nextdue.errors import BadDefinition
from nextdue.handle import Handle
from nextdue.sqlite import care
from nextdue.testing.crashes import Passage
from nextdue.testing.parts import SandboxCaller
from nextdue.testing.sandbox import Sandbox

MOST = 100
"""The most points at which a crash is tried."""
RUNS = 100
"""The most runs in one trial."""
SHOWN = 2_000
"""How many characters of a state are shown."""

NOW = re.compile(r"CURRENT_|'now'", re.IGNORECASE)
"""What the default of a column says that is the time of now."""
NO_TABLE = (
    ". Each trial begins with the tables of the test's sandbox: make them there, after use(), "
    "or give reset=, a function that makes them"
)
NO_RESET = (
    "There is no reset=, so that `state` shows what all runs so far have left: give reset=, a function that undoes it"
)
NOT_THE_SAME = (
    "Does it use the time of now, or chance? Patch that, or give a state= that leaves it out. "
    "Does it leave something that isn't seen here? Give a reset= that undoes it"
)
RESTS = "it waits for what doesn't come here; send it in reset="

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

    The task is run once, then again for each point that it passed (the claim, each ctx.replace, enqueue and step, the
    end; at most 100 of them), with its worker dying there and the task being retried; at the point `settle` that
    means two whole runs. A step that is held in doubt then is resolved as by somebody who saw whether its effect was
    out, with None as its result. `args`: a tuple, or a dict by name.
    `state` answers what is to be compared; without it, the files that ctx.replace wrote, the tasks that were enqueued
    and your own tables in the application's file are, and one of them must have changed. Each trial begins with a new
    file that has no tasks, but your tables of the test's sandbox if there is one, with the files of ctx.replace as they
    were, and with a call of `reset`, which undoes what else the task does. Without a `reset`, a `state` of your own
    shows what all trials so far have left. All trials begin `at` the same instant (default: now).
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
        self._outer = task.app.path if isinstance(task.app.caller, SandboxCaller) else None
        """The file of the test's own sandbox."""
        self._folder = Path()
        """The same in all trials, since a task may write beside its database."""
        self._originals: dict[Path, bytes | None] = {}
        """The files of ctx.replace as they were."""
        self._seen = True

    def run(self) -> None:
        __tracebackhide__ = True
        with tempfile.TemporaryDirectory(prefix="nextdue-") as folder:
            self._folder = Path(folder, "trial")
            self._run()

    def _run(self) -> None:
        __tracebackhide__ = True
        once, passed = self.trial("in a single run")
        if not self._seen:
            raise AssertionError(
                f"nothing that {self.call} does can be seen here: it wrote no file by ctx.replace, enqueued no task "
                "and changed no table in its application's file; give state=, a function that answers what counts"
            )
        points = list(enumerate(passed))
        if len(points) > MOST:
            points = points[: MOST // 2] + points[-MOST // 2 :]
        for place, passage in points:
            state, _ = self.trial(f"after its worker died {passage}", at=place)
            if state != once:
                self.judge(once, state, passage)

    def trial(self, when: str, *, at: int | None = None) -> tuple[object, list[Passage]]:
        """The state after the task was run to its end, and the points that it passed."""
        __tracebackhide__ = True
        self._put_back()
        self._folder.mkdir()
        with Sandbox(self._folder) as sandbox:
            app: Any = self.task.app
            sandbox.use(app, at=self.at, only=self.task.name)
            if self._outer is not None and self._outer.exists():
                _copy_tables(self._outer, self.task.app.path)
            crashes = sandbox._crashes
            crashes.at_passage, crashes.on_passage = at, self._remember
            if self.reset is not None:
                self.reset()
            handle = self.task.enqueue(*self.args, **self.kwargs)
            before = _tables(self.task.app.path)

            def is_over() -> bool:
                return _is_done(handle) or handle.state not in ("waiting", "running")

            sandbox.run_until(is_over, limit=RUNS)
            if at is not None and _resolved(handle, crashes.passed):
                sandbox.run_until(is_over, limit=RUNS)
            if not _is_done(handle) and handle.state not in ("done", "gone"):
                said = f"{self.call} ended {handle.state} {when}: {handle.view().message or RESTS}"
                hint = NO_TABLE if "no such table" in said else ""
                raise AssertionError(said + hint) from sandbox._failures.last
            return self._effects(handle, before) if self.state is None else self.state(), crashes.passed

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

    def _effects(self, handle: Handle[Any], before: object) -> object:
        """What can be seen here."""
        with self.task.app.caller.use() as store:
            others = [task.id for task in care.listed(store, care.EVERYTHING, limit=10_000) if task.id != handle.id]
            views = [view for id in others if (view := store.get(id)) is not None]
        tables = _tables(self.task.app.path)
        self._seen = bool(views or self._originals) or tables != before
        return {
            "files": {str(path): _content(path) for path in sorted(self._originals)},
            "tasks": sorted((v.name, str(v.args), "" if v.key is None else f"key={v.key}") for v in views),
            "tables": tables,
        }

    def judge(self, once: object, state: object, passage: Passage) -> None:
        """Raise AssertionError: the states differ, by the crash or because any two runs do."""
        __tracebackhide__ = True
        again, _ = self.trial("in another single run")
        if again == once:
            raise AssertionError(
                f"{self.call} is not harmless to repeat: its worker died {passage}, and the retry left another state "
                f"than a single run\nafter a single run:\n{_shown(once)}\nnow:\n{_shown(state)}"
            )
        hint = NOT_THE_SAME if self.state is None or self.reset is not None else NO_RESET
        raise AssertionError(
            f"{self.call} can't be judged: two single runs of it leave different states. {hint}\n"
            f"after a single run:\n{_shown(once)}\nafter another one:\n{_shown(again)}"
        )


def _is_done(handle: Handle[Any]) -> bool:
    """Whether it came to its end once, though it may have asked to come again."""
    return any(run.outcome == "done" for run in handle.runs())


def _resolved(handle: Handle[Any], passed: list[Passage]) -> bool:
    """Whether the task was held in doubt, and is due now: decided on by one who saw whether the effect was out."""
    if handle.state != "held" or handle.view().reason != "in_doubt":
        return False
    out = {passage.what for passage in passed if passage.point == "effect"}
    return any(handle.resolve(doubt.label, happened=doubt.label in out) for doubt in handle.doubts())


def _copy_tables(source: Path, target: Path) -> None:
    """The user's own tables with their rows, and nothing of ours."""
    with contextlib.closing(sqlite3.connect(source)) as test, contextlib.closing(sqlite3.connect(target)) as trial:
        test.backup(trial)
        for name in _names(trial):
            if name.startswith("nextdue_") and name != "nextdue_meta":
                trial.execute(f"DELETE FROM {name}")
        trial.commit()


def _names(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")]


def _tables(file: Path) -> dict[str, list[str]]:
    """The rows of the user's own tables in this file, without columns that say when a row was made."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        names = [name for name in _names(connection) if not name.startswith(("nextdue_", "sqlite_"))]
        return {name: _rows(connection, name) for name in names}


def _rows(connection: sqlite3.Connection, table: str) -> list[str]:
    try:
        found = connection.execute("SELECT name, dflt_value FROM pragma_table_info(?)", (table,))
        columns = ", ".join(_quoted(name) for name, default in found if not NOW.search(default or "")) or "1"
        return sorted(map(repr, connection.execute(f"SELECT {columns} FROM {_quoted(table)}")))
    except sqlite3.Error as exc:  # one of an extension that isn't loaded here
        return [str(exc)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _shown(state: object) -> str:
    text = pprint.pformat(state, width=110)
    cut = text if len(text) <= SHOWN else f"{text[:SHOWN]} ... {len(text) - SHOWN} characters more"
    return "\n".join(f"    {line}" for line in cut.splitlines())
