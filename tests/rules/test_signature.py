"""A call is checked against the function when it is put: count, names, kinds of arguments, defaults."""

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextdue.codec import Signature, result_text
from nextdue.errors import BadArguments, BadDefinition


def plain(a: int, b: str = "b"): ...


def mixed(a: int, /, b: int, c: int = 3, *, d: int, e: int = 5): ...


def optional(a: int = 1, b: int = 2, /, c: int = 3): ...


def nothing(): ...


SIGNATURES = {fn: Signature(fn, skip=0) for fn in (plain, mixed, optional, nothing)}


def bound(fn, args, kwargs) -> Any:
    """What the function's parameters would get, defaults filled in; None if Python itself refuses the call."""
    try:
        found = inspect.signature(fn).bind(*args, **kwargs)
    except TypeError:
        return None
    found.apply_defaults()
    return found.arguments


@given(
    st.sampled_from(list(SIGNATURES)),
    st.lists(st.integers(0, 9), max_size=4),
    st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9), max_size=4),
)
def test_a_call_is_accepted_exactly_if_python_accepts_it(fn, args, kwargs):
    """F088: and what the worker will call binds to the very same values."""
    signature = SIGNATURES[fn]
    args, kwargs = tuple(args), dict(kwargs)
    wanted = bound(fn, args, kwargs)
    if fn is plain and wanted is not None:
        args, kwargs, wanted = with_texts(args, kwargs)
    if wanted is None:
        with pytest.raises(BadArguments, match=fn.__name__):
            signature.encode(args, kwargs)
    else:
        try:
            stored = signature.decode(signature.encode(args, kwargs))
        except BadArguments as exc:
            # Neither an array nor an object can leave it out. (Before Python 3.13 bind() refused such a call, too.)
            assert "is left out before a positional-only argument" in str(exc)  # noqa: PT017
            return
        assert bound(fn, *stored) == wanted


def with_texts(args, kwargs):
    """plain()'s second argument is a text."""
    args = tuple(str(v) if i == 1 else v for i, v in enumerate(args))
    kwargs = {name: str(v) if name == "b" else v for name, v in kwargs.items()}
    return args, kwargs, bound(plain, args, kwargs)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "why"),
    [
        (plain, (), {}, r"0 arguments given, it takes \(a: int, b: str = 'b'\)"),
        (plain, (1, "b", 3), {}, "3 arguments given"),
        (plain, (1,), {"x": 3}, "unexpected keyword argument 'x'"),
        (plain, (1,), {"a": 3}, "multiple values for argument 'a'"),
        (plain, (), {"b": "b"}, "missing a required argument: 'a'"),
        (plain, ("1",), {}, "Expected `int`, got `str` - at `a`"),
        (plain, (1,), {"b": 5}, "Expected `str`, got `int` - at `b`"),
        (mixed, (1,), {"b": 5, "d": "x"}, "d: Expected `int`, got `str`"),
        (mixed, (1, 2, 3), {}, "3 arguments given, it takes"),
        (mixed, (1, 2), {"e": 3}, "missing a required argument: 'd'"),
        (mixed, (), {"a": 1, "b": 2, "d": 3}, "positional.only"),  # its wording changed in Python 3.13
        (nothing, (1,), {}, "1 arguments given, it takes no arguments"),
        (nothing, (), {"a": 1}, "unexpected keyword argument 'a'"),
    ],
)
def test_a_call_that_does_not_fit_says_so_and_shows_what_would(fn, args, kwargs, why):
    """F088."""
    with pytest.raises(BadArguments, match=f"{fn.__name__}.*{why}"):
        SIGNATURES[fn].encode(args, kwargs)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "text"),
    [
        (plain, (1,), {}, "[1]"),
        (plain, (1, "x"), {}, '[1,"x"]'),
        (plain, (), {"b": "x", "a": 1}, '[1,"x"]'),
        (nothing, (), {}, "[]"),
        (mixed, (1,), {"b": 2, "d": 4}, '{"a":1,"b":2,"d":4}'),
    ],
)
def test_a_call_is_stored_by_position_where_it_can_be(fn, args, kwargs, text):
    """So that a worker with more arguments that have defaults still runs it."""
    assert SIGNATURES[fn].encode(args, kwargs) == text


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        ('{"a": 1}', [], {"a": 1}),
        (' \n{"b": "x", "a": 1} ', [], {"a": 1, "b": "x"}),
        (' [1 , "x"]', [1, "x"], {}),
        ('{"a": 1, "a": 2}', [], {"a": 2}),
    ],
)
def test_other_programs_may_write_the_json_as_they_like(text, args, kwargs):
    assert SIGNATURES[plain].decode(text) == (args, kwargs)


@pytest.mark.parametrize(
    ("fn", "text", "why"),
    [
        (plain, "[]", "0 arguments given"),
        (plain, '["x"]', "Expected `int`, got `str` - at `a`"),
        (plain, "[1, 2]", "Expected `str`, got `int` - at `b`"),
        (plain, '{"a": 1, "c": 2}', r"has no argument \['c'\]"),
        (plain, '{"b": "x"}', r"needs \['a'\]"),
        (plain, '{"a": "x"}', "a: Expected `int`, got `str`"),
        (plain, "5", "Expected `array`, got `int`"),
        (plain, "null", "Expected `array`, got `null`"),
        (plain, '"[1]"', "Expected `array`, got `str`"),
        (plain, "", "aren't JSON"),
        (plain, "[1", "aren't JSON"),
        (plain, '{"a": 1', "aren't JSON"),
        (plain, "[NaN]", "aren't JSON"),
        (plain, "[1]\x00", "aren't JSON"),
        (nothing, "[00]", "aren't JSON"),
        (plain, "\x80\x04\x95", "aren't JSON"),
        (plain, '{"__reduce__": ["os.system", ["true"]]}', r"has no argument \['__reduce__'\]"),
        (plain, '["\\ud800"]', "plain"),
        (plain, "[" * 5000 + "]" * 5000, "plain"),
        (optional, '{"c":' + "[" * 5000 + "]" * 5000 + "}", "optional"),
        (optional, '{"b": 5}', "a is left out before a positional-only argument"),
        (nothing, "[1]", "1 arguments given"),
    ],
)
def test_stored_arguments_that_no_longer_fit_are_refused_and_nothing_else_happens(fn, text, why):
    """F088, F127."""
    with pytest.raises(BadArguments, match=why):
        SIGNATURES[fn].decode(text)


@given(st.text(), st.sampled_from(list(SIGNATURES)))
def test_any_text_in_the_file_is_decoded_or_refused(text, fn):
    for stored in (text, f"[{text}]", f'{{"a": {text}}}'):
        try:
            args, kwargs = SIGNATURES[fn].decode(stored)
        except BadArguments:
            continue
        assert bound(fn, args, kwargs) is not None


def test_arguments_nobody_can_check_are_refused_when_the_task_is_declared():
    def many(*args): ...

    def named(a, **options): ...

    for fn, shown in ((many, r"\*args"), (named, r"\*\*options")):
        with pytest.raises(BadDefinition, match=f"takes {shown}; write each argument out"):
            Signature(fn, skip=0)


def test_the_context_is_no_argument():
    def task(ctx, a: int): ...

    assert Signature(task, skip=1).encode((5,), {}) == "[5]"
    assert Signature(task, skip=1).decode('{"a": 5}') == ([], {"a": 5})


def test_annotations_that_can_not_be_used_say_so():
    def unknown(x: "Nowhere"): ...  # type: ignore[name-defined] # noqa: F821

    def ambiguous(x: str | bytes): ...

    with pytest.raises(BadDefinition, match=r"its annotations can't be resolved.*Nowhere"):
        Signature(unknown, skip=0).encode((1,), {})
    with pytest.raises(BadDefinition, match="JSON can't restore an annotated type"):
        Signature(ambiguous, skip=0).encode(("a",), {})


@pytest.mark.parametrize(("value", "text"), [(None, "null"), ({"a": [1, 2.5]}, '{"a":[1,2.5]}'), ((1, 2), "[1,2]")])
def test_a_result_is_kept_as_json(value, text):
    assert result_text(value, "task") == text


def test_a_result_that_can_not_be_kept_says_so():
    endless: list[Any] = []
    endless.append(endless)
    for value in (object(), "\ud800", endless, "a" * (1 << 20)):
        with pytest.raises(BadArguments, match="task: the result"):
            result_text(value, "task")
