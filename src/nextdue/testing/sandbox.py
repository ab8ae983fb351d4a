"""The sandbox: a user's applications on files of the test's own, a clock that stands still, and the real engine."""

import contextlib
import logging
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from nextdue.aio import in_thread
from nextdue.app import Nextdue
from nextdue.calls import Task
from nextdue.clock import MAX_MS, Duration, duration_ms, from_ms, to_ms, utc_text
from nextdue.errors import BadDefinition, BadTime
from nextdue.records import Settlement
from nextdue.testing.clock import FakeClock
from nextdue.testing.crashes import Crashes, NeverEnds
from nextdue.testing.failures import Failures
from nextdue.testing.guard import guarded
from nextdue.testing.place import SPINS, Place

log = logging.getLogger("nextdue")

RUNS = 1_000
"""The most runs of tasks in one call, unless its limit= says otherwise."""
PATIENCE_S = 30.0
"""How long one run may take in real time."""


class Sandbox:
    """What the fixture `nextdue` is: the real engine, one task at a time, under a clock that only the test moves.

    `folder`: where the files go; default a temporary one, removed at the end of the block unless that raised.

    >>> from nextdue import Nextdue
    >>> nd = Nextdue("/srv/shop/shop.db")       # nothing touches this file
    >>> @nd.task
    ... def remind(order: int) -> None:
    ...     print("order", order, "is not paid")
    >>> with Sandbox() as sandbox:
    ...     nd = sandbox.use(nd)
    ...     handle = remind.using(delay="3 days").enqueue(42)
    ...     sandbox.advance("4 days")
    order 42 is not paid
    {'done': 1}
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="nextdue-")) if folder is None else folder
        self.patience = PATIENCE_S
        """How many seconds of real time one run of a task may take before the test fails."""
        self._clock = FakeClock(time.time_ns() // 1_000_000)
        self._crashes, self._failures = Crashes(), Failures()
        self._takes_ms: dict[str, int] = {}
        self._places: list[Place] = []
        self._counts: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._guard = contextlib.ExitStack()
        self._closed = False

    # what is tested

    def use(self, app: Nextdue, *, at: datetime | None = None, only: str | None = None) -> Nextdue:
        """Lead an application to a new file of this test, until its end; answers the application.

        Its own file is neither opened nor made. `at`: what time it is (default: the real time of now), to be given
        with the first application. `only`: work off only the task of this name.
        """
        given: Any = app
        if not isinstance(given, Nextdue):
            raise BadDefinition(f"use() takes an application, as in use(shop.nd), not {given!r}")
        if self._closed:
            raise BadDefinition("this sandbox is closed; each test has one of its own")
        if at is not None:
            if self._places:
                raise BadDefinition("use(at=...) sets the clock before anything happens: give it with the first use()")
            self._clock = FakeClock(to_ms(at))
        if all(place.app is not app for place in self._places):
            folder = self.folder / str(len(self._places) + 1)
            folder.mkdir()
            place = Place(
                app,
                folder / app.path.name,
                self._clock,
                self._crashes,
                self._failures,
                takes_ms=self._takes_ms,
                patience=lambda: self.patience,
                hook=self._tell,
                run_until=self.run_until,
                only=only,
            )
            place.redirect()
            self._places.append(place)
        return app

    @property
    def now(self) -> datetime:
        """What time it is here (aware, UTC)."""
        return from_ms(self._clock.now())

    @property
    def files(self) -> list[Path]:
        """The files in which the applications of this test are."""
        return [place.path for place in self._places]

    def report(self) -> str:
        """What a failing test says of it: its files, the tasks in them, and the tracebacks of those that failed."""
        lines = [line for place in self._places for line in place.report()]
        return "\n".join([*lines, *self._failures.report()])

    def __repr__(self) -> str:
        return f"<sandbox of {', '.join(file.name for file in self.files) or 'nothing yet'}>"

    # time

    def drain(self, *, limit: int = RUNS) -> dict[str, int]:
        """Run all that is due now, and what it enqueues for now; answers how many runs ended how.

        Raises NeverEnds after `limit` runs.
        """
        self._begin(limit)
        return self._work(self._clock.now(), limit, late_ms=0)

    def advance(self, time: Duration, *, working: bool = True, limit: int = RUNS) -> dict[str, int]:
        """Let time pass; whatever falls due is run in order, at its exact due. Answers as drain() does.

        working=False: no worker is there meanwhile, as in a downtime. Raises BadTime, and NeverEnds after `limit` runs.
        """
        end = min(self._clock.now() + duration_ms(time, "the time to advance"), MAX_MS)
        self._begin(limit)
        if not working:
            for place in self._places:
                place.leave()
            self._clock.advance(end - self._clock.now())
            return {}
        return self._work(end, limit, late_ms=1)

    def at(self, instant: datetime, *, working: bool = True, limit: int = RUNS) -> dict[str, int]:
        """advance() to an instant, an aware datetime. Raises BadTime if it is past."""
        ms = to_ms(instant) - self._clock.now()
        if ms < 0:
            raise BadTime(
                f"at({instant.isoformat()}): it is already {utc_text(self._clock.now())} here and time only goes "
                "forward; step_clock() sets the clock, use(app, at=...) says when the test begins"
            )
        return self.advance(timedelta(milliseconds=ms), working=working, limit=limit)

    async def adrain(self, *, limit: int = RUNS) -> dict[str, int]:
        """drain() from a coroutine of asyncio: tasks run in a thread beside its event loop."""
        return await in_thread(lambda: self.drain(limit=limit))

    async def aadvance(self, time: Duration, *, working: bool = True, limit: int = RUNS) -> dict[str, int]:
        """advance() from a coroutine."""
        return await in_thread(lambda: self.advance(time, working=working, limit=limit))

    async def aat(self, instant: datetime, *, working: bool = True, limit: int = RUNS) -> dict[str, int]:
        """at() from a coroutine."""
        return await in_thread(lambda: self.at(instant, working=working, limit=limit))

    def step_clock(self, by: timedelta) -> None:
        """Somebody sets the clock, forwards or (a negative timedelta) backwards: no time passes, nothing is run."""
        given: Any = by
        if not isinstance(given, timedelta):
            raise BadTime(f"step_clock takes a timedelta, which may be negative, not {given!r}")
        ms = by // timedelta(milliseconds=1)
        if not 0 <= self._clock.now() + ms <= MAX_MS:
            raise BadTime(f"step_clock({by!r}) leads out of 1970 .. 9999")
        self._begin(1)
        self._clock.step(ms)

    def takes(self, task: Task[..., Any, Any] | str, time: Duration) -> None:
        """From now on each run of this task takes so long on the test's clock; its lease is renewed meanwhile.

        The function is called when its time begins. With a time limit below that the run fails by it.
        """
        self._takes_ms[self._name(task)] = duration_ms(time, "the time a task takes")

    # death

    def crash_at(self, point: str, task: Task[..., Any, Any] | str | None = None, *, nth: int = 1) -> None:
        """The worker dies, as by kill -9, when `task` (None: any) passes this point for the nth time from now, once.

        Nothing that follows the point happens; the task is retaken by the next worker after its back-off. Raises
        BadDefinition for an unknown point, naming those that there are. A test at whose end it didn't happen fails.
        """
        self._crashes.arm(point, None if task is None else self._name(task), nth)

    @property
    def crashes(self) -> list[str]:
        """The points at which the worker died so far."""
        return [passage.point for passage in self._crashes.happened]

    def assert_repeatable(self, task: Task[..., Any, Any], args: Any = (), **options: Any) -> None:
        """nextdue.assert_repeatable(), which needs no fixture; here because this one's name hides the module's."""
        from nextdue.testing.repeatable import assert_repeatable

        __tracebackhide__ = True
        assert_repeatable(task, args, **{"at": self.now, **options})

    # its end

    def close(self) -> None:
        """Lead the applications back to their own files. Again: nothing happens."""
        self._closed = True
        with contextlib.ExitStack() as all_of_them:
            all_of_them.callback(self._guard.close)
            for place in self._places:
                all_of_them.callback(place.restore)

    def check(self) -> None:
        """Raise AssertionError if a crash that was asked for didn't happen: the test shows less than it says."""
        __tracebackhide__ = True
        waiting = self._crashes.waiting()
        if waiting:
            raise AssertionError(f"{', '.join(waiting)}: the worker never came to this point")

    def __enter__(self) -> "Sandbox":
        """From now on, until its end, applications that are in no sandbox are refused."""
        self._guard.enter_context(guarded())
        return self

    def __exit__(self, kind: object, exc: BaseException | None, trace: object) -> None:
        if exc is not None and self._temporary and self.files:
            exc.add_note(self.report())
            self.close()
        else:
            self.close()
            if self._temporary:
                shutil.rmtree(self.folder)
        if exc is None:
            self.check()

    # work

    def run_until(self, over: Callable[[], bool], time: Duration | None = None, *, limit: int = RUNS) -> bool:
        """Let time pass until `over()`, which is asked after each step; at most so much (None: as long as something
        falls due). Answers whether it came to that. Raises NeverEnds after `limit` runs.
        """
        end = None if time is None else min(self._clock.now() + duration_ms(time, "the time to run"), MAX_MS)
        self._begin(limit)
        self._work(end, limit, late_ms=0, until=over)
        return over()

    def _begin(self, limit: int) -> None:
        if type(limit) is not int or limit < 1:
            raise BadDefinition(f"limit must be a whole number from 1, not {limit!r}")
        if not self._places:
            raise BadDefinition("no application is in this sandbox; say use(nd) first, with the test's own nd")
        if any(place.busy() for place in self._places):
            raise BadDefinition("a task can't move the clock of the test that runs it; takes() says how long it runs")
        self._counts, self._runs = Counter(), Counter()
        for place in self._places:
            place.crashed = place.expired = 0

    def _work(
        self, end: int | None, limit: int, *, late_ms: int, until: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Work until `end` (None: as long as something falls due), or until `until()`.

        A delay is stored a millisecond longer, never to be early, so that a chain of them ends a little later:
        `late_ms` for each run is granted.
        """
        instant, ticks, seen = self._clock.now(), 0, 0
        latest = MAX_MS if end is None else end
        while not until():
            limits, dues = zip(*(place.turn() for place in self._places), strict=True)
            runs = self._runs.total()
            if runs > limit:
                self._give_up(limit)
            ticks = ticks + 1 if (self._clock.now(), runs) == (instant, seen) else 0
            instant, seen = self._clock.now(), runs
            if ticks > SPINS:
                raise NeverEnds("the worker spins: something is due, and it neither runs nor rests")
            wait = self._wait(limits, dues, latest, latest + (runs + 1) * late_ms)
            if wait is None:
                break
            self._clock.advance(wait)
        else:
            end = None  # not reached
        if end is not None:
            self._clock.advance(max(0, end - self._clock.now()))
        self._counts["crashed"] += sum(place.crashed for place in self._places)
        self._counts["expired"] += sum(place.expired for place in self._places)
        return {outcome: count for outcome, count in self._counts.items() if count}

    def _wait(self, limits: Sequence[int | None], dues: Sequence[int | None], end: int, latest: int) -> int | None:
        """In how many ms to go on; None if that is not before the end."""
        now = self._clock.now()
        waits = [max(0, ms) for ms in limits if ms is not None and now + ms <= max(now, end)]
        waits += [max(0, ms) for ms in dues if ms is not None and now + ms <= latest]
        return min(waits, default=None)

    def _give_up(self, limit: int) -> None:
        __tracebackhide__ = True
        often = ", ".join(f"{name} {count} times" for name, count in self._runs.most_common(3))
        raise NeverEnds(
            f"after {limit} runs there was still something to do ({often}); does a task enqueue itself, or fail and "
            "come back, for ever? If so much is meant, give limit=..."
        ) from self._failures.last

    def _tell(self, settlements: Sequence[Settlement]) -> None:
        for s in settlements:
            if s.outcome == "released":  # not started
                continue
            self._counts[s.outcome] += 1
            self._runs[s.name] += 1
            if s.outcome in ("failed", "dead", "held"):
                log.warning("%s #%d %s: %s", s.name, s.id, s.outcome, s.message)

    def _name(self, task: Task[..., Any, Any] | str) -> str:
        """Its name; BadDefinition if no application here has such a task, for then nothing would come of it."""
        given: Any = task
        if not isinstance(given, Task | str):
            raise BadDefinition(f"a task or its name is needed here, not {given!r}")
        name = given if isinstance(given, str) else given.name
        known = sorted({name for place in self._places for name in place.app.definitions})
        if self._places and name not in known:
            raise BadDefinition(
                f"no application in this sandbox has a task {name!r}; there are {', '.join(known) or 'none'}"
            )
        return name
