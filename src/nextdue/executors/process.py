"""Tasks in child processes: real time limits, and a death that takes nobody else with it.

A child is a fresh interpreter that finds the task by its name, runs one claim at a time and is reused. It may hold
some claims more than the one that it runs, so that short tasks needn't wait for the worker; whatever it hasn't
started can be taken back at any moment. All state is touched by the worker's thread alone: the threads that listen
to the children only hand over what they hear.
"""

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue

import msgspec

from nextdue.executors import declared
from nextdue.executors.context import Definition, Desk
from nextdue.executors.offspring import Offspring
from nextdue.executors.wire import Begun, Cancel, Ended, Extended, Ready, Said, Settles, Setup, ToWorker
from nextdue.records import Claim, Ending
from nextdue.task import failure_message

CHUNK = 32
"""The most claims that a child holds, the running one included."""
CANCEL_GRACE_S = 5
"""A task whose cancellation was asked for is killed after so long."""
START_LIMIT_S = 60
"""A child must be up within this, and import a task's modules within as long."""
DEATH_LIMIT_S = 5
"""A killed child that isn't dead after so long, as on a hung network disk, is given up."""
START_PAUSE_S = (1, 60)
"""First and longest pause after a child that couldn't be started."""


class ProcessExecutor:
    """ports.Executor by child processes. `wake` is called from a thread whenever a child has said something.

    desk: taken like those of other executors, and not used: a child writes by its own application's, at once.
    keep_open: the descriptors that every child holds until its end, asked for when one is started; the lock by
    which neighbours see that this worker lives is to be among them. max_tasks: a child is replaced after so many.
    """

    def __init__(
        self,
        size: int,
        definitions: Mapping[str, Definition],
        wake: Callable[[], None],
        desk: Desk | None = None,
        *,
        keep_open: Callable[[], Sequence[int]] = tuple,
        max_tasks: int | None = None,
    ) -> None:
        self._size, self._definitions, self._wake = size, definitions, wake
        self._keep_open, self._max_tasks = keep_open, max_tasks
        self._homes, self._databases = declared.homes(definitions), declared.databases(definitions)
        self._queue: deque[Claim] = deque()
        self._children: list[Offspring] = []
        self._leaving: list[Offspring] = []
        self._heard: SimpleQueue[tuple[Offspring, bytes]] = SimpleQueue()
        self._endings: list[Ending] = []
        self._said: dict[Claim, str] = {}
        self._cancelling: set[Claim] = set()
        self._dropped: set[Claim] = set()
        self._settling: set[Claim] = set()
        """Those that settle themselves just now, or have done so and go on."""
        self._failures = 0
        self._spawn_at = 0.0
        self._closed = False

    # what the worker asks

    def start(self, claim: Claim) -> None:
        self._queue.append(claim)
        if not any(self._give(child, 1) for child in self._idle()):
            self._populate()

    def finished(self) -> list[Ending]:
        self._listen()
        self._enforce(time.monotonic())
        self._share()
        self._populate()
        endings, self._endings = self._endings, []
        return endings

    def limit_ms(self) -> int | None:
        if self._endings:
            return 0
        moments = [moment for child in self._children + self._leaving for moment in self._moments(child)]
        if self._queue and self._idle():
            return 0
        if self._too_few():
            moments.append(self._spawn_at)
        nearest = min(moments, default=None)
        return None if nearest is None else max(0, int((nearest - time.monotonic()) * 1000) + 1)

    def cancel(self, claim: Claim) -> None:
        if claim in self._queue:
            self._queue.remove(claim)
            self._endings.append(Ending(claim, "cancelled"))
            self._wake()
            return
        child = self._holder(claim)
        if child is not None and claim not in self._cancelling:
            self._cancelling.add(claim)
            child.say(Cancel(claim.id, claim.token))
            if child.assigned[0] is claim:
                child.stop_at = time.monotonic() + CANCEL_GRACE_S
                self._wake()

    def progress(self) -> list[tuple[Claim, str]]:
        said, self._said = self._said, {}
        return list(said.items())

    def waiting(self, kind: str | None = None) -> int:
        behind = sum(len(child.assigned) - 1 for child in self._children if child.assigned)
        return max(0, len(self._queue) - self._free()) + behind

    def withdraw(self) -> list[Claim]:
        """A claim for which a child is on its way stays, as one for which a thread is."""
        claims = [claim for child in self._children for claim in child.take_back()]
        free = self._free()
        claims += list(self._queue)[free:]
        self._cancelling.difference_update(claims)
        self._queue = deque(list(self._queue)[:free])
        return claims

    def settled(self, claim: Claim) -> bool:
        self._listen()
        return claim in self._settling

    def lose(self, claim: Claim) -> None:
        """Others may run the task from now on, so it is killed; this returns when it is dead."""
        self._listen()
        child = self._holder(claim)
        if child is not None:
            self._queue.extendleft(reversed(child.take_back()))
        if claim in self._queue:
            self._queue.remove(claim)
        elif child is not None and claim in child.assigned:
            self._dropped.add(claim)
            child.kill()
            self._await([child], 1)

    def close(self) -> None:
        """Idle children end by themselves, the others are killed; no process is left behind."""
        self._closed = True
        self._queue.clear()
        children = self._children + self._leaving
        for child in children:
            if child in self._leaving:
                continue
            if child.assigned or not child.ready:
                child.kill()
            else:
                child.retire()
        self._await(children, 2)
        for child in children:
            child.kill()
        self._await(children, 1)

    # the children

    def _populate(self) -> None:
        """Start as many children as there are claims for which none is free or on its way."""
        while self._too_few():
            if time.monotonic() < self._spawn_at:
                return
            try:
                self._children.append(Offspring(self._keep_open(), self._tell))
            except (OSError, RuntimeError) as exc:  # no memory, no process or no thread more, no interpreter
                self._not_started(failure_message(exc))
                return

    def _too_few(self) -> bool:
        coming = sum(not child.ready for child in self._children)
        return len(self._queue) > coming and len(self._children) < self._size and not self._closed

    def _tell(self, child: Offspring, data: bytes) -> None:
        self._heard.put((child, data))
        if not self._closed:
            self._wake()

    def _share(self) -> None:
        """Idle children first; then those that work get some of what nobody else is free for."""
        idle = self._idle()
        for child in self._children if len(self._queue) < len(idle) else ():
            if len(child.assigned) > 1:
                self._queue.extend(child.take_back())
        for child in idle:
            self._give(child, 1)
        surplus = len(self._queue) - self._free()
        share = min(CHUNK, -(-surplus // self._size))
        for child in self._children:
            if surplus > 0 and 0 < len(child.assigned) <= CHUNK // 2:
                surplus -= self._give(child, min(share, surplus))
        self._retire()

    def _give(self, child: Offspring, most: int) -> int:
        """Give it up to `most` claims of the queue; answers how many."""
        idle = not child.assigned
        claims: list[Claim] = []
        while self._queue and len(claims) < most and self._may_have(child, self._queue[0], claims):
            claims.append(self._queue.popleft())
        if claims:
            child.give(claims)
            if idle:
                self._begin_next(child)
        return len(claims)

    def _may_have(self, child: Offspring, claim: Claim, others: Sequence[Claim]) -> bool:
        """Beside what it has, and these others."""
        if child.killed_at is not None or (self._max_tasks and child.given + len(others) >= self._max_tasks):
            return False
        return child.fits(claim, others, CHUNK)

    def _idle(self) -> list[Offspring]:
        return [child for child in self._children if not child.assigned and child.ready and child.killed_at is None]

    def _retire(self) -> None:
        for child in [c for c in self._children if c.given == self._max_tasks and not c.assigned]:
            self._children.remove(child)
            self._leaving.append(child)
            child.retire()

    def _free(self) -> int:
        """For how many claims of the queue a child is free or on its way."""
        return self._size - sum(bool(child.assigned) for child in self._children)

    def _holder(self, claim: Claim) -> Offspring | None:
        return next((child for child in self._children if claim in child.assigned), None)

    # what they say

    def _listen(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                self._hear(*self._heard.get_nowait())

    def _await(self, children: Sequence[Offspring], seconds: float) -> None:
        """Listen until these are dead and buried."""
        end = time.monotonic() + seconds
        with contextlib.suppress(Empty):
            while any(child in self._children or child in self._leaving for child in children):
                self._hear(*self._heard.get(timeout=max(0.001, end - time.monotonic())))

    def _hear(self, child: Offspring, data: bytes) -> None:
        if child not in self._children and child not in self._leaving:
            return
        if not data:
            self._bury(child)
        else:
            try:
                for message in child.lines.take(data):
                    self._take(child, message)
            except msgspec.MsgspecError:
                self._expel(child)

    def _expel(self, child: Offspring) -> None:
        """Its task wrote into the connection to the worker; nothing that it says can be believed any more."""
        ending = None
        if child.assigned:
            message = "it wrote into its process's connection to the worker; the process was killed"
            ending = Ending(child.assigned[0], "crashed", reason="child_died", message=message)
        child.kill(ending)

    def _take(self, child: Offspring, message: ToWorker) -> None:
        if isinstance(message, Ready):
            child.ready = True
            self._failures = 0
            child.say(Setup(sys.argv, sys.path, self._homes, self._databases))
            return
        if not child.assigned or (child.assigned[0].id, child.assigned[0].token) != (message.id, message.token):
            return
        claim = child.assigned[0]
        match message:
            case Begun():
                child.loaded.add(claim.name)
                self._begin_next(child)
            case Said():
                self._said[claim] = message.text
            case Extended():
                if child.ends_at is not None:
                    child.ends_at = max(child.ends_at, time.monotonic() + message.ms / 1000)
            case Settles():
                (self._settling.add if message.settles else self._settling.discard)(claim)
            case Ended():
                child.assigned.popleft()
                self._end(message.ending(claim))
                self._begin_next(child)

    def _begin_next(self, child: Offspring) -> None:
        """What is now the first of its claims is running: its time counts from here."""
        child.ends_at = child.stop_at = None
        if not child.assigned:
            return
        now = child.begun_at = time.monotonic()
        claim = child.assigned[0]
        limit_ms = self._definitions[claim.name].options.time_limit_ms
        if limit_ms is not None:
            child.ends_at = now + limit_ms / 1000 + (0 if claim.name in child.loaded else START_LIMIT_S)
        if claim in self._cancelling:
            child.stop_at = now + CANCEL_GRACE_S

    def _end(self, ending: Ending) -> None:
        self._cancelling.discard(ending.claim)
        self._settling.discard(ending.claim)
        self._said.pop(ending.claim, None)
        if ending.claim in self._dropped:
            self._dropped.discard(ending.claim)
        else:
            self._endings.append(ending)

    # limits and deaths

    def _moments(self, child: Offspring) -> list[float]:
        """When something must be done about it if nothing else happens."""
        if child.killed_at is not None:
            return [child.killed_at + DEATH_LIMIT_S]
        if not child.ready:
            return [child.born + START_LIMIT_S]
        return [moment for moment in (child.ends_at, child.stop_at) if moment is not None]

    def _enforce(self, now: float) -> None:
        for child in self._children + self._leaving:
            if not any(moment <= now for moment in self._moments(child)):
                continue
            if child.killed_at is not None:
                self._bury(child)
            elif not child.ready:
                child.kill()
            else:
                child.kill(self._sentence(child, now))

    def _sentence(self, child: Offspring, now: float) -> Ending:
        claim, ran_ms = child.assigned[0], int((now - child.begun_at) * 1000)
        if child.ends_at is not None and child.ends_at <= now:
            if claim.name not in child.loaded:
                message = f"its module wasn't imported within {START_LIMIT_S} s and its time limit; it was killed"
                return Ending(claim, "failed", ran_ms, reason="import", message=message)
            limit_ms = self._definitions[claim.name].options.time_limit_ms or 0
            message = f"it ran for over its time limit of {limit_ms / 1000:g} s; its process was killed"
            return Ending(claim, "failed", ran_ms, reason="time_limit", message=message)
        message = f"asked to stop, it ran on for {CANCEL_GRACE_S} s; its process was killed"
        return Ending(claim, "cancelled", ran_ms, reason="killed", message=message)

    def _bury(self, child: Offspring) -> None:
        """It has ended: say whose fault it was. Claims that it hadn't started go to others."""
        killed, sentence = child.killed_at is not None, child.sentence
        started, others, how = child.bury(1)
        how = how or "was killed, and the system doesn't let go of it"
        self._queue.extendleft(reversed(others))
        for claim in started:
            ran_ms = int((time.monotonic() - child.begun_at) * 1000)
            if sentence is not None and sentence.claim is claim:
                self._end(sentence)
            elif killed:
                self._end(Ending(claim, "released", ran_ms, message="its process was killed for another task's sake"))
            else:
                message = f"its child process {child.pid} {how}"
                self._end(Ending(claim, "crashed", ran_ms, reason="child_died", message=message))
        for group in (self._children, self._leaving):
            if child in group:
                group.remove(child)
        if not child.ready and not self._closed:
            self._not_started(
                f"the child process wasn't up within {START_LIMIT_S} s" if killed else f"it {how} before it was up"
            )

    def _not_started(self, why: str) -> None:
        """One task fails with the reason; the next child is tried after a pause that doubles."""
        self._spawn_at = time.monotonic() + min(START_PAUSE_S[0] * 2 ** min(self._failures, 10), START_PAUSE_S[1])
        self._failures += 1
        if self._queue:
            message = f"no child process could be started: {why}"
            self._endings.append(Ending(self._queue.popleft(), "failed", 0, reason="child_start", message=message))
