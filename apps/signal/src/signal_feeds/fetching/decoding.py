"""A body as it was before the server packed it, and never more of it than is allowed."""

import zlib
from typing import Protocol

from signal_feeds.reasons import Failed

try:
    import brotli  # type: ignore[import-untyped]
except ImportError:
    brotli = None

ACCEPTED = "gzip, deflate" if brotli is None else "gzip, deflate, br"
"""What Accept-Encoding says."""
PIECE = 1 << 18
"""At most so many bytes are unpacked at a time."""
MEMBERS = 1_000
"""A gzip of more is refused: it is an attack with empty ones, each of which costs time."""
_GZIP, _ZLIB, _BARE = 31, 15, -15
"""zlib's wbits."""
_NO_CODING = frozenset(("", "identity", "none", "binary", "utf-8", "utf8"))
"""None at all, and what some servers write there although nothing is packed."""


class _Unpacker(Protocol):
    def unpack(self, data: bytes, body: "Body") -> None:
        """Unpack what came into the body."""

    def whole(self) -> bool:
        """Whether the end of it has come."""


class Body:
    """Collects a body. `coding`: its Content-Encoding; `most`: bytes that it may have, packed and unpacked.

    >>> body = Body("gzip", most=100)
    >>> body.feed(zlib.compress(b"hello", wbits=31)); body.whole()
    b'hello'
    """

    def __init__(self, coding: str, most: int) -> None:
        """Raises Failed('bad_encoding') for a coding that wasn't asked for."""
        self._most, self._size, self._taken = most, 0, 0
        self._pieces: list[bytes] = []
        self._unpacker = _unpacker(coding)

    def feed(self, data: bytes) -> None:
        """The next bytes off the wire. Raises Failed('too_large') and Failed('bad_encoding')."""
        self._taken += len(data)
        if self._taken > self._most:
            raise Failed("too_large")
        if self._unpacker is None:
            self.add(data)
        else:
            self._unpacker.unpack(data, self)

    def add(self, piece: bytes) -> None:
        """Unpacked bytes. Raises Failed('too_large')."""
        self._size += len(piece)
        if self._size > self._most:
            raise Failed("too_large")
        self._pieces.append(piece)

    def whole(self) -> bytes:
        """All of it, once nothing more comes. Raises Failed('bad_encoding') if its end is missing."""
        if self._taken and self._unpacker is not None and not self._unpacker.whole():
            raise Failed("bad_encoding")
        return b"".join(self._pieces)


class _Zlib:
    """gzip, of one member or several, and deflate in both of its readings."""

    def __init__(self, wbits: int | None) -> None:
        """`wbits`: None for a deflate that may be one or the other, which its first two bytes tell (RFC 1950)."""
        self._zlib = None if wbits is None else zlib.decompressobj(wbits)
        self._wbits, self._members, self._start, self._over = wbits, MEMBERS, b"", False

    def unpack(self, data: bytes, body: Body) -> None:
        if self._zlib is None:
            data = self._start = self._start + data
            if len(data) < 2:
                return
            zlib_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
            self._zlib = zlib.decompressobj(_ZLIB if zlib_header else _BARE)
        if not self._over:
            try:
                self._unpack(self._zlib, data, body)
            except zlib.error:
                raise Failed("bad_encoding") from None

    def _unpack(self, packed: "zlib._Decompress", data: bytes, body: Body) -> None:
        full = False
        while data or full:
            if packed.eof:
                self._members -= 1
                if self._wbits != _GZIP or data[:1] != b"\x1f":
                    self._over = True  # zeros and rubbish after the last one are left alone, as gzip itself does
                    return
                if not self._members:
                    raise Failed("bad_encoding")
                self._zlib = packed = zlib.decompressobj(_GZIP)
            piece = packed.decompress(data, PIECE)
            body.add(piece)
            # A full piece may leave more within zlib although all of `data` was taken.
            data, full = packed.unused_data if packed.eof else packed.unconsumed_tail, len(piece) == PIECE

    def whole(self) -> bool:
        return self._zlib is not None and self._zlib.eof


class _Brotli:
    def __init__(self) -> None:
        self._brotli = brotli.Decompressor()

    def unpack(self, data: bytes, body: Body) -> None:
        try:
            while not self._brotli.is_finished():
                piece = self._brotli.process(data, output_buffer_limit=PIECE)
                body.add(piece)
                data = b""
                if not piece and self._brotli.can_accept_more_data():
                    break
        except brotli.error:
            raise Failed("bad_encoding") from None

    def whole(self) -> bool:
        return bool(self._brotli.is_finished())


def _unpacker(coding: str) -> _Unpacker | None:
    match [name for part in coding.lower().split(",") if (name := part.strip()) not in _NO_CODING]:
        case []:
            return None
        case ["gzip" | "x-gzip"]:
            return _Zlib(_GZIP)
        case ["deflate"]:
            return _Zlib(None)
        case ["br"] if brotli is not None:
            return _Brotli()
    raise Failed("bad_encoding")
