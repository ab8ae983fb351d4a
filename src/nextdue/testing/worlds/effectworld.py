"""Worlds with effects: steps, waits, and tasks that come after others; people send events, retry and decide."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from nextdue.desk import Desk
from nextdue.errors import BadArguments
from nextdue.records import Put
from nextdue.sqlite import care, marks
from nextdue.sqlite.store import SqliteStore
from nextdue.testing.crashes import Killed
from nextdue.testing.worlds.crew import Role
from nextdue.testing.worlds.effectjudge import EffectJudge
from nextdue.testing.worlds.faults import Deaths, Foreign, Gate
from nextdue.testing.worlds.judge import MODES, Broken
from nextdue.testing.worlds.plays import EVENTS, Outside, Play, written
from nextdue.testing.worlds.stage import EffectCrew
from nextdue.testing.worlds.world import QUEUES, Weather, World

NAMES = ("mail", "export", "feed")
KEPT_MS = 3_650 * 86_400_000
HELP_MS = 5_000
OUTCOMES = (["done"], ["done"], ["finished"], ["finished"], ["failed", "done"], ["snoozed", "finished"], ["gave_up"])


def weather(random: Random) -> Weather:
    """Weather for minutes, in which nothing is poisonous."""
    w = Weather.of(random)
    crash = random.choice((0.0, 0.02, 0.06, 0.12))
    return replace(
        w,
        poisons=0,
        crash=crash,
        puts=random.randrange(25, 60),
        names=NAMES,
        keys=random.choice((1, 3)),
        rests=min(w.rests, 1),
    )


class EffectWorld(World):
    """A world in which tasks do something outside, wait for each other and for events."""

    judge_of, crew_of = EffectJudge, EffectCrew
    judge: EffectJudge
    most = 12_000
    accounts = ("audit", "effects")

    def __init__(self, seed: int, folder: Any, mutate: Any = lambda store: None, **more: Any) -> None:
        more["weather"] = more.get("weather") or weather(Random(seed * 5 + 2))
        super().__init__(seed, folder, mutate, **more)
        self.deaths = Deaths(Random(seed * 7 + 3), self.weather.crash * 2)
        self._foreign = Foreign.to(self.path, self.deaths)
        self.outside: Outside = self.judge.outside
        self.judge.jobs = self.jobs
        for c in self.crew:
            assert isinstance(c, EffectCrew)
            c.world = self
        self._open_desk()

    def _roles(self) -> list[Role]:
        roles = [Role(NAMES, None, self.random.choice((1, 2, 4)))]
        for _ in range(self.random.choice((0, 1, 1, 2))):
            names = tuple(self.random.sample(NAMES, self.random.randrange(1, 4)))
            roles.append(Role(names, None, self.random.choice((1, 2, 4))))
        return roles

    def _job(self, name: str, queue: str) -> Play:
        number = len(self.jobs)
        play = Play(number, name, queue, list(self.random.choice(OUTCOMES)), self.random.choice((0, 3, 300, 4_000)))
        play.acts = written(self.random, number)
        if number % self.weather.long_every == 3 % self.weather.long_every:
            play.acts = [act._replace(ms=act.ms * 20) for act in play.acts]
        self.jobs[number] = play
        return play

    # people and programs

    def _open_desk(self) -> None:
        self.gate: Gate | None = None
        self.desk = Desk(self.path, self._desk_store)
        vars(self.desk.connections).update(ring=self._ring)
        vars(self.desk).update(_warned=True)  # of what Foreign does

    def _desk_store(self) -> SqliteStore:
        store = self._store()
        self.gate = Gate.of(store, self.deaths)
        return store

    def _on_put(self) -> None:
        verb = self.random.choice(
            (self._put_after,) * 6
            + (self._send,) * 4
            + (self._put_same,) * (12 if self.weather.keys == 1 else 4)
            + (self._retry, self._decide) * 2
            + (self._cancel_any,)
            + (super()._on_put,) * 3
        )
        if verb == super()._on_put or not self._locked_for():
            verb()

    def _within(self, verb: str, do: Callable[[Any], Any]) -> Any:
        """In a transaction of a program, as _by."""

        def in_transaction() -> Any:
            with self.foreign() if foreign else self.desk.transaction() as tx:
                return do(tx)

        foreign = self.random.random() < 0.3
        answer = self._by(verb, in_transaction)
        if foreign:
            self._ring()  # nobody does, but the commit is seen
        return answer

    @contextmanager
    def foreign(self) -> Iterator[Foreign]:
        """A transaction on a connection of a program's own."""
        if self._foreign.gate.sprung:
            self._foreign.close()
            self._foreign = Foreign.to(self.path, self.deaths)
        try:
            self._foreign.execute("BEGIN")
            yield self._foreign
            self._foreign.execute("COMMIT")
        finally:
            self._foreign.rollback()

    def _by_hand(self, verb: str, do: Callable[[SqliteStore], Any]) -> Any:
        """What a person does by a program, as _by."""

        def at_once() -> Any:
            with self.desk.connections.use() as store:
                return do(store)

        answer = self._by(verb, at_once)
        self._ring()
        return answer

    def _by(self, verb: str, do: Callable[[], Any]) -> Any:
        """By a program each of whose statements may be its last. Answers None if one was."""
        try:
            return do()
        except BadArguments:
            return None  # it would wait for itself
        except Killed:
            self.met["crashes"] += 1
            if self.gate is not None:
                self.gate.close()
            self._open_desk()
            self._ring()  # the commit, if there was one, is seen
            return None
        finally:
            if verb != "send":  # of which the judge hears first that it was
                self.judge.observe(verb)

    def _put_after(self) -> None:
        """One or some, after one or some of the latest."""
        known = sorted(self.judge.lives | self.judge.ended | dict.fromkeys(self.acknowledged.values(), ""))[-12:]
        if not known:
            if self._store_all([self._plain()]):
                self._ring()
            return
        after = tuple(self.random.sample(known, min(len(known), self.random.choice((1, 1, 2, 3)))))
        put = self._plain()._replace(after=after, if_dead=self.random.choice(("hold", "cancel")))
        if self.random.random() < (0.5 if self.weather.keys == 1 else 0.2):
            put = put._replace(name="mail", key=self._key(), remember_ms=5_000)
        self.judge.asked = [put]
        stored = self._within("put", lambda tx: self.desk.put(tx, put))
        self.judge.asked = []
        if stored is not None and stored.created:
            self.acknowledged[self.number(put)] = stored.id

    def _put_same(self) -> None:
        """Under one of few keys, in any mode; at times with the arguments of before."""
        put = self._plain()._replace(name="mail", key=self._key(), remember_ms=5_000)
        before = [p.args for p in self.judge.keyed if p.key == put.key]
        if before and self.random.random() < 0.4:
            put = put._replace(args=before[-1])
        put = put._replace(mode=self.random.choice(MODES))
        self.judge.keyed.append(put)
        if self.random.random() < 0.5:
            if self._store_all([put]):
                self._ring()
            self.judge.asked = []
            return
        self.judge.asked = [put]
        stored = self._within("put", lambda tx: self.desk.put(tx, put))
        self.judge.asked = []
        if stored is not None and stored.created:
            self.acknowledged[self.number(put)] = stored.id

    def _key(self) -> str:
        return f"m{self.random.randrange(self.weather.keys)}"

    def number(self, put: Put) -> int:
        """Which job it asks for."""
        return int(put.args[1:-1])

    def _plain(self) -> Put:
        name, queue = self.random.choice(NAMES), self.random.choice(QUEUES)
        delay = self.random.choice((0, 0, 700, 20_000))
        return Put(name, queue, 0, f"[{self._job(name, queue).number}]", delay_ms=delay)

    def _send(self) -> None:
        """An event: one of those that many wait for, or what one waits for."""
        awaited = self._awaited()
        self._send_one(self.random.choice((*EVENTS, *awaited, *awaited)))

    def _awaited(self) -> list[str]:
        return sorted(str(of) for causes in self.judge.waits.values() for kind, of in causes if kind == "event")

    def _send_one(self, event: str) -> None:
        data = len(self.judge.sent)
        self._within("send", lambda tx: self.desk.send(tx, event, str(data), KEPT_MS))
        found = self.judge.connection.execute("SELECT data FROM nextdue_event WHERE name = ?", (event,)).fetchone()
        if found is not None and event not in self.judge.sent:
            self.judge.was_sent(event, int(found[0]))
        self.judge.observe("send")

    def _retry(self) -> None:
        """A person starts anew what is dead, held or cancelled."""
        known = self._ids("rest IN ('dead', 'held', 'cancelled') OR attempts > 0")
        if known:
            self._retry_one(self.random.choice(known))

    def _retry_one(self, id: int) -> None:
        self._by_hand("retry", lambda store: care.apply(store, "retry", [id]))

    def _cancel_any(self) -> None:
        """A person cancels what waits for others, or what has a key."""
        if known := self._ids("rest = 'waits' OR (key IS NOT NULL AND rest IS NULL)"):
            self._cancel_one(self.random.choice(known))

    def _cancel_one(self, id: int) -> None:
        self._by_hand("cancel", lambda store: store.cancel(id))

    def _ids(self, where: str) -> list[int]:
        query = f"SELECT id FROM nextdue_task WHERE {where} ORDER BY id"
        return [id for (id,) in self.judge.connection.execute(query).fetchall()]

    def _decide(self) -> None:
        """A person looks at what is held in doubt, sees what has happened outside, and says it."""
        for id in self._ids("rest = 'held' AND reason = 'in_doubt'"):
            doubts = marks.doubts(self.callers, id)
            if not any(doubt.how == "hold" for doubt in doubts):
                raise Broken(f"task {id} is held in doubt, and none is listed: {doubts}")
            if any(claim.id == id for c in self.crew if c.alive for claim in c.executor.active):
                continue  # somebody may still be about to do it
            for doubt in doubts:
                made = self.outside.effects[(id, self.judge.lives[id]), doubt.label]
                result = str(made[-1]) if made else None
                self._resolve(id, doubt.label, happened=bool(made), result=result)

    def _resolve(self, id: int, label: str, **what: Any) -> None:
        self._by_hand("resolve", lambda store: marks.resolve(store, id, label, **what))

    # the end

    def _on_calm(self) -> None:
        super()._on_calm()
        self.at(1, "help")

    def _on_help(self, who: int) -> None:
        """All events come, all doubts are decided, and what is held for a parent goes on without it or ends."""
        if not self._locked_for():
            self._decide()
            for event in sorted(set(self._awaited())):
                self._send_one(event)
            for id in self._ids("rest = 'held' AND reason = 'parent'"):
                if self.random.random() < 0.5:
                    self._retry_one(id)
                else:
                    self._cancel_one(id)
        self.at(HELP_MS, "help")

    def _over(self, what: str) -> bool:
        return self.calm and what in ("wake", "help") and self._finished()

    def _finished(self) -> bool:
        (left,) = self.judge.connection.execute(
            "SELECT count(*) FROM nextdue_task WHERE rest IN ('waits', 'held')"
        ).fetchone()
        return not left and super()._finished()

    def _check_end(self) -> None:
        super()._check_end()
        self.judge.check_end()

    def close(self) -> None:
        super().close()
        self._foreign.close()
        if self.gate is not None:
            self.gate.close()
