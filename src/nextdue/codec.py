"""Arguments and results as JSON, checked at the call: what would come back changed is refused there.

Never pickle: whoever can write to the file can choose arguments, but never code.
"""

import functools
import inspect
import typing
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from nextdue.errors import BadArguments, BadDefinition

MAX_BYTES = 1 << 20
"""The longest text of arguments or of a result, in bytes of JSON (1 MiB)."""

_TOO_DEEP = "is nested too deep, or contains itself"
_encoder = msgspec.json.Encoder()
_USING = frozenset(
    [
        "delay",
        "due",
        "key",
        "remember",
        "queue",
        "priority",
        "on_conflict",
        "latest",
        "expires",
        "group",
        "after",
        "if_dead",
        "tx",
    ],
)
"""What using() takes, and enqueue() is given by mistake."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Signature:
    """What a task takes, seen as JSON: an array by position, or an object by name once a keyword is used.

    Annotations decide what comes back (a datetime, a UUID, a dataclass ...); where there is none, only what JSON
    itself keeps is accepted. Raises BadDefinition for *args and **kwargs, whose names and types nobody knows.
    """

    def __init__(self, fn: Callable[..., Any], skip: int) -> None:
        self.fn = fn
        self.name = getattr(fn, "__qualname__", repr(fn))
        self.params = list(inspect.signature(fn).parameters.values())[skip:]
        for p in self.params:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise BadDefinition(
                    f"task {self.name} takes {p}; write each argument out (a list or a dict argument holds many)"
                )
        self.names = [p.name for p in self.params]
        self.positional = [p for p in self.params if p.kind in _POSITIONAL]
        self._types: list[Any] | None = None
        self._decoders: dict[int, msgspec.json.Decoder[Any]] = {}
        self._loose: list[bool] = []
        self._result: Returned | None = None

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The JSON text of a call, after proving that decode() gives back the same values.

        Raises BadArguments: wrong count or names, wrong types, values that JSON can't keep (with the path to
        them), over 1 MiB.
        """
        try:
            return self._encode_object(args, kwargs) if kwargs else self._encode_array(args)
        except RecursionError:
            raise BadArguments(f"{self.name}: an argument {_TOO_DEEP}") from None

    def _encode_object(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        try:
            bound = inspect.Signature(self.params).bind(*args, **kwargs)
        except TypeError as exc:
            options = [word for word in kwargs if word in _USING and word not in self.names]
            hint = f"; options go to .using({options[0]}=...).enqueue(...)" if options else ""
            raise BadArguments(f"{self.name}: {exc}; it takes {self._shown()}{hint}") from None
        if all(p.kind in _POSITIONAL for p in self.params) and len(bound.arguments) == len(bound.args):
            return self._encode_array(bound.args)
        named = dict(bound.arguments)
        text = self._checked_text(named)
        self._compare(list(named.values()), list(self._decode_object(text).values()), list(named))
        return text

    def encode_many(self, calls: list[tuple[Any, ...]]) -> str:
        """The JSON array of many calls, each proven as by encode(). Raises BadArguments with the call's index."""
        text = self._encode_alike(calls)
        if text is None:
            text = f"[{','.join(self._encode_nth(n, args) for n, args in enumerate(calls))}]"
        return text

    def _encode_alike(self, calls: list[tuple[Any, ...]]) -> str | None:
        """All of them in one go; None unless they are small, of one length, and prove right at once."""
        counts = {len(args) for args in calls}
        if len(counts) != 1:
            return None
        (count,) = counts
        try:
            self._array_decoder(count)
            if True in self._loose[:count]:
                return None
            raw = _encoder.encode(calls)
            if len(raw) > MAX_BYTES or b"\\u0000" in raw:
                return None
            back = msgspec.json.decode(raw, type=list[tuple[tuple(self._resolve()[:count])]])  # type: ignore[misc]
            return raw.decode() if _plainly_equal(back, calls) else None
        except (BadArguments, TypeError, ValueError, OverflowError, RecursionError):
            return None  # one by one, to say which call is wrong

    def _encode_nth(self, number: int, args: tuple[Any, ...]) -> str:
        try:
            return self.encode(args, {})
        except BadArguments as exc:
            raise BadArguments(f"call {number}: {exc}") from None

    def decode(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """The (args, kwargs) of a stored text. Raises BadArguments if it no longer fits the function."""
        try:
            if text.lstrip()[:1] == "{":
                named = self._decode_object(text)
                return self._positional_only(named), named
            return self._decode_array(text), {}
        except RecursionError:
            raise BadArguments(f"{self.name}: a stored argument {_TOO_DEEP}") from None

    def _positional_only(self, named: dict[str, Any]) -> list[Any]:
        """Take those out of `named` that can't be passed by name."""
        only = [p.name for p in self.params if p.kind is p.POSITIONAL_ONLY]
        given = [n in named for n in only]
        if given != sorted(given, reverse=True):
            raise BadArguments(f"{self.name}: {only[given.index(False)]} is left out before a positional-only argument")
        return [named.pop(n) for n in only if n in named]

    def _decode_array(self, text: str) -> list[Any]:
        # Counting by a first, untyped pass costs a microsecond; trying the commonest length first costs nothing.
        try:
            return list(self._array_decoder(len(self.positional)).decode(text))
        except msgspec.ValidationError as exc:
            if "of length" not in str(exc):
                raise BadArguments(self._named(str(exc))) from None
        except msgspec.DecodeError as exc:
            raise self._no_json(exc) from None
        try:
            count = len(msgspec.json.decode(text))
            return list(self._array_decoder(count).decode(text))
        except msgspec.ValidationError as exc:
            raise BadArguments(self._named(str(exc))) from None
        except msgspec.DecodeError as exc:
            raise self._no_json(exc) from None

    def _no_json(self, exc: Exception) -> BadArguments:
        return BadArguments(f"{self.name}: the stored arguments aren't JSON: {exc}")

    def _encode_array(self, args: tuple[Any, ...]) -> str:
        decoder = self._array_decoder(len(args))
        text = self._checked_text(args)
        try:
            back = decoder.decode(text)
        except msgspec.ValidationError as exc:
            self._refuse_unkept(args)
            raise BadArguments(self._named(str(exc))) from None
        if not _plainly_equal(back, args) or (self._loose and True in self._loose[: len(args)]):
            self._compare(list(args), list(back), self.names)
        return text

    def _checked_text(self, value: Any) -> str:
        try:
            raw = _encoder.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as exc:
            self._refuse_unkept(value)
            raise BadArguments(f"{self.name}: the arguments can't be written as JSON: {exc}") from None
        if len(raw) > MAX_BYTES:
            raise BadArguments(
                f"{self.name}: the arguments are {len(raw):,} bytes of JSON, the limit is {MAX_BYTES:,}; "
                "put the data into a file or a table and pass its name"
            )
        if b"\\u0000" in raw:
            self._refuse_unkept(value)
        return raw.decode()

    def _refuse_unkept(self, value: Any) -> None:
        self._resolve()
        loose = dict(zip(self.names, self._loose, strict=True))
        items = value.items() if isinstance(value, dict) else zip(self.names, value, strict=False)
        for name, item in items:
            problem = unkept(item, name) if loose[name] else _unwritable(item, name)
            if problem:
                raise BadArguments(f"{self.name}: {problem}") from None

    def _compare(self, given: list[Any], back: list[Any], names: list[str]) -> None:
        loose = dict(zip(self.names, self._loose, strict=True))
        for name, a, b in zip(names, given, back, strict=False):
            if loose.get(name):
                problem = unkept(a, name)
            else:
                problem = None if _equal(a, b) else f"{name} would come back as {_short(b)} instead of {_short(a)}"
            if problem:
                raise BadArguments(f"{self.name}: {problem}")

    def _resolve(self) -> list[Any]:
        if self._types is None:
            hints = self._hints()
            self._types = [hints.get(n, Any) for n in self.names]
            self._loose = [_is_loose(t) for t in self._types]
        return self._types

    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self.fn, include_extras=True)
        except Exception as exc:
            raise BadDefinition(f"task {self.name}: its annotations can't be resolved: {exc}") from exc

    def _array_decoder(self, count: int) -> "msgspec.json.Decoder[Any]":
        decoder = self._decoders.get(count)
        if decoder is None:
            types = self._resolve()
            need = sum(p.default is p.empty for p in self.positional)
            keyword = [p.name for p in self.params if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
            if keyword or not need <= count <= len(self.positional):
                raise BadArguments(f"{self.name}: {count} arguments given, it takes {self._shown()}")
            shape = tuple[tuple(types[:count])] if count else tuple[()]  # type: ignore[misc]
            try:
                decoder = self._decoders[count] = msgspec.json.Decoder(shape)
            except TypeError as exc:
                raise BadDefinition(f"task {self.name}: JSON can't restore an annotated type: {exc}") from None
        return decoder

    def _decode_object(self, text: str) -> dict[str, Any]:
        types = dict(zip(self.names, self._resolve(), strict=True))
        try:
            raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            unknown = raw.keys() - types.keys()
            missing = [p.name for p in self.params if p.default is p.empty and p.name not in raw]
            if unknown or missing:
                what = f"has no argument {sorted(unknown)}" if unknown else f"needs {missing}"
                raise BadArguments(f"{self.name} {what}; it takes {self._shown()}")
            return {name: self._one(name, types[name], part) for name, part in raw.items()}
        except msgspec.DecodeError as exc:
            raise self._no_json(exc) from None

    def _one(self, name: str, kind: Any, part: msgspec.Raw) -> Any:
        try:
            return msgspec.json.decode(part, type=kind)
        except msgspec.ValidationError as exc:
            raise BadArguments(f"{self.name}: {name}: {exc}") from None

    # what it returns

    def refuse_unkeepable(self) -> None:
        """Raise BadDefinition if JSON can't restore the annotated type of the result, as far as that is known yet."""
        try:
            self._hints()
        except BadDefinition:
            return  # a name that is defined further down in the module
        self._returns()

    def result_text(self, value: Any) -> str:
        """A returned value as JSON, after proving that result() gives back the same. Raises BadArguments."""
        return self._returns().text(value)

    def result(self, text: str) -> Any:
        """The value of a stored result. Raises BadArguments if it no longer fits the annotation."""
        return self._returns().value(text)

    def _returns(self) -> "Returned":
        if self._result is None:
            hints = self._hints()
            try:
                self._result = Returned.of(hints.get("return", Any), self.name)
            except TypeError as exc:
                raise BadDefinition(f"task {self.name}: JSON can't restore what it returns: {exc}") from None
        return self._result

    def _shown(self) -> str:
        return str(inspect.Signature(self.params)) if self.params else "no arguments"

    def _named(self, message: str) -> str:
        """msgspec's `$[0].x` as the argument's own name."""
        for index, name in enumerate(self.names):
            message = message.replace(f"`$[{index}]", f"`{name}")
        return f"{self.name}: {message}"


class Returned:
    """What one function returns, as JSON and back. Its annotation decides what comes back."""

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        while isinstance(fn, functools.partial):
            fn = fn.func
        try:
            hint = typing.get_type_hints(fn).get("return", Any)
        except Exception:  # no function of Python, or its annotations can't be resolved here
            hint = Any
        try:
            self._set(hint, name)
        except TypeError as exc:
            raise BadDefinition(f"{name}: JSON can't restore what it returns: {exc}") from None

    @classmethod
    def of(cls, hint: Any, name: str) -> "Returned":
        """The same for a known type. Raises TypeError if JSON can't restore it."""
        self = cls.__new__(cls)
        self._set(hint, name)
        return self

    def _set(self, hint: Any, name: str) -> None:
        # Without a type, or with None, plain JSON is all that can come back.
        kind = Any if hint is type(None) else hint
        self._name, self._decoder, self._loose = name, msgspec.json.Decoder(kind), _is_loose(kind)

    def text(self, value: Any) -> str:
        """A returned value as JSON, after proving that value() gives back the same.

        Raises BadArguments: not what the annotation says, what JSON can't keep, over 1 MiB.
        """
        text = result_text(value, self._name)
        if self._loose:
            problem = unkept(value, "the result")
        else:
            try:
                back = self._decoder.decode(text)
            except msgspec.ValidationError as exc:
                raise BadArguments(f"{self._name}: the result is not what its annotation says: {exc}") from None
            same = _equal(value, back)
            problem = None if same else f"the result would come back as {_short(back)} instead of {_short(value)}"
        if problem:
            raise BadArguments(f"{self._name}: {problem}")
        return text

    def value(self, text: str) -> Any:
        """The value of a stored result. Raises BadArguments if it no longer fits the annotation."""
        try:
            return self._decoder.decode(text)
        except (msgspec.DecodeError, RecursionError) as exc:
            raise BadArguments(f"{self._name}: the stored result doesn't fit the annotation: {exc}") from None


def plain_text(value: Any, name: str) -> str | None:
    """A value of no annotated type as JSON, None for None. Raises BadArguments if it would come back changed."""
    if value is None:
        return None
    text, problem = result_text(value, name, "it"), unkept(value, "it")
    if problem:
        raise BadArguments(f"{name}: {problem}")
    return text


def result_text(value: Any, name: str, what: str = "the result") -> str:
    """A task's return value as JSON. Raises BadArguments if it can't be kept."""
    try:
        raw = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise BadArguments(f"{name}: {what} can't be written as JSON: {exc}") from None
    if len(raw) > MAX_BYTES:
        raise BadArguments(f"{name}: {what} is {len(raw):,} bytes of JSON, the limit is {MAX_BYTES:,}")
    return raw.decode()


def unkept(value: Any, path: str) -> str | None:
    """Why plain JSON would not give `value` back as it is, with the path to the culprit; None if it would."""
    if value is None or type(value) is bool:
        return None
    if type(value) is str:
        return _unkept_text(value, path)
    if type(value) is int:
        return None if -(1 << 63) <= value < 1 << 63 else f"{path} is an integer beyond 64 bits"
    if type(value) is float:
        return None if value - value == 0 else f"{path} is {value}, which JSON has no word for"
    if type(value) is list:
        return next((p for i, v in enumerate(value) if (p := unkept(v, f"{path}[{i}]"))), None)
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                return f"{path} has the key {_short(key)}: JSON keys are strings, so it would come back changed"
            problem = _unkept_text(key, f"{path} (a key)") or unkept(item, f"{path}[{key!r}]")
            if problem:
                return problem
        return None
    kind = type(value).__name__
    return f"{path} is a {kind}: JSON would not bring it back; annotate its type, or convert it"


def _unwritable(value: Any, path: str) -> str | None:
    """The same for a value of an annotated type: what of it JSON has no way to write, whatever its type."""
    try:
        return _spoilt(msgspec.to_builtins(value, str_keys=True), path)
    except (TypeError, ValueError, OverflowError) as exc:
        return f"{path}: {exc}"


def _spoilt(plain: Any, path: str) -> str | None:
    if isinstance(plain, str):
        return _unkept_text(plain, path)
    if isinstance(plain, float):
        return unkept(plain, path)
    if isinstance(plain, dict):
        for key, item in plain.items():
            problem = _spoilt(key, f"{path} (a key)") or _spoilt(item, f"{path}[{key!r}]")
            if problem:
                return problem
    elif isinstance(plain, list | tuple):
        return next((p for i, item in enumerate(plain) if (p := _spoilt(item, f"{path}[{i}]"))), None)
    return None


def _equal(a: Any, b: Any) -> bool:
    """Also of instants in an hour that a zone has twice or not at all: == never holds for them (PEP 495)."""
    if isinstance(a, datetime) and isinstance(b, datetime) and (ahead := a.utcoffset()) is not None:
        behind = b.utcoffset()
        return behind is not None and a.replace(tzinfo=None) - b.replace(tzinfo=None) == ahead - behind
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(item, b[key]) for key, item in a.items())
    return _plainly_equal(a, b)


def _plainly_equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # a signalling NaN, an array of numbers: what can't be compared can't be proven
        return False


def _unkept_text(text: str, path: str) -> str | None:
    if "\x00" in text:
        return f"{path} contains a NUL character, which not every store can keep"
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{path} contains a lone surrogate, which is not text"
    return None


def _is_loose(kind: Any) -> bool:
    """Whether a type lets anything through (Any, object, bare list ...), so that values must be checked."""
    if kind in (Any, object, list, dict, tuple, set, frozenset):
        return True
    return any(_is_loose(arg) for arg in typing.get_args(kind) if arg is not ...)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
