"""What a task is told to be: its options, how it is retried, and what it may raise to say when to come back."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Literal, get_args

from nextdue.clock import Duration, duration_ms
from nextdue.errors import BadDefinition

KEEP_RESULT = timedelta(days=1)
"""How long keep_result=True keeps a result, at the least."""
MAX_NAME = 200
"""The longest name of a task, a queue or a key, in characters."""
PRIORITIES = range(-100, 101)
MOST_PERIOD_MS = 10 * 366 * 86_400_000
RunIn = Literal["thread", "loop", "process"]
"""Where a task runs: in a thread, as a coroutine in the event loop, or in a process of its own."""


def _is_whole(value: Any) -> bool:
    return type(value) is int


class Snooze(Exception):
    """Raised by a task that isn't ready: look again after `delay`. This is no attempt and no failure.

    A subclass that never calls this __init__ waits a minute.

    >>> raise Snooze("10m")
    Traceback (most recent call last):
    nextdue.task.Snooze: 10m
    """

    delay_ms: int = 60_000

    def __init__(self, delay: Duration) -> None:
        super().__init__(delay)
        self.delay_ms = duration_ms(delay, "Snooze's delay")


class RetryAfter(Exception):
    """Raised by a failing task that knows when to try again, as from an HTTP Retry-After header (RFC 9110, 10.2.3).

    It counts as an attempt; only the delay is the task's own instead of the back-off.
    """

    delay_ms: int | None = None

    def __init__(self, delay: Duration, message: str = "") -> None:
        super().__init__(message or f"try again after {delay}")
        self.delay_ms = duration_ms(delay, "RetryAfter's delay")


class GiveUp(Exception):
    """Raised by a task for which trying again is pointless: it is dead at once, with this message."""


class Cancelled(BaseException):
    """Raised by ctx.progress() in a task whose cancellation was asked for.

    A coroutine gets asyncio.CancelledError at its await instead, which ends it in the same way.
    No Exception, so that a task that catches those ends all the same. It may clean up and raise it again.
    """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Retry:
    """How a failed attempt is tried again.

    The n-th failure waits base * 2**(n-1), at most cap, plus up to `jitter` at random (seconds, or any
    Duration). `limit` is the number of attempts after which the task is dead; None tries for ever.
    `reasons` maps exception types to short words by which failures are counted; others go by their type's name.
    `give_up` lists exception types for which the task is dead at once.

    >>> Retry(base=1, cap=60, limit=None, reasons={TimeoutError: "timeout"}, give_up=(PermissionError,)).limit
    """

    base: Duration = 60
    cap: Duration = 3600
    jitter: Duration = 30
    limit: int | None = 12
    reasons: Mapping[type[BaseException], str] = dataclasses.field(default_factory=dict)
    give_up: tuple[type[BaseException], ...] = ()
    base_ms: int = dataclasses.field(init=False, repr=False)
    cap_ms: int = dataclasses.field(init=False, repr=False)
    jitter_ms: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("base", "cap", "jitter"):
            object.__setattr__(self, f"{name}_ms", duration_ms(getattr(self, name), f"Retry's {name}"))
        if self.limit is not None and (not _is_whole(self.limit) or self.limit < 1):
            raise BadDefinition(f"Retry's limit must be a whole number from 1, or None, not {self.limit!r}")
        given: tuple[Any, Any] = self.reasons, self.give_up
        if not isinstance(given[0], Mapping) or not isinstance(given[1], tuple | list):
            raise BadDefinition("Retry's reasons are a dict of exception types to words, give_up a tuple of types")
        kinds: list[Any] = [*self.reasons, *self.give_up]
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise BadDefinition(f"Retry's reasons and give_up take exception types, not {kind!r}")
        for word in self.reasons.values():
            checked_name(word, "a reason")

    def reason(self, exc: BaseException) -> str:
        """The word under which this failure is counted."""
        return next((word for kind, word in self.reasons.items() if isinstance(exc, kind)), _type_name(exc))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one task, checked; durations in milliseconds."""

    name: str
    queue: str = "default"
    priority: int = 0
    retry: Retry = Retry()
    lease_ms: int = 300_000
    time_limit_ms: int | None = None
    keep_result_ms: int | None = None
    limit: int | None = None
    rate_ms: int | None = None
    rates_ms: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Of single groups, in place of `rate_ms`; 0: none."""
    aliases: tuple[str, ...] = ()
    run_in: RunIn = "thread"
    period_ms: int | None = None
    """On demand: it is run at most once in each period of this length, and only when it was asked for."""

    def __post_init__(self) -> None:
        checked_name(self.name, "a task's name")
        checked_name(self.queue, "a queue's name")
        for alias in self.aliases:
            checked_name(alias, "an alias")
        checked_priority(self.priority)
        if not isinstance(self.retry, Retry):
            raise BadDefinition(f"task {self.name}: retry must be a Retry(...), not {self.retry!r}")
        if self.lease_ms < 1000:
            raise BadDefinition(f"task {self.name}: a lease under 1 s can't be renewed in time")
        if self.limit is not None and (not _is_whole(self.limit) or self.limit < 1):
            raise BadDefinition(f"task {self.name}: limit must be a whole number from 1, not {self.limit!r}")
        if self.rate_ms is not None and self.rate_ms < 1:
            raise BadDefinition(f"task {self.name}: a rate over 1,000 a second can't be kept")
        if self.time_limit_ms is not None and self.time_limit_ms < 1:
            raise BadDefinition(f"task {self.name}: the time limit must be over 0")
        if self.period_ms is not None and not 1_000 <= self.period_ms <= MOST_PERIOD_MS:
            raise BadDefinition(f"task {self.name}: the period of a run on demand is from one second to ten years")
        if self.run_in not in get_args(RunIn):
            raise BadDefinition(f'task {self.name}: run_in is "thread", "loop" or "process", not {self.run_in!r}')
        if self.keep_result_ms is not None and self.keep_result_ms < 1:
            raise BadDefinition(f"task {self.name}: keep_result must be over 0; False keeps no results")

    @property
    def grouped(self) -> bool:
        """Whether something is counted by group: a limit or a rate."""
        return self.limit is not None or self.rate_ms is not None or bool(self.rates_ms)

    @property
    def keep_result(self) -> bool:
        """Whether what it returns is kept."""
        return self.keep_result_ms is not None


RATE_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def rate_ms(rate: Any) -> int:
    """The time between two starts at this rate, in ms. Raises BadDefinition.

    >>> rate_ms("10/m"), rate_ms("2/s")
    (6000, 500)
    """
    found = re.fullmatch(r"([1-9][0-9]{0,6})/([smhd])", rate) if isinstance(rate, str) else None
    if found is None:
        raise BadDefinition(f'a rate is a text like "10/m": so many a second (s), minute, hour or day, not {rate!r}')
    return RATE_UNITS_MS[found[2]] // int(found[1])


def rates_ms(rates: Any) -> dict[str, int]:
    """The time between two starts of each of these groups, in ms; 0: no rate. Raises BadDefinition.

    >>> rates_ms({"feeds.example.com": "5/s", "archive.example.com": None})
    {'feeds.example.com': 200, 'archive.example.com': 0}
    """
    if not isinstance(rates, Mapping):
        raise BadDefinition(f'rates is a dict of groups to rates, like {{"api.example.com": "5/s"}}, not {rates!r}')
    found = {}
    for group, rate in rates.items():
        try:
            found[checked_name(group, "a group")] = 0 if rate is None else rate_ms(rate)
        except BadDefinition as exc:
            raise BadDefinition(f"rates, group {group!r}: {exc}") from None
        if rate is not None and found[group] < 1:
            raise BadDefinition(f"rates, group {group!r}: a rate over 1,000 a second can't be kept")
    return found


def keep_ms(keep_result: Any) -> int | None:
    """For how long a result is kept, in ms; None: not at all. Raises BadTime."""
    if isinstance(keep_result, bool):
        return duration_ms(KEEP_RESULT) if keep_result else None
    return duration_ms(keep_result, "keep_result")


def checked_name(name: Any, what: str) -> str:
    """`name` itself, or BadDefinition: names and keys are 1 to 200 characters of text without control characters."""
    if not isinstance(name, str):
        raise BadDefinition(f"{what} must be a str, not {type(name).__name__} {name!r}")
    if not 1 <= len(name) <= MAX_NAME:
        raise BadDefinition(f"{what} must have 1 to {MAX_NAME} characters, this one has {len(name)}")
    if any(ord(c) < 32 or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in name):
        raise BadDefinition(f"{what} {name!r} contains control characters or lone surrogates")
    return name


def checked_key(key: Any) -> str:
    """`key` itself, or BadDefinition: a name that doesn't begin with what marks the rows of schedules."""
    if checked_name(key, "a key").startswith("@"):
        raise BadDefinition(f"a key must not begin with @, as {key!r} does: so begin the rows of schedules")
    return str(key)


def checked_priority(priority: int) -> int:
    """`priority` itself, or BadDefinition: a whole number from -100 to 100, higher first."""
    if not _is_whole(priority) or priority not in PRIORITIES:
        raise BadDefinition(f"priority must be a whole number from -100 to 100, not {priority!r}")
    return priority


def refuse_unknown(options: Collection[str], known: Collection[str]) -> None:
    """Raise BadDefinition if one of these options of a task isn't known, with what it may have meant."""
    for word in options:
        if word not in known:
            close = difflib.get_close_matches(word, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"its options are {', '.join(known)}"
            raise BadDefinition(f"@nd.task has no option {word!r}; {hint}")


MAX_MESSAGE = 2_000
"""The longest stored failure message, in characters."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def _type_name(exc: BaseException) -> str:
    name = type.__dict__["__name__"].__get__(type(exc))  # past a metaclass that has another idea of it
    return str(name[:MAX_NAME])


def failure_message(exc: BaseException) -> str:
    """The exception's type and text, bounded and free of what a store or a terminal can't show; never raises.

    >>> failure_message(ValueError("a\\x00b"))
    'ValueError: a\\\\x00b'
    """
    try:
        text = str.__str__(str(exc))  # str() may hand out a subclass that misbehaves
    except BaseException as broken:  # a __str__ may raise anything; the failure must still be recorded
        text = f"(its text can't be made: {_type_name(broken)})"
    if len(text) > MAX_MESSAGE:
        half = MAX_MESSAGE // 2 - 20
        text = f"{text[:half]} ... {len(text) - 2 * half} characters ... {text[-half:]}"
    text = _UNPRINTABLE.sub(lambda m: ascii(m.group())[1:-1], text)
    name = _type_name(exc)
    return f"{name}: {text}" if text else name
