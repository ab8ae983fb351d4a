"""Worlds in which people retry, hurry and purge at any moment, and may be killed at it; all worlds cancel."""

import pytest

from nextdue.sqlite import care
from nextdue.sqlite.care import Chosen, Verb
from nextdue.testing.crashes import Killed
from nextdue.testing.worlds.account import Change
from nextdue.testing.worlds.judge import Broken, Judge
from nextdue.testing.worlds.world import Weather, World

VERBS: tuple[Verb, ...] = ("retry", "run_now", "purge")
WORLDS = 25


class Witness(Judge):
    """Knows what each verb for people may do, too."""

    def _changed_at_rest(self, c: Change, verb: str) -> None:
        old, new = c.old, c.new
        if verb == "retry":
            failed = old.due is not None and (old.attempts or old.crashes)
            assert failed or old.rest in ("dead", "held", "cancelled"), "retried what never failed"
            assert (new.due, new.rest, new.gone_at) == (self.clock.now(), None, None)
            assert (new.attempts, new.crashes) == (0, 0)
            assert (new.claims, new.key) == (old.claims, old.key), "its story is another"
            queue, alone = self.lane(new.lane)
            assert (queue, alone) == (self.lane(old.lane)[0], 0), "still tried alone, or in another queue"
        elif verb == "run_now":
            assert old.due is not None, "a task at rest was made due"
            assert new == old._replace(due=min(old.due, self.clock.now()))
        else:
            super()._changed_at_rest(c, verb)

    def _deleted(self, c: Change, verb: str, actor) -> None:
        if verb == "purge":
            assert c.old.rest in ("done", "dead", "cancelled"), "what isn't finished was purged"
        else:
            super()._deleted(c, verb, actor)


class Cared(World):
    """A world with people. `care.ring` must be what wakes the workers of this world."""

    def __init__(self, seed, folder, mutate=lambda store: None):
        weather = Weather(crash=0.03, pause=0.002, step=0.005, lock=0.005, stop=0.003, puts=40)
        super().__init__(seed, folder, mutate, weather=weather)
        self.judge.__class__ = Witness  # the workers hold this object already
        self.done: dict[str, int] = dict.fromkeys(VERBS, 0)
        for _ in range(40):
            self.at(self.random.randrange(weather.storm_ms), "person")

    def _on_person(self, who):
        if self._locked_for() or not self.acknowledged:
            return
        verb = self.random.choice(VERBS)
        some = self.random.sample(sorted(self.acknowledged.values()), min(9, len(self.acknowledged)))
        only = self.random.choice((Chosen(), Chosen(name="mail"), Chosen(state="dead"), Chosen(queue="slow")))
        trap = self._trap(self.weather.crash * 4)
        if trap:
            self.caller_trap.arm(*trap)
        try:
            self.done[verb] += care.apply(self.callers, verb, some, only)
            self.judge.observe(verb)
        except Killed:
            self.judge.observe(verb)
            self.callers.database.connection.close()
            self.callers = self._open_caller()
            self._ring()  # those who watch the file see the commit
        self.caller_trap.disarm()
        if verb == "purge":
            self._forget_purged()

    def _forget_purged(self):
        left = {
            id
            for (id,) in self.judge.connection.execute(
                "SELECT id FROM nextdue_task UNION SELECT task FROM nextdue_run WHERE outcome IN ('done', 'cancelled')"
            )
        }
        self.acknowledged = {number: id for number, id in self.acknowledged.items() if id in left}


def live(world, monkeypatch):
    monkeypatch.setattr(care, "ring", lambda store: world._ring())
    try:
        world.run()
    finally:
        world.close()
    return world.done


@pytest.mark.parametrize("seed", range(WORLDS))
def test_every_law_holds_whatever_people_do(seed, tmp_path, monkeypatch):
    world = Cared(seed, tmp_path)
    try:
        live(world, monkeypatch)
    except Broken as exc:
        pytest.fail(f"seed {seed}: {exc}\nits file: {world.path}", pytrace=False)


def test_these_worlds_see_each_verb_at_work(tmp_path, monkeypatch):
    done = [live(Cared(seed, tmp_path), monkeypatch) for seed in range(5)]
    assert {verb for each in done for verb, count in each.items() if count} == set(VERBS)


def swapped(page, old, new):
    def mutate(store):
        care._prepare(store.database)
        text = store.database.sql[page]
        assert old in text, f"the mutant is out of date: {old!r} is not in {page}"
        store.database.sql = {**store.database.sql, page: text.replace(old, new)}

    return mutate


MUTANTS = {
    "retry takes a running row": swapped("care_retry", "t.token IS NULL AND (", "("),
    "retry keeps the attempts": swapped("care_retry", "attempts = 0,", ""),
    "retry of what is done": swapped("care_retry", "IN ('dead', 'cancelled')", "IN ('dead', 'cancelled', 'done')"),
    "run-now takes a running row": swapped("care_run_now", "t.token IS NULL AND ", ""),
    "run-now makes later": swapped("care_run_now", "min(t.due, ", "max(t.due, "),
    "purge takes what waits": swapped("care_purge", "t.rest IN ('done', 'dead', 'cancelled')", "t.token IS NULL"),
    "purge takes what is held by a worker": swapped(
        "care_purge", "t.rest IN ('done',", "t.token > 0 OR t.rest IN ('done',"
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_these_worlds_see_the_mutant(name, tmp_path, monkeypatch):
    for seed in range(WORLDS):
        try:
            live(Cared(seed, tmp_path, MUTANTS[name]), monkeypatch)
        except Broken:
            return
    pytest.fail(f"{WORLDS} worlds did not see: {name}")


def test_these_worlds_see_a_forgotten_ring(tmp_path, monkeypatch):
    for seed in range(WORLDS):
        world = Cared(seed, tmp_path)
        monkeypatch.setattr(care, "ring", lambda store: None)
        try:
            world.run()
        except Broken as exc:
            if "sleeps though" in str(exc):
                return
            raise
        finally:
            world.close()
    pytest.fail("no worker overslept")
