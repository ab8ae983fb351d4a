"""Arguments as JSON: what is accepted comes back the same, and what would not is refused with the way to it."""

import collections
import dataclasses
import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nextdue.codec import MAX_BYTES, Signature
from nextdue.errors import BadArguments
from tests.rules import samples
from tests.rules.samples import NOON, Address, Colour, Flat, Level, Order, Point, Word, refused, same, taking

CLEAN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | CLEAN
JSON = st.recursive(
    SCALARS.filter(lambda v: v not in (math.inf, -math.inf)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(CLEAN, inner, max_size=4),
    max_leaves=20,
)
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(st.characters()),
        st.binary(),
        st.decimals(),
        st.datetimes(),
        st.uuids(),
        st.sampled_from([Level.LOW, Word.YES, Colour.RED, samples.Text("a"), samples.Whole(1), samples.Real(1.5)]),
        st.complex_numbers(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.sets(st.integers(), max_size=2),
        st.dictionaries(st.text(st.characters()) | st.integers() | st.booleans(), inner, max_size=3),
        st.lists(inner, max_size=2).map(samples.Items),
        st.dictionaries(st.text(), inner, max_size=2).map(lambda d: collections.defaultdict(int, d)),
    ),
    max_leaves=12,
)
ANNOTATED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (bool, st.booleans()),
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, CLEAN),
    (bytes, st.binary()),
    (Decimal, st.decimals(allow_nan=False)),
    (UUID, st.uuids()),
    (dt.datetime, st.datetimes(timezones=st.just(dt.UTC))),
    (dt.date, st.dates()),
    (dt.timedelta, st.timedeltas(dt.timedelta(days=-10_000), dt.timedelta(days=10_000))),
    (set[int], st.sets(st.integers())),
    (frozenset[str], st.frozensets(CLEAN)),
    (tuple[int, str], st.tuples(st.integers(), CLEAN)),
    (tuple[Decimal, ...], st.lists(st.decimals(allow_nan=False)).map(tuple)),
    (dict[int, list[UUID]], st.dictionaries(st.integers(), st.lists(st.uuids(), max_size=2), max_size=3)),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (int | None, st.none() | st.integers()),
    (int | str | None, st.none() | st.integers() | CLEAN),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (Address, st.builds(Address, CLEAN, st.integers())),
    (Order, st.builds(Order, st.integers(), JSON, st.none() | st.builds(Address, CLEAN, st.integers()))),
    (Point, st.builds(Point, st.integers(), st.integers())),
    (Any, JSON),
    (list[Any], st.lists(JSON, max_size=3)),
]


def there_and_back(annotation: Any, value: Any, *, by_name: bool = False) -> Any:
    signature = taking(annotation)
    text = signature.encode((), {"x": value}) if by_name else signature.encode((value,), {})
    assert len(text.encode()) <= MAX_BYTES
    args, kwargs = signature.decode(text)
    return {**dict(zip(["x"], args, strict=False)), **kwargs}["x"]


@given(JSON, st.booleans())
@example(-0.0, False)
@example("\\u0000", False)
@example({"": [{}, [], None, 5e-324, 1.7976931348623157e308]}, True)
def test_what_json_keeps_comes_back_the_same(value, by_name):
    assert same(there_and_back(None, value, by_name=by_name), value)


@given(ANYTHING)
@example([{"x": {"\x00": 1}}])
@example({True: 1})
def test_without_annotation_a_value_comes_back_the_same_or_is_refused_by_its_path(value):
    """F086, F087: never stored changed, and never another error than ours."""
    back, why = refused(BadArguments, there_and_back, None, value)
    assert same(back, value) if why is None else "task: x" in why


@pytest.mark.parametrize(("annotation", "values"), ANNOTATED, ids=[str(a) for a, _ in ANNOTATED])
@given(data=st.data(), by_name=st.booleans())
def test_an_annotation_brings_the_value_back(annotation, values, data, by_name):
    """F087."""
    value = data.draw(values)
    assert same(there_and_back(annotation, value, by_name=by_name), value)


@given(st.sampled_from([a for a, _ in ANNOTATED]), ANYTHING)
def test_whatever_an_annotation_accepts_comes_back_equal(annotation, value):
    back, why = refused(BadArguments, there_and_back, annotation, value)
    assert back == value if why is None else re.search("task: .*x", why, re.DOTALL)


@pytest.mark.parametrize(
    ("annotation", "value", "type_after"),
    [
        (float, 1, float),
        (int, Level.LOW, int),
        (str, Word.YES, str),
        (Level, 1, Level),
        (dict[str, int], collections.defaultdict(int, a=1), dict),
        (dict[str, int], samples.Pairs(a=1), dict),
        (list[int], samples.Items([1]), list),
        (bytes, bytearray(b"a"), bytes),
        (frozenset[int], {1}, frozenset),
        (Decimal, 1, Decimal),
        (Point, (1, 2), Point),
    ],
)
def test_the_annotation_wins_over_an_equal_value_of_another_type(annotation, value, type_after):
    back = there_and_back(annotation, value)
    assert back == value
    assert type(back) is type_after


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("wall", [dt.datetime(2026, 10, 25, 2, 30), dt.datetime(2026, 3, 29, 2, 30)])  # noqa: DTZ001
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"at": v}, lambda v: (v,)])
def test_an_instant_in_a_night_of_clock_changes_is_an_argument_like_any_other(wall, fold, wrap):
    value = wrap(wall.replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=fold))
    kinds: dict[type, Any] = {list: list[dt.datetime], dict: dict[str, dt.datetime], tuple: tuple[dt.datetime]}
    kind = kinds.get(type(value), dt.datetime)
    back = there_and_back(kind, value)
    assert [v.timestamp() for v in flat(back)] == [v.timestamp() for v in flat(value)]


def flat(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value) if not hasattr(value, "hour") else [value]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (NOON, "x is a datetime"),
        (Decimal("1.0"), "x is a Decimal"),
        (UUID(int=5), "x is a UUID"),
        ({1}, "x is a set"),
        (b"a", "x is a bytes"),
        ((1, 2), "x is a tuple"),
        (Colour.RED, "x is a Colour"),
        (Level.LOW, "x is a Level"),
        (Word.YES, "x is a Word"),
        (Address("a"), "x is a Address"),
        (Order(1), "x is a Order"),
        (Point(1, 2), "x is a Point"),
        (samples.Text("a"), "x is a Text"),
        (samples.Whole(1), "x is a Whole"),
        (samples.Real(1.0), "x is a Real"),
        (samples.Pairs(a=1), "x is a Pairs"),
        (samples.Items([1]), "x is a Items"),
        (collections.OrderedDict(a=1), "x is a OrderedDict"),
        (samples.Unknown(), "x is a Unknown"),
        (len, "x is a builtin_function_or_method"),
        (math.nan, "x is nan"),
        (math.inf, "x is inf"),
        ({"a": [0, -math.inf]}, r"x\['a'\]\[1\] is -inf"),
        ({1: 2}, "x has the key 1"),
        ({"a": {None: 2}}, r"x\['a'\] has the key None"),
        ({True: 2}, "x has the key True"),
        ({samples.Text("a"): 1}, "x has the key 'a'"),
        (2**63, "x is an integer beyond 64 bits"),
        (-(2**63) - 1, "x is an integer beyond 64 bits"),
        pytest.param(10**5000, "x is an integer beyond 64 bits", id="5001 digits"),
        ([2**70], r"x\[0\] is an integer beyond 64 bits"),
        ("a\x00b", "x contains a NUL"),
        ("a\ud800b", "x contains a lone surrogate"),
        ({"a\x00": 1}, r"x \(a key\) contains a NUL"),
        ({"\udfff": 1}, r"x \(a key\) contains a lone surrogate"),
        ([{"deep": ["\ud800"]}], r"x\[0\]\['deep'\]\[0\] contains a lone surrogate"),
        (samples.endless(), "nested too deep, or contains itself"),
        (samples.nested(5000), "nested too deep, or contains itself"),
    ],
)
def test_what_json_would_change_is_refused_with_the_way_to_it(value, path):
    """F086, F087."""
    for args, kwargs in (((value,), {}), ((), {"x": value})):
        with pytest.raises(BadArguments, match=path):
            taking().encode(args, kwargs)
        with pytest.raises(BadArguments, match=path):
            taking(Any).encode(args, kwargs)


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (int, True, "Expected `int`, got `bool` - at `x`"),
        (bool, 1, "Expected `bool`, got `int` - at `x`"),
        (int, 1.0, "Expected `int`, got `float` - at `x`"),
        (int, "1", "Expected `int`, got `str` - at `x`"),
        (int, None, "Expected `int`, got `null` - at `x`"),
        (float, math.nan, "x is nan"),
        (float, math.inf, "x is inf"),
        (float, samples.Real(1.5), "x: Encoding objects of type Real"),
        (float, 2**53 + 1, "x would come back as 9007199254740992.0"),
        (float, Decimal("1.5"), "Expected `float`, got `str` - at `x`"),
        (str, UUID(int=1), "x would come back as"),
        (str, b"ab", "x would come back as 'YWI='"),
        (str, "a\x00", "x contains a NUL"),
        (str, "\ud800", "x contains a lone surrogate"),
        (list[int], [1, "2"], r"got `str` - at `x\[1\]`"),
        (list[int], (1, 2), r"x would come back as \[1, 2\] instead of \(1, 2\)"),
        (list[str], ["a", "\x00"], r"x\[1\] contains a NUL"),
        (list[Any], [(1,)], r"x\[0\] is a tuple"),
        (dict[str, Any], {"a": {1: 2}}, r"x\['a'\] has the key 1"),
        (dict[str, int], {"\x00": 1}, r"x \(a key\) contains a NUL"),
        (list | None, [{1}], r"x\[0\] is a set"),
        (Literal["a"], "b", "Invalid enum value 'b' - at `x`"),
        (dt.datetime, "yesterday", "Invalid RFC3339 encoded datetime - at `x`"),
        (dt.date, dt.datetime(2020, 1, 1), "x"),  # noqa: DTZ001
        (Decimal, Decimal("NaN"), "x would come back"),
        (Address, {"street": "a", "number": 1}, "x would come back as Address"),
        (Address, Flat("a", 1, 2), "x would come back as Address"),
        (Order, Order(1, note=(1, 2)), "x would come back as Order"),
        (Order, Order(1, note={"a": "\x00"}), r"x\['note'\]\['a'\] contains a NUL"),
        (Order, Order(1, note=math.nan), "x would come back as Order"),
        (Order, Order(1, to=Address("\ud800")), r"x\['to'\]\['street'\] contains a lone surrogate"),
        (samples.Unknown, samples.Unknown(), "x"),
        (complex, 1j, "x"),
    ],
)
def test_what_an_annotation_can_not_bring_back_is_refused(annotation, value, why):
    for args, kwargs in (((value,), {}), ((), {"x": value})):
        with pytest.raises(BadArguments, match=why if args else "x"):
            taking(annotation).encode(args, kwargs)


def test_a_recursive_type_has_its_limit_too():
    node = samples.Node()
    for _ in range(100):
        node = samples.Node(node)
    assert there_and_back(samples.Node, node) == node
    for _ in range(100_000):
        node = samples.Node(node)
    with pytest.raises(BadArguments, match="nested too deep"):
        taking(samples.Node).encode((node,), {})
    while node.next is not None:  # or its end would need as deep a stack
        node = node.next


def test_one_mebibyte_is_the_limit():
    room = MAX_BYTES - len('[""]')
    assert len(taking().encode(("a" * room,), {})) == MAX_BYTES
    for value, annotation in (("a" * (room + 1), None), ("a" * (room + 1), str), ("é" * (room // 2 + 1), None)):
        with pytest.raises(BadArguments, match=r"1,048,57\d bytes of JSON, the limit is 1,048,576; put the data into"):
            taking(annotation).encode((value,), {})
    with pytest.raises(BadArguments, match="the limit is"):
        taking().encode((), {"x": "a" * MAX_BYTES})


def test_arguments_beside_the_culprit_are_not_blamed():
    def task(when: dt.datetime, price: Decimal, note: str, rest): ...

    signature = Signature(task, skip=0)
    good = (NOON, Decimal("1.5"), "\\u0000", None)
    assert signature.decode(signature.encode(good, {}))[0] == list(good)
    for bad, why in ((5, "got `int` - at `note`"), ("\x00", "note contains a NUL"), ("\ud800", "note contains a lone")):
        with pytest.raises(BadArguments, match=why):
            signature.encode((NOON, Decimal("1.5"), bad, None), {})
    with pytest.raises(BadArguments, match="rest is a object"):
        signature.encode((NOON, Decimal("1.5"), "", object()), {})


@dataclasses.dataclass
class Grim:
    """Equal to nothing, not even to itself."""

    x: int
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False


def test_what_equals_nothing_can_not_be_proven_to_come_back():
    with pytest.raises(BadArguments, match="x would come back as"):
        taking(Grim).encode((Grim(1),), {})


def test_what_refuses_to_be_compared_is_refused():
    """A signalling NaN raises when it is compared, as arrays do."""
    signature = taking(Decimal)
    with pytest.raises(BadArguments, match="x"):
        signature.encode((Decimal("sNaN"),), {})
    with pytest.raises(BadArguments, match=r"call 1: .*x"):
        signature.encode_many([(Decimal(1),), (Decimal("sNaN"),)])
