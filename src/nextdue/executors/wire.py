"""What a worker and its child processes tell each other: lines of JSON over a socket, never pickles."""

import socket
import struct
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from nextdue.executors.blame import InChild
from nextdue.executors.declared import Home
from nextdue.records import Claim, Ending, Kind

M = TypeVar("M")


class Setup(msgspec.Struct, frozen=True, tag="setup", tag_field="is"):
    """The first word to a child: what its interpreter has to be told, and where each task is declared."""

    argv: list[str]
    path: list[str]
    homes: dict[str, list[Home]]
    databases: dict[str, str | None]


class Run(msgspec.Struct, frozen=True, tag="run", tag_field="is"):
    """Claims to be run in this order, each when its permit is taken; they are numbered from `first`."""

    first: int
    claims: list[Claim]


class TakenBack(msgspec.Struct, frozen=True, tag="taken_back", tag_field="is"):
    """Forget the claims from this number on: their permits were taken back."""

    first: int


class Cancel(msgspec.Struct, frozen=True, tag="cancel", tag_field="is"):
    """The cancellation of this claim was asked for."""

    id: int
    token: int


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="is"):
    """The child is up."""


class Begun(msgspec.Struct, frozen=True, tag="begun", tag_field="is"):
    """This task's modules are imported; only now its time limit counts."""

    id: int
    token: int


class Ended(msgspec.Struct, frozen=True, tag="ended", tag_field="is", omit_defaults=True):
    """An Ending whose claim the worker knows."""

    id: int
    token: int
    kind: Kind
    ran_ms: int | None = None
    delay_ms: int | None = None
    reason: str | None = None
    message: str | None = None
    result: str | None = None
    trace: str | None = None
    """The printed traceback."""
    said: str | None = None

    def ending(self, claim: Claim) -> Ending:
        """The same for a worker."""
        error = None if self.trace is None else InChild(self.trace)
        return Ending(
            claim, self.kind, self.ran_ms, self.delay_ms, self.reason, self.message, self.result, error, self.said
        )


class Said(msgspec.Struct, frozen=True, tag="said", tag_field="is"):
    """What the running task says of itself."""

    id: int
    token: int
    text: str


class Extended(msgspec.Struct, frozen=True, tag="extended", tag_field="is"):
    """The running task has got more time from the store: its time limit moves too."""

    id: int
    token: int
    ms: int


class Settles(msgspec.Struct, frozen=True, tag="settles", tag_field="is"):
    """The running task is about to settle itself, or did; or (not `settles`) it doesn't, for now."""

    id: int
    token: int
    settles: bool


PERMIT = struct.Struct("=Q")
"""A permit to start the claim of this number, in a pipe that both sides read: whoever reads it has the claim."""
ToChild = Setup | Run | TakenBack | Cancel
ToWorker = Ready | Begun | Ended | Said | Extended | Settles

_encoder = msgspec.json.Encoder()


def send(connection: socket.socket, *messages: ToChild | ToWorker) -> None:
    """Send whole messages. Raises OSError."""
    connection.sendall(_encoder.encode_lines(messages))


class Lines(Generic[M]):
    """Puts together what a socket delivers in pieces."""

    def __init__(self, union: Any) -> None:
        self._decoder: msgspec.json.Decoder[M] = msgspec.json.Decoder(union)
        self._rest = bytearray()

    def take(self, data: bytes) -> Sequence[M]:
        """The messages that are complete with this piece."""
        self._rest += data
        end = self._rest.rfind(b"\n")
        if end < 0:
            return ()
        whole, self._rest = bytes(self._rest[: end + 1]), self._rest[end + 1 :]
        return [self._decoder.decode(line) for line in whole.splitlines()]
