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

from nextdue.clock import Duration, duration_ms
from nextdue.errors import BadDefinition
from nextdue.executors import declared
from nextdue.executors.blame import printed
from nextdue.executors.call import call
from nextdue.executors.context import Context, Desk
from nextdue.executors.declared import Found
from nextdue.executors.wire import (
    PERMIT,
    Begun,
    Cancel,
    Ended,
    Extended,
    Lines,
    Ready,
    Run,
    Said,
    Settles,
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
STOPPING = (signal.SIGINT, signal.SIGTERM)
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
        self._setup: Setup | None = None
        self._known: dict[str, Found] = {}
        self._busy = False
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

    # running

    def _next(self, number: int) -> Claim:
        """The claim of this number; those before it were taken back, and word of that may be on its way still."""
        with self._arrived:
            while True:
                self._arrived.wait_for(lambda: self._inbox)
                self._busy = True
                found, claim = self._inbox.popleft()
                if found == number:
                    return claim

    def _run(self, claim: Claim) -> None:
        if self._over:
            os._exit(1)  # the worker died just now, so nobody holds the claim
        ended = self._to_its_end(claim)
        self._running = None
        self._cancelled.discard((claim.id, claim.token))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the user may have closed or replaced it
                stream.flush()
        self.tell(ended)
        self._busy = False

    def _to_its_end(self, claim: Claim) -> Ended:
        proof = claim.id, claim.token
        found = self._known.get(claim.name)
        if found is None:
            try:
                found = self._known[claim.name] = self._find(claim.name)
            except BaseException as exc:  # SystemExit too: a script that calls sys.exit() at its top level
                return Ended(*proof, "failed", 0, reason="import", message=failure_message(exc), trace=printed(exc))
            self.tell(Begun(*proof))
        context = _Context(self, claim, found.desk)
        self._running = claim, context
        if proof in self._cancelled:  # looked up only now, so that it is heard either here or by the context
            return Ended(*proof, "cancelled")
        ending = call(found.definition, claim, context)
        last = ending.reason, ending.message, ending.result, printed(ending.error), ending.said
        return Ended(*proof, ending.kind, ending.ran_ms, ending.delay_ms, *last)

    def _find(self, name: str) -> Found:
        assert self._setup is not None
        path = self._setup.databases.get(name)
        missing: Exception | None = None
        for home in self._setup.homes.get(name, []):
            declared.load(home)
            try:
                return declared.find(name, path)
            except BadDefinition as exc:
                missing = exc
        raise missing or BadDefinition(
            f"a child process can't find task {name}, whose function was typed into an interpreter: put it in a file"
        )

    # listening

    def _listen(self) -> None:
        lines: Lines[ToChild] = Lines(ToChild)
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while True:
            if not poll.poll(SAY_EVERY_MS if self._busy or self._inbox else None):
                self._pass_on()
                continue
            try:
                data = self._connection.recv(1 << 16)
            except OSError:  # reset: the worker was killed before it read what this child last said
                data = b""
            if not data:
                self._end()
                return
            for message in lines.take(data):
                self._hear(message)
            self._pass_on()

    def _end(self) -> None:
        """The worker is gone, or it needs this child no more."""
        self._over = True
        if self._busy:
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
            case Setup():
                self._setup = message
                sys.argv[:], sys.path[:] = message.argv, message.path


class _Context(Context):
    """The context in a child. By its desk it writes to the store itself; the time limit is the worker's to move."""

    __slots__ = ("_child",)

    def __init__(self, child: Child, claim: Claim, desk: Desk | None) -> None:
        super().__init__(claim, desk)
        self._child = child

    def extend(self, more: Duration) -> None:
        super().extend(more)
        self._child.tell(Extended(self._claim.id, self._claim.token, duration_ms(more, "extend's time")))

    def _tell_finish(self, state: str | None) -> None:
        super()._tell_finish(state)
        # Before the commit too: from then on the row isn't held any more, and the worker must not take that for a loss.
        self._child.tell(Settles(self._claim.id, self._claim.token, state in ("open", "settled")))


def main() -> None:
    """`child.main()` with the arguments parent's pid, connection, permits, descriptors to be kept open."""
    parent, connection, permits, *kept = map(int, sys.argv[2:])
    _die_with(parent)
    declared.become_child()
    mine = [connection, permits, *kept]
    for fd in mine:
        os.set_inheritable(fd, False)
    os.register_at_fork(
        before=partial(signal.pthread_sigmask, signal.SIG_BLOCK, STOPPING),
        after_in_parent=partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, STOPPING),
        after_in_child=partial(_leave_to_itself, mine),
    )
    for number in STOPPING:
        # The worker decides when a task has to end. No SIG_IGN, which programs started by a task would inherit.
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    Child(socket.socket(fileno=connection), permits).work()


def _leave_to_itself(descriptors: list[int]) -> None:
    """A process forked by a task must not keep its worker alive in the eyes of the neighbours, nor hide a death.

    And signals end it as usual: else multiprocessing could not terminate it, and would wait for ever. They were
    blocked for the moment of the fork, or one that comes so early would be swallowed by the handlers of the child.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    for fd in descriptors:
        with contextlib.suppress(OSError):
            os.close(fd)


def _die_with(parent: int) -> None:
    """Be killed when the worker dies (Linux; elsewhere the end of the connection tells), even if it just has."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
