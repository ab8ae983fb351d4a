"""A child of the pool: reads documents from its standard input, writes records to its standard output."""

import ctypes
import os
import signal
import sys
from typing import IO

import msgspec

from signal_feeds.reasons import Failed, Reason
from signal_feeds.records import Offer, Parsed

MEMORY = 1536 * 1024 * 1024
"""Bytes of address space; a document that needs more is too large."""
_PR_SET_PDEATHSIG = 1
_HEAD = 4


class Asked(msgspec.Struct, array_like=True):
    """A document to be parsed; `now_ms` None: a page, whose feeds are asked for."""

    body: bytes
    content_type: str
    url: str
    now_ms: int | None = None
    most: int = 0


class Answered(msgspec.Struct, array_like=True):
    """What became of it."""

    parsed: Parsed | None = None
    offers: tuple[Offer, ...] = ()
    failed: Reason | None = None


def write_frame(target: IO[bytes], payload: bytes) -> None:
    """The length, and the payload. Raises OSError."""
    target.write(len(payload).to_bytes(_HEAD, "big"))
    target.write(payload)
    target.flush()


def read_frame(source: IO[bytes]) -> bytes | None:
    """The next payload; None at the end, be it in the middle of one. Raises OSError."""
    head = source.read(_HEAD)
    if len(head) < _HEAD:
        return None
    size = int.from_bytes(head, "big")
    payload = source.read(size)
    return payload if len(payload) == size else None


def main(parent: int) -> None:
    """Serve until the input ends. `parent`: the process id that this must be the child of."""
    _tie_to(parent)
    _bound_memory()
    source, target = sys.stdin.buffer, sys.stdout.buffer
    decoder, encoder = msgspec.msgpack.Decoder(Asked), msgspec.msgpack.Encoder()
    while (payload := read_frame(source)) is not None:
        write_frame(target, encoder.encode(_answer(decoder.decode(payload))))


def _answer(asked: Asked) -> Answered:
    from signal_feeds.parsing import offers, parse

    try:
        if asked.now_ms is None:
            return Answered(offers=offers(asked.body, asked.content_type, asked.url))
        parsed = parse(asked.body, asked.content_type, asked.url, now_ms=asked.now_ms, most=asked.most)
        return Answered(parsed)
    except Failed as failed:
        return Answered(failed=failed.reason)
    except MemoryError:
        return Answered(failed="too_large")
    except Exception:
        return Answered(failed="internal")


def _tie_to(parent: int) -> None:
    """End with the parent, and only with it: a Ctrl-C or a service manager's signal to all of a group is for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _bound_memory() -> None:
    if sys.platform == "linux":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard), hard))
