"""Processes of the bench: started here, ended here, each by its own pid."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from bench import records
from bench.rooms import TOP, Room

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)

# Each in its default settings.
WORKERS = {
    "nextdue": ("-m", "nextdue", "worker", "bench.apps.with_nextdue:nd"),
    "nextdue-threads": ("-m", "nextdue", "worker", "bench.apps.kinds:threads"),
    "nextdue-loop": ("-m", "nextdue", "worker", "bench.apps.kinds:loop"),
    "nextdue-processes": ("-m", "nextdue", "worker", "bench.apps.kinds:processes"),
    "huey": ("-m", "huey.bin.huey_consumer", "bench.apps.with_huey.huey"),
}


class ProcessFailed(RuntimeError):
    """A process ended or stayed silent where it should not have; the message holds the end of its log."""


def _die_with_parent() -> None:
    # Runs in the child between fork and exec: a bench that is killed leaves no worker behind.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(arguments: Sequence[str], room: Room, log: str, pipes: bool = False) -> subprocess.Popen[bytes]:
    """Start this Python with `arguments`; what it says goes to the room's log."""
    pipe = subprocess.PIPE if pipes else None
    with room.log(log).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=TOP,
            env=room.environment(),
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or output,
            stderr=output,
            bufsize=0,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - the bench has no threads
        )


def stop(process: subprocess.Popen[bytes], grace_s: float = 5.0) -> None:
    """SIGTERM, after the grace SIGKILL; returns when the process is gone."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


@contextmanager
def working(room: Room, side: str, timeout_s: float = 20.0) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of `side` that has already run a READY task, which somebody must have put before."""
    name = f"worker-{side}"
    before = records.count(room.records_path)
    process = start(WORKERS[side], room, name)
    try:
        _wait_until(lambda: records.count(room.records_path) > before, process, room, name, timeout_s)
        yield process
        if process.poll() is not None:
            raise ProcessFailed(_why(f"the worker ended with {process.returncode}", room, name))
    finally:
        stop(process)


def _wait_until(
    done: Callable[[], bool], process: subprocess.Popen[bytes], room: Room, name: str, timeout_s: float
) -> None:
    end = time.monotonic() + timeout_s
    while not done():
        if process.poll() is not None:
            raise ProcessFailed(_why(f"{name} ended with {process.returncode}", room, name))
        if time.monotonic() > end:
            raise ProcessFailed(_why(f"{name} ran no task within {timeout_s:g} s", room, name))
        time.sleep(0.005)


def _why(what: str, room: Room, name: str) -> str:
    tail = room.log(name).read_text(errors="replace").strip().splitlines()[-12:]
    return "\n    ".join([what, *tail])


class Role:
    """One part of a measurement in a process of its own: prepares, waits for go(), answers with a dict."""

    def __init__(self, room: Room, name: str, side: str, **options: Any) -> None:
        self._room, self._log = room, f"role-{name}-{side}-{time.monotonic_ns()}"
        arguments = ["-m", "bench.roles", name, side, json.dumps(options)]
        self._process = start(arguments, room, self._log, pipes=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Role:
        try:
            self._line(30.0)
        except BaseException:
            stop(self._process)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        stop(self._process)

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    def result(self, timeout_s: float = 90.0) -> dict[str, Any]:
        answer = json.loads(self._line(timeout_s))
        assert isinstance(answer, dict)
        return answer

    def _line(self, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        line = _read_line(self._process.stdout, timeout_s)
        if not line.endswith(b"\n"):
            what = f"gave no answer within {timeout_s:g} s, or ended"
            raise ProcessFailed(_why(f"{self._log} {what}", self._room, self._log))
        return line


def _read_line(stream: IO[bytes], timeout_s: float) -> bytes:
    """One line from an unbuffered pipe; without its line end where the time or the pipe ended first."""
    end, line = time.monotonic() + timeout_s, b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(stream.fileno(), 1 << 16) if ready else b""
        if not piece:
            break
        line += piece
    return line


def call(room: Room, name: str, side: str, timeout_s: float = 90.0, **options: Any) -> dict[str, Any]:
    """Play one role from start to answer."""
    with Role(room, name, side, **options) as role:
        role.go()
        return role.result(timeout_s)
