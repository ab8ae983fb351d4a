"""Options are checked where they are written, and no exception, however hostile, keeps a failure from being told."""

import re
import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextdue.errors import BadDefinition, BadTime
from nextdue.task import (
    MAX_MESSAGE,
    MAX_NAME,
    GiveUp,
    Options,
    Retry,
    RetryAfter,
    Snooze,
    checked_name,
    failure_message,
)
from tests.rules.samples import refused


class Raises(Exception):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def __str__(self) -> str:
        raise self.error


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value] # noqa: PLE0307


class TwoArguments(Exception):
    def __init__(self, a: object, b: object) -> None:
        super().__init__(a)
        self.b = b

    def __reduce__(self):
        raise RuntimeError("can't be pickled")


class Liar(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class Nameless(Exception, metaclass=Liar):
    pass


@pytest.mark.parametrize(
    ("exc", "message"),
    [
        (ValueError("plain"), "ValueError: plain"),
        (ValueError(), "ValueError"),
        (ValueError("a\x00b\x1b[2J\r"), r"ValueError: a\x00b\x1b[2J\r"),
        (ValueError("two\nlines\tand a tab"), "ValueError: two\nlines\tand a tab"),
        (ValueError("\ud800"), r"ValueError: \ud800"),
        (Exception(b"\xff"), r"Exception: b'\xff'"),
        (KeyError("k"), "KeyError: 'k'"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (TwoArguments("a", object()), "TwoArguments: a"),
        (Raises(RuntimeError("x")), "Raises: (its text can't be made: RuntimeError)"),
        (Raises(KeyboardInterrupt()), "Raises: (its text can't be made: KeyboardInterrupt)"),
        (Raises(SystemExit()), "Raises: (its text can't be made: SystemExit)"),
        (Raises(Nameless()), "Raises: (its text can't be made: Nameless)"),
        (NoText(), "NoText: (its text can't be made: TypeError)"),
        (Nameless("x"), "Nameless: x"),
    ],
)
def test_a_failure_is_told_in_words_that_any_store_can_keep(exc, message):
    """F083, F084."""
    assert failure_message(exc) == message


@given(st.text(st.characters(), max_size=3 * MAX_MESSAGE), st.sampled_from([ValueError, KeyError, SystemExit]))
def test_every_message_is_bounded_and_clean(text, kind):
    """F084: surrogates and control characters are escaped, the rest stays readable."""
    message = failure_message(kind(text))
    message.encode()
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f]", message) is None
    assert message.startswith(kind.__name__)
    # Each kept character is escaped to at most six.
    assert len(message) <= 6 * MAX_MESSAGE + 100


def test_a_huge_text_costs_next_to_nothing():
    text = "head " + "x" * 50_000_000 + "\x00 tail"
    begun = time.process_time()
    message = failure_message(ValueError(text))
    assert time.process_time() - begun < 0.5
    assert message.startswith("ValueError: head xxx")
    assert message.endswith(r"\x00 tail")
    assert "characters ..." in message
    assert len(message) < MAX_MESSAGE + 100


def test_a_huge_name_of_an_exception_is_bounded_too():
    kind = type("E" * 1_000_000, (Exception,), {})
    assert len(failure_message(kind("x"))) <= MAX_NAME + 3
    assert len(Retry().reason(kind("x"))) <= MAX_NAME


# Retry


def test_reasons_are_the_words_of_the_first_type_that_fits():
    retry = Retry(reasons={TimeoutError: "timeout", OSError: "io"})
    assert [retry.reason(e) for e in (TimeoutError(), ConnectionError(), ValueError(), Nameless())] == [
        "timeout",
        "io",
        "ValueError",
        "Nameless",
    ]


def test_the_defaults_are_as_documented():
    retry = Retry()
    assert (retry.base_ms, retry.cap_ms, retry.jitter_ms, retry.limit) == (60_000, 3_600_000, 30_000, 12)
    assert Retry(base="5m", cap=timedelta(hours=1), jitter=0.5).base_ms == 300_000


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"limit": 0}, "limit must be a whole number from 1, or None, not 0"),
        ({"limit": -1}, "limit must be"),
        ({"limit": True}, "limit must be"),
        ({"limit": 3.0}, "limit must be"),
        ({"limit": "3"}, "limit must be"),
        ({"reasons": None}, "reasons are a dict"),
        ({"reasons": [TimeoutError]}, "reasons are a dict"),
        ({"reasons": {"TimeoutError": "timeout"}}, "take exception types, not 'TimeoutError'"),
        ({"reasons": {int: "int"}}, "take exception types, not <class 'int'>"),
        ({"reasons": {TimeoutError: 5}}, "a reason must be a str, not int 5"),
        ({"reasons": {TimeoutError: ""}}, "a reason must have 1 to 200 characters"),
        ({"reasons": {TimeoutError: "a\nb"}}, "control characters"),
        ({"give_up": ValueError}, "give_up a tuple of types"),
        ({"give_up": None}, "give_up a tuple of types"),
        ({"give_up": (ValueError(),)}, "take exception types, not ValueError"),
    ],
)
def test_a_retry_that_can_not_work_is_refused(options, why):
    with pytest.raises(BadDefinition, match=f"{why}"):
        Retry(**options)


@pytest.mark.parametrize("name", ["base", "cap", "jitter"])
@pytest.mark.parametrize("value", [-1, "soon", float("nan"), True, None, 10**12])
def test_the_durations_of_a_retry_are_checked(name, value):
    with pytest.raises(BadTime, match=f"Retry's {name}"):
        Retry(**{name: value})


def test_an_unknown_option_of_a_retry_is_named():
    with pytest.raises(TypeError, match="'tries'"):
        Retry(tries=3)  # type: ignore[call-arg]


# what a task may raise


@pytest.mark.parametrize("kind", [Snooze, RetryAfter])
def test_delays_that_a_task_asks_for_are_checked_where_it_asks(kind):
    assert kind("10m").delay_ms == 600_000
    assert kind(0).delay_ms == 0
    for bad in (-1, "soon", None, 10**12):
        with pytest.raises(BadTime, match=f"{kind.__name__}'s delay"):
            kind(bad)


def test_a_subclass_that_forgets_its_parent_still_says_something():
    class Later(Snooze):
        def __init__(self) -> None:
            pass

    class Busy(RetryAfter):
        def __init__(self) -> None:
            pass

    assert Later().delay_ms == 60_000
    assert Busy().delay_ms is None


def test_the_message_of_retry_after_is_its_own_or_the_delay():
    assert failure_message(RetryAfter(30)) == "RetryAfter: try again after 30"
    assert failure_message(RetryAfter(30, "HTTP 429")) == "RetryAfter: HTTP 429"
    assert failure_message(GiveUp("no such order")) == "GiveUp: no such order"


# Options


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"name": ""}, "a task's name must have 1 to 200 characters, this one has 0"),
        ({"name": None}, "a task's name must be a str, not NoneType"),
        ({"name": "a" * 201}, "this one has 201"),
        ({"name": "a\x00"}, "control characters or lone surrogates"),
        ({"queue": "\ud800"}, "a queue's name.*lone surrogates"),
        ({"queue": 5}, "a queue's name must be a str, not int 5"),
        ({"aliases": (5,)}, "an alias must be a str"),
        ({"aliases": ("",)}, "an alias must have"),
        ({"priority": 101}, "priority must be a whole number from -100 to 100, not 101"),
        ({"priority": -101}, "priority must be"),
        ({"priority": 1.0}, "priority must be"),
        ({"priority": True}, "priority must be"),
        ({"retry": 3}, r"task t: retry must be a Retry\(...\), not 3"),
        ({"lease_ms": 999}, "task t: a lease under 1 s can't be renewed in time"),
        ({"time_limit_ms": 0}, "task t: the time limit must be over 0"),
    ],
)
def test_options_that_can_not_work_are_refused(options, why):
    with pytest.raises(BadDefinition, match=why):
        Options(**{"name": "t", **options})


@given(st.text(st.characters(), max_size=250))
def test_a_name_is_kept_as_it_is_or_refused(text):
    name, why = refused(BadDefinition, checked_name, text, "a key")
    bad = re.search("[\x00-\x1f\x7f\ud800-\udfff]", text) or not 1 <= len(text) <= 200
    assert str(why).startswith("a key") if bad else name == text


@pytest.mark.parametrize("name", ["a", "a" * 200, "Größe 5/б-й 🎉", " ", "a.b:c"])
def test_names_are_any_readable_text(name):
    assert checked_name(name, "a key") == name
