"""The worker: settle what finished, renew what runs, claim what is due, start it, and sleep exactly long enough.

`Worker` decides, `run` repeats. Neither reaches a clock, a thread or SQL: the store tells the time, the executor
runs the tasks and the alarm sleeps, so one thread can run many workers under a fake clock.
"""

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from nextdue import due
from nextdue.errors import BadDefinition, BadTime, StoreBusy, StoreError, StoreFull, StoreReadOnly
from nextdue.ports import Alarm, Executor, Store, Woken
from nextdue.records import Claim, Ending, Look, Outcome, Serving, Settlement, TickRequest
from nextdue.task import Options

PASSING = (StoreBusy, StoreFull, StoreReadOnly)
"""Troubles of the store that may end by themselves; a worker waits for that. Any other one ends it."""
TROUBLE_MS = (1_000, 60_000)
"""First and longest pause between two tries while the store is in trouble."""

UNKNOWN_MS = 60_000
"""When a claimed task that nobody here knows is due again."""
PROBES = 2
PROBE_MS = 50
"""How often and how soon dead neighbours are looked for again after the word of a death."""
DEATHS_EVERY = 100
"""And every so many ticks, for a worker in a flood never comes to sleep, where it would be told of a death."""


def servings(options: Mapping[str, Options]) -> dict[str, Serving]:
    """What the store must know of the names that are served."""
    return {n: Serving(o.lease_ms, o.run_in, o.limit, o.rate_ms, o.rates_ms or None) for n, o in options.items()}


Hook = Callable[[Sequence[Settlement]], None]
"""Told of each batch of settlements, once it is written."""


class Worker:
    """One worker: which claims it holds and what it does with them at each tick.

    `options` knows every name (aliases too) that it serves, `slots` how many of each kind of executor run at once;
    `random` spreads retries. `once` makes it claim only what was due at its start.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        options: Mapping[str, Options],
        *,
        slots: Mapping[str, int],
        random: Callable[[], float],
        queues: Sequence[str] | None = None,
        grace_ms: int = 20_000,
        once: bool = False,
        hook: Hook = lambda settlements: None,
    ) -> None:
        self.store, self.executor, self.options, self.slots, self.random = store, executor, options, slots, random
        self.grace_ms, self.hook = grace_ms, hook
        self.totals: Counter[str] = Counter()
        self.stopping = False
        self.ring = False
        """Whether the last tick let something become due, so that neighbours must hear of it."""
        self.running: dict[tuple[int, int], Claim] = {}
        self._since: dict[tuple[int, int], int] = {}
        self._outbox: list[Settlement] = []
        self._words: dict[tuple[int, int], str] = {}
        self._ticks = 0
        self._claimings: Counter[str] = Counter()
        self._passed: set[str] = set()
        self._doubt = False
        self._deaths = PROBES
        self._now = self._renewed = self._progress = 0
        self._alone_due: int | None = None
        self._finished: deque[tuple[int, str, int]] = deque()
        self._lately: Counter[str] = Counter()
        """The sums of `_finished`, by kind."""
        self._every = 0
        """The time between two renewals, ms: by what runs and what was claimed since the last one."""
        self._kinds = deque(slots)
        self._wanted: str | None = None
        self._asked: set[tuple[int, int]] = set()
        self._stalled: dict[str, int] = {}
        self._give_up_at: int | None = None
        self._hurry = self._alone_turn = False
        self.id = store.enlist()
        self.recovered = store.bury()
        store.serve(servings(options), queues)
        self._until: int | None = None
        if once:
            margin = due.crash_backoff_ms(1) * 2 if self.recovered else 0
            self._until = store.look(self.id).now_ms + margin

    # what the loop asks

    def tick(self) -> int | None:
        """Do all that is to be done now; answer in how many ms a tick is needed even if nothing falls due."""
        self._bury()
        self._collect()
        request = self._request()
        self._doubt = True  # until the answer is here, nobody knows what was claimed
        answer = self.store.tick(request)
        self._doubt = False
        if request.slots or request.ahead:
            (self._passed.add if answer.passed else self._passed.discard)(request.kind)
        self._saw(answer.now_ms)
        self._alone_due = answer.alone_due_ms
        del self._outbox[: len(request.settlements)]
        self._words.clear()
        self._settled(request.settlements, set(answer.lost))
        if answer.held is not None:
            self._renewed = self._now
            self._compare(answer.held - {(claim.id, claim.token) for claim in answer.claims})
            self._every = due.renew_every_ms({self.options[c.name].lease_ms for c in self.running.values()})
        elif not self.running:
            self._renewed = self._now
        if answer.claims and request.slots:
            self._progress = self._now  # not all are claimed ahead: threads are on their way to these
        for claim in answer.claims:
            self._take(claim)
        if answer.expired:
            self.totals["expired"] += answer.expired
        self._heed(answer.stops)
        self.ring = answer.ring
        if len(answer.claims) == request.slots + request.ahead and 0 < len(answer.claims) <= self._ahead(request.kind):
            return 0  # there is more, and these will be through by then: they run while the store is asked
        return self._limit_ms()

    def look_ms(self) -> int | None:
        """In how many ms this worker could claim something; None if it can't or nothing will be due."""
        if not self.has_room():
            if self.running:
                self._heed(self.store.stops(self.id))
            return None
        look = self.store.look(self.id)
        self._heed(look.stops)
        self._saw(look.now_ms)
        self._alone_due = look.alone_due_ms
        dues = [at for at in self._claimable(look) if at is not None]
        if self._until is not None:
            dues = [at for at in dues if at <= self._until]
        return min(dues) - look.now_ms if dues else None

    def has_room(self) -> bool:
        """Whether it would claim something if something were due."""
        return not self._closed() and any(map(self._free, self.slots))

    def bury(self) -> None:
        """Neighbours died: the next ticks give back what they held."""
        self._deaths = PROBES

    def stop(self, grace_ms: int | None = None) -> None:
        """Claim no more; give what runs `grace_ms`. Only sets flags, so that a signal handler may call it."""
        if grace_ms is not None:
            self.grace_ms = grace_ms
            self._hurry = True
        self.stopping = True

    def idle(self) -> bool:
        """Whether nothing runs here and nothing is left to be written."""
        return not self.running and not self._outbox

    def ended(self) -> bool:
        """Whether this worker is through: asked to stop, or --once and nothing of then is left."""
        if not self.idle():
            return False
        if self._until is not None and not self.stopping:
            wait = self.look_ms()
            return wait is None or self._now + wait > self._until
        return self.stopping

    def close(self) -> None:
        """Leave: what is still held is given back by neighbours, as from a dead worker."""
        self.executor.close()
        if self.idle():
            with contextlib.suppress(StoreError):  # then the neighbours find its lock free and nothing to give back
                self.store.resign(self.id)
        self.store.close()

    # the parts of a tick

    def _kind(self, claim: Claim) -> str:
        return self.options[claim.name].run_in

    def _free(self, kind: str) -> int:
        """How many more claims of this kind could be started."""
        if self._stalled and self._now < self._stalled.get(kind, 0):
            return 0
        if len(self.slots) == 1:
            return max(0, self.slots[kind] - len(self.running))
        return max(0, self.slots[kind] - sum(self._kind(claim) == kind for claim in self.running.values()))

    def _heed(self, stops: Sequence[tuple[int, int]]) -> None:
        """Tell the executor, once, of what was asked to stop."""
        for proof in stops:
            claim = self.running.get(proof)
            if claim is not None and proof not in self._asked:
                self._asked.add(proof)
                self.executor.cancel(claim)

    def _bury(self) -> None:
        """Give back what dead neighbours held. One probe may come before the system let go of the lock."""
        if self._deaths or self._ticks % DEATHS_EVERY == 0:
            found = self.store.bury()
            self.recovered += found
            self._deaths = 0 if found else max(0, self._deaths - 1)

    def _saw(self, now: int) -> None:
        if now < self._now:
            # The clock was set back: nothing may wait for an instant that was reached before.
            self._finished.clear()
            self._lately.clear()
            self._stalled.clear()
            self._progress = min(self._progress, now)
            if self._give_up_at is not None:
                self._give_up_at = min(self._give_up_at, now + self.grace_ms)
        self._now = now

    def _collect(self) -> None:
        endings = self.executor.finished()
        for ending in endings:
            self._end(ending)
        if endings:
            self._progress = self._now
            alone = len(self.slots) == 1
            kinds = dict.fromkeys(self.slots, len(endings)) if alone else Counter(self._kind(e.claim) for e in endings)
            for kind, count in kinds.items():
                self._finished.append((self._now, kind, count))
                self._lately[kind] += count
                self._stalled.pop(kind, None)
        while self._finished and self._finished[0][0] < self._now - due.AHEAD_WINDOW_MS:
            _, kind, count = self._finished.popleft()
            self._lately[kind] -= count
        # What --once gave back would be due after its start, so that nobody here would take it again.
        stale = self._until is None and self._now - self._progress >= due.AHEAD_PATIENCE_MS
        if self.executor.waiting() and (self.stopping or stale):
            for claim in self.executor.withdraw():
                # An event loop that is blocked, say: it gets no more for a while, unless it shows that it lives.
                self._stalled[self._kind(claim)] = self._now + due.STALL_MS
                self._end(Ending(claim, "released"))
        if self.stopping and self._give_up_at is not None and self._now >= self._give_up_at and not self._hurry:
            for claim in list(self.running.values()):
                self.executor.lose(claim)
                ran_ms = self._now - self._since.get((claim.id, claim.token), self._now)
                self._end(Ending(claim, "released", ran_ms=max(0, ran_ms), message="its worker was stopped"))

    def _end(self, ending: Ending) -> None:
        claim = ending.claim
        proof = claim.id, claim.token
        self._since.pop(proof, None)
        self._asked.discard(proof)
        if self.running.pop(proof, None) is None:
            return
        if ending.kind in ("finished", "rested"):  # by itself, in a transaction of its own
            outcome: Outcome = "done" if ending.kind == "finished" else "snoozed"
            self._settled([Settlement(claim.id, claim.token, outcome, ending.ran_ms, name=claim.name)], set())
        else:
            if ending.said is not None:
                self._words[proof] = ending.said
            self._outbox.append(due.settle(claim, ending, self.options[claim.name], self.random))

    def _request(self) -> TickRequest:
        self._ticks += 1
        for claim, said in self.executor.progress():
            self._words[claim.id, claim.token] = said
        open_ = not self._closed() and self._hold_ends() is None
        kind = self._turn()
        free = self._free(kind) if open_ else 0
        alone = open_ and not self.running and self._alone_due is not None and self._alone_due <= self._latest_due()
        alone = self._alone_turn = alone and not self._alone_turn  # never two in a row, or they would starve the others
        ahead = self._ahead(kind) if open_ and not alone else 0
        if kind not in self._passed:  # else what this one's turn was passed by, and still has it
            self._claimings[kind] += free + ahead > 0
        return TickRequest(
            worker=self.id,
            settlements=list(self._outbox),
            token=self.id << 32 | self._ticks & 0xFFFF_FFFF,  # 2**32 ticks on, no claim of then can be left
            slots=1 if alone else free,
            ahead=ahead,
            fair=self._claimings[kind] % due.FAIR_EVERY == 0,
            alone=alone,
            until_ms=self._until,
            renewed_ms=0 if self._doubt else self._renewed,
            renew_every_ms=1 if self._doubt else self._renew_every(),
            kind=kind,
            progress=[(*proof, said) for proof, said in self._words.items()],
        )

    def _ahead(self, kind: str) -> int:
        """How many more claims of this kind could be made beyond the free slots.

        None while a row waits that needs one: a flood of others would keep all of them from ever being free.
        """
        if kind in self._passed:
            return 0
        return due.ahead(self._lately[kind] - self.executor.waiting(kind), self._free(kind))

    def _turn(self) -> str:
        """Whose turn it is to claim: the kind that the last look saw due, else they take turns."""
        kind, self._wanted = self._wanted, None
        if len(self._kinds) == 1:
            return self._kinds[0]
        if kind is None:
            self._kinds.rotate()
            kind = next((k for k in self._kinds if self._free(k)), self._kinds[0])
        return kind

    def _latest_due(self) -> int:
        """Up to which due this worker claims."""
        return self._now if self._until is None else min(self._now, self._until)

    def _closed(self) -> bool:
        """Whether nothing may be claimed whatever falls due: stopping, or a task is being tried alone."""
        # Whatever is tried alone was claimed when nothing ran.
        return self.stopping or (len(self.running) == 1 and bool(next(iter(self.running.values())).alone))

    def _hold_ends(self) -> int | None:
        """Until when no claims are made so that this worker becomes idle for a task to be tried alone."""
        if not self.running or self._alone_due is None or self._alone_due > self._now:
            return None
        overdue = self._now - self._alone_due
        return self._now + due.ALONE_TURN_MS - overdue % due.ALONE_TURN_MS if due.holds_for_alone(overdue) else None

    def _settled(self, settlements: list[Settlement], lost: set[tuple[int, int]]) -> None:
        kept = [s for s in settlements if (s.id, s.token) not in lost] if lost else settlements
        for s in kept:
            self.totals[s.outcome] += 1
        if lost:
            self.totals["lost"] += len(lost)
        if kept:
            self.hook(kept)

    def _compare(self, held: set[tuple[int, int]]) -> None:
        # The latest first: those that aren't started yet must not get the slots of those that are given up.
        for proof in [proof for proof in reversed(self.running) if proof not in held]:
            if self.executor.settled(self.running[proof]):
                continue  # it is done, and does something more
            self.executor.lose(self.running.pop(proof))
            self._since.pop(proof, None)
            self._asked.discard(proof)
            self.totals["lost"] += 1
        # Claimed by a tick whose answer never reached us, so that nobody would ever start them.
        owed = {(s.id, s.token) for s in self._outbox}
        for id, token in held - self.running.keys() - owed:
            self._outbox.append(Settlement(id, token, "released", delay_ms=0))

    def _take(self, claim: Claim) -> None:
        verdict = due.on_claim(claim) if claim.occurrence is None else self._of_schedule(claim)
        if claim.name not in self.options:
            # Its lane was changed behind our back, as by a restore in place: somebody else's task.
            verdict = Settlement(claim.id, claim.token, "released", delay_ms=UNKNOWN_MS)
        if verdict is not None:
            self._outbox.append(verdict)
            return
        every = due.renew_every_ms((self.options[claim.name].lease_ms,))
        self._every = min(self._every, every) if self.running else every
        self.running[claim.id, claim.token] = claim
        self._since[claim.id, claim.token] = self._now
        self.executor.start(claim)

    def _of_schedule(self, claim: Claim) -> Settlement | None:
        """What is to be done with an occurrence instead of running it."""
        try:
            passed = due.pass_over(claim, self._now, self.random)
            verdict = due.on_claim(claim)
            return passed or (verdict and due.followed(claim, verdict, self.random))
        except (BadDefinition, BadTime) as exc:
            # Of a newer version, in a zone that this machine doesn't know, or broken by hand.
            why = f"its schedule can't be followed: {exc}"
            return Settlement(claim.id, claim.token, "released", delay_ms=UNKNOWN_MS, reason="schedule", message=why)

    def _renew_every(self) -> int:
        """How long what runs may go without a renewal. Until the next one it may be less, by what has ended since."""
        return self._every if self.running else 0

    def _limit_ms(self) -> int | None:
        if self._outbox:
            return 0
        limit = self.executor.limit_ms()
        limits = [] if limit is None else [limit]
        if self.running:
            limits.append(self._renewed + self._renew_every() + 1 - self._now)
        if self.executor.waiting() and self._until is None:
            limits.append(self._progress + due.AHEAD_PATIENCE_MS - self._now)
        if self.stopping and self.running:
            if self._give_up_at is None or self._hurry:
                self._hurry = False
                self._give_up_at = self._now + self.grace_ms
            limits.append(self._give_up_at - self._now)
        limits += [until - self._now for until in self._stalled.values() if until > self._now]
        if self._deaths:
            limits.append(PROBE_MS)
        return max(0, min(limits)) if limits else None

    def _claimable(self, look: Look) -> list[int | None]:
        """When rows become claimable here, given what runs: the same rule by which tick() claims."""
        held_until = self._hold_ends()
        if held_until is not None:
            return [held_until]
        dues = {kind: due for kind, due in look.dues.items() if self._free(kind)}
        self._wanted = min(dues, key=lambda kind: dues[kind], default=None)
        return [
            min(dues.values(), default=None),
            look.retry_at_ms,
            None if self.running else look.alone_due_ms,
        ]


def run(
    worker: Worker,
    alarm: Alarm,
    *,
    on_trouble: Callable[[StoreError | None], None] = lambda trouble: None,
) -> None:
    """Tick and sleep until the worker has ended. Raises StoreError when the store can't come back.

    `on_trouble` is told of each change: an error once when it begins, None when it is over.
    """
    trouble_ms, patience_ms = 0, worker.grace_ms
    while True:
        try:
            limit = worker.tick()
            if worker.ring:
                alarm.ring()
            if trouble_ms:
                on_trouble(None)
                trouble_ms = 0
            if worker.ended():
                return
            if limit == 0:
                continue
            woken = alarm.sleep(worker.look_ms, limit, full=not worker.has_room())
        except PASSING as trouble:
            if not trouble_ms:
                on_trouble(trouble)
            elif worker.stopping and patience_ms <= 0:
                raise
            trouble_ms = trouble_ms or TROUBLE_MS[0]
            woken = alarm.sleep(lambda: None, trouble_ms, full=True)
            if Woken.LIMIT in woken:
                patience_ms -= trouble_ms if worker.stopping else 0
                trouble_ms = min(trouble_ms * 2, TROUBLE_MS[1])
        if Woken.DEATH in woken:
            worker.bury()
