"""One child process as its worker sees it: started, spoken to, given claims and permits, killed, buried."""

import contextlib
import multiprocessing.spawn
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from nextdue.executors.wire import PERMIT, Lines, Run, TakenBack, ToChild, ToWorker, send
from nextdue.records import Claim, Ending

ROOM = 1 << 16
"""The most arguments (characters) under way to a busy child: if it holds its interpreter, its socket must take them."""
SEND_LIMIT_S = 1
"""A child that takes nothing for so long is killed."""
_ROOT = str(Path(__file__).parents[2])
_START = "import sys; sys.path.insert(0, sys.argv[1]); from nextdue.executors.child import main; main()"

_living: "weakref.WeakSet[Offspring]" = weakref.WeakSet()


def _let_go_in_fork() -> None:
    """A forked copy of the worker must not keep a connection open that its children wait on."""
    for child in _living:
        child.close_descriptors()


os.register_at_fork(after_in_child=_let_go_in_fork)


class Offspring:
    """A running child. Made, and used, by the worker's thread alone: on Linux it dies with the thread that made it.

    `heard` is told from a thread of its own: pieces of what the child says, and b"" when it has ended. Raises OSError
    and RuntimeError if there can be no process or no thread more.
    """

    def __init__(self, keep_open: Sequence[int], heard: Callable[["Offspring", bytes], None]) -> None:
        self.assigned: deque[Claim] = deque()
        """The claims that it has; the first of them is running, or about to."""
        self.lines: Lines[ToWorker] = Lines(ToWorker)
        self.loaded: set[str] = set()
        """The tasks whose modules it has imported."""
        self.born = time.monotonic()
        self.ready = False
        self.given = self._number = 0
        self.begun_at = 0.0
        self.ends_at: float | None = None
        """When the time limit of what it runs passes; monotonic seconds."""
        self.stop_at: float | None = None
        """When what it runs, whose cancellation was asked for, is to be killed."""
        self.sentence: Ending | None = None
        """Killed for this claim, which ended so."""
        self.killed_at: float | None = None
        self._permits = os.pipe()
        self._connection, theirs = socket.socketpair()
        try:
            os.set_blocking(self._permits[0], False)
            limit = struct.pack("ll", SEND_LIMIT_S, 0)
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._process = _spawn([theirs.fileno(), self._permits[0], *keep_open])
        except BaseException:
            self.close_descriptors()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        _living.add(self)
        listener = threading.Thread(target=self._listen, args=(heard,), name=f"nextdue-child-{self.pid}", daemon=True)
        try:
            listener.start()
        except RuntimeError:
            self.kill()
            self.bury(1)
            raise

    def _listen(self, heard: Callable[["Offspring", bytes], None]) -> None:
        data = b"-"
        while data:
            try:
                data = self._connection.recv(1 << 18)
            except OSError:
                data = b""
            heard(self, data)

    # giving and taking

    def say(self, *messages: ToChild) -> None:
        """Tell it something. One that lives and takes nothing is killed; of one that is dead the end will be heard."""
        try:
            send(self._connection, *messages)
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError:
            self.kill()

    def fits(self, claim: Claim, others: Sequence[Claim], most: int) -> bool:
        """Whether it may have this claim beside those that it has and is about to get, `most` in all.

        A large one it gets only when it has none.
        """
        held = [*self.assigned, *others]
        if len(held) >= most:
            return False
        return not held or sum(len(c.args) for c in held) + len(claim.args) <= ROOM

    def give(self, claims: Sequence[Claim]) -> None:
        """Hand over claims: first what they are, then as many permits to start one."""
        first = self._number + 1
        self._number += len(claims)
        self.assigned.extend(claims)
        self.given += len(claims)
        self.say(Run(first, list(claims)))
        os.write(self._permits[1], b"".join(PERMIT.pack(first + n) for n in range(len(claims))))

    def take_back(self) -> list[Claim]:
        """Take back what it hasn't started: whoever reads a permit from the pipe, it or this, has the claim."""
        permits = self._unused_permits()
        if not permits:
            return []
        self.given -= len(permits)
        self.say(TakenBack(permits[0]))
        return [self.assigned.pop() for _ in permits][::-1]

    def _unused_permits(self) -> list[int]:
        try:
            return [number for (number,) in PERMIT.iter_unpack(os.read(self._permits[0], 1 << 16))]
        except BlockingIOError:
            return []

    # its end

    def retire(self) -> None:
        """It has nothing to do and gets nothing more: it ends by itself."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        os.close(self._permits[1])
        self._permits = (self._permits[0], -1)

    def kill(self, sentence: Ending | None = None) -> None:
        """Kill it and all that it started in its process group. Its end will be heard as any other."""
        if self.killed_at is None:
            self.sentence, self.killed_at = sentence, time.monotonic()
        self._kill_group()

    def _kill_group(self) -> None:
        if self._process.returncode is None:  # not reaped, so that the number is still its own
            for kill in (os.killpg, os.kill):  # it may have left its group
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)

    def bury(self, seconds: float) -> tuple[list[Claim], list[Claim], str | None]:
        """After its end was heard: the claims it had started, those it hadn't, and how it ended; no zombie is left.

        How is None if the system doesn't let go of it within so many seconds.
        """
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # ends the listening to one that doesn't die
        unused = self._unused_permits()
        claims = list(self.assigned)
        self.assigned.clear()
        self._end_group()
        how = self._wait(seconds)
        _living.discard(self)
        self.close_descriptors()
        cut = len(claims) - len(unused)
        return claims[:cut], claims[cut:], how

    def _end_group(self) -> None:
        """End what it has left behind in its process group, while its number can't be anybody else's yet."""
        with contextlib.suppress(ChildProcessError):
            end = time.monotonic() + 0.1
            while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                if time.monotonic() > end:
                    break  # it has closed its end, and lives
                time.sleep(0.0005)
        self._kill_group()

    def _wait(self, seconds: float) -> str | None:
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    def close_descriptors(self) -> None:
        """Let go of everything but the process itself."""
        self._connection.close()
        for fd in self._permits:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._permits = (-1, -1)


def _spawn(descriptors: list[int]) -> "subprocess.Popen[bytes]":
    """A fresh interpreter: forking this process, which has threads, could leave locks held for ever."""
    python = os.fsdecode(multiprocessing.spawn.get_executable() or sys.executable)
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    words = [_ROOT, str(os.getpid()), *map(str, descriptors)]
    # Until it can say what becomes of them, these signals must not end it: Ctrl-C is sent to all.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return subprocess.Popen(
            [python, *flags, "-P", "-c", _START, *words],
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
            process_group=0,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
