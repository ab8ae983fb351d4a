"""Types and values for the tests of arguments, and what "the same" means: equal, and of the same types throughout."""

import collections
import dataclasses
import datetime as dt
import enum
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, Optional
from uuid import UUID

import msgspec

from nextdue.codec import Signature


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Real(float):
    pass


class Pairs(dict):
    pass


class Items(list):
    pass


@dataclasses.dataclass
class Address:
    street: str
    number: int = 1


@dataclasses.dataclass
class Flat(Address):
    floor: int = 0


class Order(msgspec.Struct):
    id: int
    note: Any = None
    to: Address | None = None


class Node(msgspec.Struct):
    next: Optional["Node"] = None


class Point(NamedTuple):
    x: int
    y: int


class Unknown:
    pass


BERLIN_SUMMER = dt.timezone(dt.timedelta(hours=2))
NOON = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)


def taking(annotation: Any = None) -> Signature:
    """The signature of a task with one argument `x`, annotated or not."""

    def task(x): ...

    if annotation is not None:
        task.__annotations__ = {"x": annotation}
    return Signature(task, skip=0)


def same(a: Any, b: Any) -> bool:
    """Equal, of the same type, and so on for all that is inside; -0.0 isn't 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return math.copysign(1, a) == math.copysign(1, b) and a == float(b)
    if isinstance(a, list | tuple | collections.deque):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        pairs = zip(a.items(), b.items(), strict=False)
        return len(a) == len(b) and all(same(k, j) and same(v, w) for (k, v), (j, w) in pairs)
    if isinstance(a, Decimal | UUID | dt.datetime):
        return str(a) == str(b)
    return bool(a == b)


def refused(error: type[BaseException], fn: Callable[..., Any], *args: Any) -> tuple[Any, str | None]:
    """What fn(*args) answers, and the text of the error by which it refuses; any other error escapes."""
    try:
        return fn(*args), None
    except error as refusal:
        return None, str(refusal)


def nested(depth: int) -> list[Any]:
    """A list in a list in a list ..."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def endless() -> list[Any]:
    """A list that contains itself."""
    value: list[Any] = [1]
    value.append({"again": value})
    return value
