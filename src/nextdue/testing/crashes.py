"""How a worker dies in a test, and how a task is ended that doesn't end."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nextdue.errors import BadDefinition
from nextdue.points import POINTS


class Killed(BaseException):
    """The worker's process is no more. No Exception, so that a task doesn't catch it as one of its own."""


class NeverEnds(AssertionError):
    """Something runs on and on: one task, or one after the other."""


class Passage(NamedTuple):
    """A point that was reached, and by which task."""

    point: str
    task: str
    what: object = None

    def __str__(self) -> str:
        what = "" if self.what is None else f" ({self.what})"
        return f"{POINTS.get(self.point, self.point)}{what}"


class _Armed:
    def __init__(self, point: str, task: str | None, nth: int) -> None:
        self.point, self.task, self.left = point, task, nth

    def __str__(self) -> str:
        return f"crash_at({self.point!r})" if self.task is None else f"crash_at({self.point!r}, {self.task!r})"

    def matches(self, passage: Passage) -> bool:
        return passage.point == self.point and self.task in (None, passage.task)


class Crashes:
    """All points that were passed, and those at which the worker is to die."""

    def __init__(self) -> None:
        self.passed: list[Passage] = []
        self.happened: list[Passage] = []
        self.at_passage: int | None = None
        """Die at the passage with this number, from 0."""
        self.on_passage: Callable[[Passage], None] = lambda passage: None
        self._armed: list[_Armed] = []
        self._dead = False

    def arm(self, point: str, task: str | None, nth: int) -> None:
        """Die when `task` (None: any) passes this point for the nth time from now. Raises BadDefinition."""
        if point not in POINTS:
            listed = "\n".join(f"  {name:9} {text}" for name, text in POINTS.items())
            raise BadDefinition(f"there is no point {point!r} to crash at; the points are\n{listed}")
        if type(nth) is not int or nth < 1:
            raise BadDefinition(f"crash_at's nth must be a whole number from 1, not {nth!r}")
        self._armed.append(_Armed(point, task, nth))

    def waiting(self) -> list[str]:
        """The crashes that were asked for and didn't happen."""
        return [str(armed) for armed in self._armed]

    def passing(self, point: str, task: str, what: object = None) -> None:
        """A point is reached. Raises Killed if the worker is to die here, or has died before."""
        if self._dead:
            raise Killed  # the task caught it and went on; what is dead writes nothing
        passage = Passage(point, task, what)
        self.passed.append(passage)
        self.on_passage(passage)
        met = [armed for armed in self._armed if armed.matches(passage)]
        for armed in met:
            armed.left -= 1
        sprung = next((armed for armed in met if armed.left <= 0), None)  # one death at a time; the others come next
        if sprung is not None:
            self._armed.remove(sprung)
        if sprung is not None or self.at_passage == len(self.passed) - 1:
            self.happened.append(passage)
            self._dead = True
            raise Killed

    def die_if_dead(self) -> None:
        """Raises Killed if the worker died while a task ran, whatever the task made of it."""
        if self._dead:
            raise Killed

    def reborn(self) -> None:
        """The next worker is a new process."""
        self._dead = False


class _TooLong(BaseException):
    """Ends a task that doesn't end by itself."""


def within(seconds: float, action: Callable[[], None]) -> bool:
    """Do it in this thread; False if it took longer and was ended by an exception.

    A call into C that waits for ever is ended in the main thread only, where a signal can do it.
    """
    lock, state = threading.Lock(), {"done": False, "over": False}
    thread = threading.get_ident()

    def end() -> None:
        with lock:
            if not state["done"]:
                state["over"] = True
                _interrupt(thread)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        try:
            with _heard():
                action()
                with lock:  # what is on its way arrives here at the latest
                    state["done"] = True
        finally:
            with lock:
                state["done"] = True
            timer.cancel()
    except (_TooLong, KeyboardInterrupt):
        if not state["over"]:
            raise
    return not state["over"]


@contextlib.contextmanager
def _heard() -> Iterator[None]:
    """Let SIGINT be heard in the main thread: a shell that starts the tests in the background has it ignored."""
    main = threading.current_thread() is threading.main_thread()
    if not (main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupt(thread: int) -> None:
    is_main = thread == threading.main_thread().ident
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(OSError):
            signal.pthread_kill(thread, signal.SIGINT)
        return
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_TooLong))
