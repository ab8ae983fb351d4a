"""A body as it was before it was packed: whole, or an error; never a short feed, never more than is allowed."""

import gzip
import random
import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.signal.tests.behaviours import encoded, feed
from apps.signal.tests.fetching.conftest import Fetch
from apps.signal.tests.server import Server
from signal_feeds.fetching.decoding import MEMBERS, Body
from signal_feeds.reasons import Failed

Fails = Callable[..., Failed]
MIB = 1 << 20


def unpacked(coding: str, parts: Iterator[bytes] | list[bytes], most: int = 8 * MIB) -> bytes:
    body = Body(coding, most)
    for part in parts:
        body.feed(part)
    return body.whole()


WHOLE = ["gzip", "x-gzip", "deflate", "raw-deflate", "br", "identity", "two-members", "padded", "trailing"]


@pytest.mark.parametrize("how", WHOLE)
def test_codings(how: str, server: Server, fetch: Fetch) -> None:
    assert fetch(server.url(f"/encoded/{how}")).body == feed(20)


@pytest.mark.parametrize("how", ["unknown", "double", "broken", "plain", "checksum"])
def test_what_cannot_be_unpacked(how: str, server: Server, fails: Fails) -> None:
    failed = fails(server.url(f"/encoded/{how}"))
    assert (failed.reason, failed.status) == ("bad_encoding", 200)


@pytest.mark.parametrize("how", ["gzip", "deflate", "br", "chunked", "length"])
def test_a_cut_body_is_an_error_not_a_short_feed(how: str, server: Server, fails: Fails) -> None:
    failed = fails(server.url(f"/cut/{how}"))
    assert (failed.reason, failed.status) == ("bad_encoding", 200)


@pytest.mark.parametrize("how", ["gzip", "deflate", "br", "two-members"])
def test_every_cut_is_noticed(how: str) -> None:
    coding, packed = encoded(feed(3), how)
    whole = len(gzip.compress(feed(3)[: len(feed(3)) // 2])) if how == "two-members" else None
    for length in range(1, len(packed)):
        if length == whole:
            continue  # between two members nothing is missing
        with pytest.raises(Failed, match="bad_encoding"):
            unpacked(coding, [packed[:length]])


@pytest.mark.parametrize("how", ["gzip", "deflate", "raw-deflate", "br", "two-members", "padded", "trailing"])
@given(seed=st.integers(0, 2**32))
def test_it_does_not_matter_how_it_arrives(how: str, seed: int) -> None:
    rng = random.Random(seed)
    coding, packed = encoded(feed(20), how)
    parts, at = [], 0
    while at < len(packed):
        length = rng.choice((1, 1, 2, 7, 100, 5000))
        parts.append(packed[at : at + length])
        at += length
    assert unpacked(coding, parts) == feed(20)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity", ""])
def test_no_body_is_no_broken_one(coding: str) -> None:
    assert unpacked(coding, []) == b""


@pytest.mark.parametrize("size", [2**18 - 1, 2**18, 2**18 + 1, 8 * MIB])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity"])
def test_just_as_large_as_is_allowed(coding: str, size: int) -> None:
    """Zeros, of which one packed byte becomes many: what is left within zlib isn't forgotten."""
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "identity": bytes}[coding](
        bytes(size)
    )
    assert unpacked(coding, [packed]) == bytes(size)
    assert unpacked(coding, [packed], size) == bytes(size)
    with pytest.raises(Failed, match="too_large"):
        unpacked(coding, [packed], size - 1)


def test_thousands_of_empty_members_are_refused() -> None:
    empty = gzip.compress(b"")
    assert unpacked("gzip", [empty * MEMBERS]) == b""
    with pytest.raises(Failed, match="bad_encoding"):
        unpacked("gzip", [empty * (MEMBERS + 1)])


def test_packed_bytes_that_unpack_to_nothing_are_bounded() -> None:
    """A gzip header whose file name never ends."""
    with pytest.raises(Failed, match="too_large"):
        unpacked("gzip", [b"\x1f\x8b\x08\x08\0\0\0\0\0\xff", *[b"x" * 65536] * 20], MIB)


@pytest.mark.parametrize("coding", ["gzip ", "GZIP", "identity, gzip", "gzip,identity", "none", "utf-8", "UTF-8"])
def test_what_servers_write(coding: str) -> None:
    packed = gzip.compress(b"hello") if "gzip" in coding.lower() else b"hello"
    assert unpacked(coding, [packed]) == b"hello"
