"""A child process: runs the tasks that its worker sends, one at a time, and ends with it.

Its main thread takes a permit, runs the next claim and says how it ended. A second thread listens to the worker, so
that a cancellation is heard while a task runs. The worker may take back every permit that isn't taken yet.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from functools import partial
from itertools import count

from nextdue import errors
from nextdue.errors import NextdueError
from nextdue.executors import declared
from nextdue.executors.call import Context, Definition, call
from nextdue.executors.wire import (
    PERMIT,
    Begun,
    Cancel,
    Ended,
    Extend,
    Extended,
    Lines,
    Ready,
    Run,
    Said,
    Setup,
    TakenBack,
    ToChild,
    ToWorker,
    send,
)
from nextdue.records import Claim
from nextdue.task import failure_message

SAY_EVERY_MS = 1_000
"""How often what a running task says of its progress is passed on."""
_PR_SET_PDEATHSIG = 1


class Child:
    """The whole of a child process. `permits`: a pipe of the numbers of the claims that may be started."""

    def __init__(self, connection: socket.socket, permits: int) -> None:
        self._connection, self._permits = connection, permits
        self._sending = threading.Lock()
        self._inbox: deque[tuple[int, Claim]] = deque()
        self._arrived = threading.Condition()
        self._cancelled: set[tuple[int, int]] = set()
        self._running: tuple[Claim, Context] | None = None
        self._answers: dict[int, Extended] = {}
        self._numbers = count(1)
        self._setup: Setup | None = None
        self._known: dict[str, Definition] = {}
        self._over = False

    def work(self) -> None:
        """Until the worker closes the pipe of permits."""
        threading.Thread(target=self._listen, name="nextdue-listen", daemon=True).start()
        self.tell(Ready())
        poll = select.poll()
        poll.register(self._permits, select.POLLIN)
        while True:
            try:
                permit = os.read(self._permits, PERMIT.size)
            except BlockingIOError:
                poll.poll()
                continue
            if not permit or self._over:
                return
            self._run(self._next(*PERMIT.unpack(permit)))

    def tell(self, message: ToWorker) -> None:
        """Say something to the worker; without one there is nothing left to do."""
        try:
            with self._sending:
                send(self._connection, message)
        except OSError:
            os._exit(1)

    def ask(self, claim: Claim, ms: int) -> Extended:
        """Ask the worker for more time, and wait for its answer."""
        number = next(self._numbers)
        self.tell(Extend(number, claim.id, claim.token, ms))
        with self._arrived:
            self._arrived.wait_for(lambda: number in self._answers)
            return self._answers.pop(number)

    # running

    def _next(self, number: int) -> Claim:
        """The claim of this number; those before it were taken back, and word of that may be on its way still."""
        with self._arrived:
            while True:
                self._arrived.wait_for(lambda: self._inbox)
                found, claim = self._inbox.popleft()
                if found == number:
                    return claim

    def _run(self, claim: Claim) -> None:
        context = Context(claim, _Desk(self))
        self._running = claim, context
        if (claim.id, claim.token) in self._cancelled:
            ended = Ended(claim.id, claim.token, "cancelled")
        else:
            ended = self._to_its_end(claim, context)
        self._running = None
        self._cancelled.discard((claim.id, claim.token))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the user may have closed or replaced it
                stream.flush()
        self.tell(ended)

    def _to_its_end(self, claim: Claim, context: Context) -> Ended:
        proof = claim.id, claim.token
        definition = self._known.get(claim.name)
        if definition is None:
            try:
                definition = self._known[claim.name] = self._find(claim.name)
            except BaseException as exc:  # SystemExit too: a script that calls sys.exit() at its top level
                return Ended(*proof, "failed", 0, reason="import", message=failure_message(exc))
            self.tell(Begun(*proof))
        ending = call(definition, claim, context)
        return Ended(*proof, ending.kind, ending.ran_ms, ending.delay_ms, ending.reason, ending.message, ending.result)

    def _find(self, name: str) -> Definition:
        assert self._setup is not None
        path = self._setup.databases.get(name)
        missing: Exception | None = None
        for home in self._setup.homes.get(name, []):
            declared.load(home)
            try:
                return declared.find(name, path)
            except errors.BadDefinition as exc:
                missing = exc
        raise missing or errors.BadDefinition(
            f"a child process can't find task {name}, whose function was typed into an interpreter: put it in a file"
        )

    # listening

    def _listen(self) -> None:
        lines: Lines[ToChild] = Lines(ToChild)
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while True:
            busy = self._running is not None or self._inbox
            if not poll.poll(SAY_EVERY_MS if busy else None):
                self._pass_on()
                continue
            data = self._connection.recv(1 << 16)
            if not data:
                self._end()
                return
            for message in lines.take(data):
                self._hear(message)
            self._pass_on()

    def _end(self) -> None:
        """The worker is gone, or it needs this child no more."""
        self._over = True
        if self._running is not None:
            os._exit(1)

    def _pass_on(self) -> None:
        running = self._running
        text = None if running is None else running[1].take_progress()
        if running is not None and text is not None:
            self.tell(Said(running[0].id, running[0].token, text))

    def _hear(self, message: ToChild) -> None:
        match message:
            case Run():
                with self._arrived:
                    self._inbox.extend(enumerate(message.claims, message.first))
                    self._arrived.notify_all()
            case TakenBack():
                with self._arrived:
                    while self._inbox and self._inbox[-1][0] >= message.first:
                        self._inbox.pop()
            case Cancel():
                self._cancelled.add((message.id, message.token))
                running = self._running
                if running is not None and (running[0].id, running[0].token) == (message.id, message.token):
                    running[1].ask_to_stop()
            case Extended():
                with self._arrived:
                    self._answers[message.number] = message
                    self._arrived.notify_all()
            case Setup():
                self._setup = message
                sys.argv[:], sys.path[:] = message.argv, message.path


class _Desk:
    """call.Desk through the worker: it holds the claim, so it alone writes to the row."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def extend(self, claim: Claim, ms: int) -> None:
        answer = self._child.ask(claim, ms)
        if answer.error is not None:
            kind = getattr(errors, answer.error, NextdueError)
            raise kind(answer.message)


def main() -> None:
    """`child.main()` with the arguments parent's pid, connection, permits, descriptors to be kept open."""
    parent, connection, permits, *kept = map(int, sys.argv[2:])
    _die_with(parent)
    declared.become_child()
    mine = [connection, permits, *kept]
    for fd in mine:
        os.set_inheritable(fd, False)
    # A process forked by a task must not keep its worker alive in the eyes of the neighbours, nor hide a death.
    os.register_at_fork(after_in_child=partial(_close, mine))
    for number in (signal.SIGINT, signal.SIGTERM):
        # The worker decides when a task has to end. No SIG_IGN, which programs started by a task would inherit.
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    Child(socket.socket(fileno=connection), permits).work()


def _close(descriptors: list[int]) -> None:
    for fd in descriptors:
        with contextlib.suppress(OSError):
            os.close(fd)


def _die_with(parent: int) -> None:
    """Be killed when the worker dies (Linux; elsewhere the end of the connection tells), even if it just has."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
