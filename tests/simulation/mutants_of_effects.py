"""Steps, waits and tasks that come after others with one guarantee broken each."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from msgspec import structs

from nextdue.desk import Desk
from nextdue.executors import steps
from nextdue.executors.steps import Step
from nextdue.sqlite import database, marks, tx
from nextdue.sqlite.store import SqliteStore
from nextdue.statements import load as loaded
from nextdue.testing.worlds.effectworld import weather
from nextdue.testing.worlds.world import Weather
from nextdue.tx import guest
from tests.simulation.mutants import TICK, Plant, swapped, untouched

MUTANTS: dict[str, tuple[Plant, Weather | None]] = {}
CALM = replace(
    weather(Random(0)), crash=0.0, pause=0.0, step=0.0, lock=0.0, stop=0.0, unknown=0.0, puts=45, rests=0, keys=3
)
DEATHS = replace(CALM, crash=0.12)
FINISHES = replace(CALM, crash=0.1, puts=30, restarts_ms=(1, 50))
DOUBTS = replace(DEATHS, crash=0.3, puts=90, storm_ms=600_000)
PAUSES = replace(CALM, pause=0.05, puts=90, storm_ms=600_000, long_every=2)
MANY = replace(CALM, keys=1, puts=150)
ONE_KEY = replace(CALM, keys=1, puts=60)
"""The weather in which a mutant shows that needs much of one thing."""


def mutant(weather: Weather):
    def keep(plant: Plant) -> Plant:
        MUTANTS[plant.__name__] = plant, weather
        return plant

    return keep


def step(patch, statements: str, old: str, new: str) -> Callable[[SqliteStore], None]:
    """Stores whose statements on marks, in autocommit, say `new` for `old`."""
    wanted = statements.split()

    def read(package, *pages, load=loaded):
        found = load(package, *pages)
        assert all(old in found[name] for name in wanted if name in found), f"the mutant is out of date: {old!r}"
        return {name: text.replace(old, new) if name in wanted else text for name, text in found.items()}

    patch.setattr(database, "load", read)
    return untouched


def wire(patch, module, statement: str, old: str, new: str) -> Callable[[SqliteStore], None]:
    """The same of a statement inside of a transaction."""
    assert old in module.SQL[statement], f"the mutant is out of date: {old!r} is not in {statement}"
    patch.setattr(module, "SQL", {**module.SQL, statement: module.SQL[statement].replace(old, new)})
    return untouched


def trigger(name: str, old: str | None = None, new: str = "") -> Callable[[SqliteStore], None]:
    """A file whose trigger says `new` for `old`, or (None) does nothing."""

    def swap(store: SqliteStore) -> None:
        execute = store.database.connection.execute
        (text,) = execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = ?", (name,)).fetchone()
        changed = text.partition("BEGIN")[0] + "BEGIN SELECT 1; END" if old is None else text.replace(old, new)
        assert changed != text or done, f"the mutant is out of date: {old!r} is not in {name}"
        if changed != text:
            done.append(name)
            execute(f"DROP TRIGGER {name}")
            execute(changed)

    done: list[str] = []
    return swap


# steps


@mutant(DEATHS)
def marked_as_done_before_the_effect(patch):
    before = Step.before

    def early(self):
        over, value = before(self)
        if not over:
            self._marks.end(self._claim, self._label, None, None)
        return over, value

    patch.setattr(Step, "before", early)
    return untouched


@mutant(DEATHS)
def marked_as_begun_after_the_effect(patch):
    """So that who dies between them knows of nothing."""
    before = Step.before

    def late(self):
        self._repeatable, kept = True, self._repeatable
        try:
            return before(self)
        finally:
            self._repeatable = kept

    patch.setattr(Step, "before", late)
    return untouched


@mutant(PAUSES)
def begun_without_the_token(patch):
    # One that is lost is told so when it looks for its mark; both, or only a pause between the two would show it.
    return step(patch, "mark mark_begin", "t.id = :id AND t.token = :token", "t.id = :id")


@mutant(PAUSES)
def ended_without_the_token(patch):
    return step(patch, "mark_end", "t.id = :id AND t.token = :token", "t.id = :id")


@mutant(DEATHS)
def in_doubt_and_repeated_whatever_was_asked(patch):
    before = Step.before

    def careless(self):
        asked, self._in_doubt = self._in_doubt, "repeat"
        try:
            return before(self)
        finally:
            self._in_doubt = asked

    patch.setattr(Step, "before", careless)
    return untouched


@mutant(CALM)
def an_effect_that_raised_leaves_no_doubt(patch):
    patch.setattr(Step, "failed", lambda self, exc: self._marks.withdraw(self._claim, self._label))
    return untouched


@mutant(CALM)
def held_and_not_listed(patch):
    return step(patch, "doubts", "(done IS NULL OR problem IS NOT NULL)", "problem IS NOT NULL")


@mutant(CALM)
def a_result_is_not_saved(patch):
    return step(patch, "mark_end", "result = excluded.result", "result = NULL")


@mutant(DOUBTS)
def decided_in_two_transactions(patch):
    """So that a task whose only doubt is settled may be held for ever."""

    def resolve(store, task, label, *, happened, result=None):
        store.database.bring(marks.PAGE)
        params = {**store.clock(), "id": task, "label": label, "result": result}
        store.database.write("resolve_happened" if happened else "resolve_not_happened", params)
        return store.database.write("resolve_release", params).rowcount == 1

    patch.setattr(marks, "resolve", resolve)
    return untouched


@mutant(DEATHS)
def an_idempotency_key_of_one_attempt(patch):
    key = steps.idempotency_key
    patch.setattr(steps, "idempotency_key", lambda store, claim, *rest: key(f"{store} {claim.token}", claim, *rest))
    return untouched


@mutant(ONE_KEY)
def an_idempotency_key_of_any_arguments(patch):
    key = steps.idempotency_key
    patch.setattr(
        steps, "idempotency_key", lambda store, claim, *rest: key(store, structs.replace(claim, args=""), *rest)
    )
    return untouched


@mutant(PAUSES)
def extended_without_the_token(patch):
    return wire(patch, tx, "tx_extend", "id = :id AND token = :token", "id = :id")


# marks and their occurrence


@mutant(CALM)
def marks_outlive_their_occurrence(patch):
    return trigger(
        "nextdue_task_over",
        "DELETE FROM nextdue_mark WHERE task = NEW.id AND (",
        "DELETE FROM nextdue_mark WHERE 0 AND (",
    )


@mutant(CALM)
def marks_outlive_their_row(patch):
    return trigger("nextdue_task_deleted")


@mutant(ONE_KEY)
def marks_outlive_a_replacement(patch):
    return trigger("nextdue_task_over", "OR (NEW.args IS NOT OLD.args AND", "OR (0 AND")


@mutant(ONE_KEY)
def a_new_life_waits_as_the_old_one_did(patch):
    return trigger("nextdue_task_over", "WHERE NEW.rest = 'waits' AND id", "WHERE 0 AND id")


@mutant(ONE_KEY)
def a_revived_task_keeps_its_marks(patch):
    return wire(patch, tx, "tx_unmark", "task = :id", "task = :id AND 0")


# the user's own rows


@mutant(FINISHES)
def finished_in_a_second_transaction(patch):
    @contextmanager
    def in_two(self, claim, end):
        with self.connections.transaction("the rows") as (one, _):
            if not tx.held(guest(one), claim):
                raise tx.lost(claim)
            yield one
        with self.connections.transaction("the end") as (two, store):
            if tx.settle(guest(two), claim, end(store)):
                two.on_commit(self.connections.ring)

    patch.setattr(Desk, "own_finish", in_two)
    return untouched


# waits


@mutant(CALM)
def an_event_reaches_nobody(patch):
    return wire(patch, marks, "event_arrive", "waits = :event", "waits = :event AND 0")


@mutant(CALM)
def an_event_wakes_no_worker(patch):
    def silent(self, tx, event, data, keep_ms):
        with self._guest(tx) as (one, store):
            return marks.send(one, event, data, keep_ms, store.clock()["now"])

    patch.setattr(Desk, "send", silent)
    return untouched


@mutant(MANY)
def a_wait_has_looked_before_its_transaction(patch):
    return wire(patch, marks, "mark_wait", "ON e.name = :event", "ON e.name = :event AND e.sent < :now - 5000")


@mutant(ONE_KEY)
def a_wait_loses_the_wish_for_a_next_life(patch):
    rest = tx.rest

    def forgetful(one, claim, finish, until_ms):
        class Deaf:
            def execute(self, sql, params):
                rows = one.execute(sql, params)
                return [(key, group, None, stop) for key, group, _, stop in rows] if sql == tx.SQL["tx_held"] else rows

        rest(Deaf(), claim, finish, until_ms)

    patch.setattr(tx, "rest", forgetful)
    return untouched


# tasks that come after others


@mutant(CALM)
def woken_by_the_first_parent(patch):
    return trigger("nextdue_mark_done", "m.task = NEW.task", "m.task = -NEW.task")


@mutant(CALM)
def a_dead_parent_is_forgotten(patch):
    return trigger("nextdue_mark_failed")


@mutant(CALM)
def a_parent_that_died_before_is_forgotten(patch):
    return trigger("nextdue_task_waits")


@mutant(CALM)
def held_whatever_was_asked(patch):
    return trigger("nextdue_mark_failed", "NEW.how", "'hold'")


@mutant(CALM)
def a_done_parent_wakes_nobody(patch):
    return swapped(TICK, "AND nextdue_mark.done IS NULL AND +s.outcome = 'done'", "AND 0")


@mutant(CALM)
def a_finished_parent_wakes_nobody(patch):
    return wire(patch, tx, "tx_awaited", "waits = :id", "waits = :id AND 0")


@mutant(CALM)
def a_failed_parent_counts_as_done(patch):
    return swapped(TICK, "AND +s.outcome = 'done'", "AND +s.outcome <> 'dead'")


@mutant(MANY)
def who_was_started_anyway_waits_on(patch):
    return trigger("nextdue_task_anyway")
