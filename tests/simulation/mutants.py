"""The engine with one guarantee broken each: what the simulation must be able to see."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from nextdue import due
from nextdue.sqlite.store import SqliteStore
from nextdue.testing.worlds.world import Weather

NOW, MAX = "(SELECT now FROM nextdue_now)", "253402300799999"
PLAIN = "coalesce(substr(key, 1, 1) <> '@', 1)"
Plant = Callable[[pytest.MonkeyPatch], Callable[[SqliteStore], None]]
MUTANTS: dict[str, tuple[Plant, Weather | None]] = {}
STEPS = Weather(step=0.03, names=("mail", "export"), keys=50)
PAUSES = Weather(pause=0.05, long_every=6)
STEPS_AND_DEATHS = Weather(step=0.02, crash=0.04, unknown=1.0)
"""The weather in which a mutant shows that needs much of one thing."""


def mutant(plant: Plant, weather: Weather | None = None) -> Plant:
    MUTANTS[plant.__name__] = plant, weather
    return plant


def mutant_in(weather: Weather) -> Callable[[Plant], Plant]:
    return lambda plant: mutant(plant, weather)


def swapped(page: str, old: str, new: str) -> Callable[[SqliteStore], None]:
    """A store whose statement `page` says `new` for `old`."""

    def swap(store: SqliteStore) -> None:
        sql = store.database.sql
        old_text, new_text = (t.replace("{now}", NOW).replace("{max}", MAX) for t in (old, new))
        found = [part for part in (page, LIMITS if page == TICK else page) if old_text in sql[part]]
        assert found, f"the mutant is out of date: {old_text!r} is not in {page}"
        store.database.sql = {**sql, found[0]: sql[found[0]].replace(old_text, new_text)}
        if page == PUT:
            again(store)

    return swap


def again(store: SqliteStore) -> None:
    """Make the temporary objects of a caller anew: they were there before the store was mutated."""
    connection = store.database.connection
    made = connection.execute("SELECT type, name FROM sqlite_temp_schema WHERE type IN ('table', 'view', 'trigger')")
    for kind, name in made.fetchall():
        connection.execute(f"DROP {kind} IF EXISTS temp.{name}")
    store.database.script(PUT)


def both(*mutations: Callable[[SqliteStore], None]) -> Callable[[SqliteStore], None]:
    def mutate(store: SqliteStore) -> None:
        for mutation in mutations:
            mutation(store)

    return mutate


def untouched(store: SqliteStore) -> None:
    """For mutants of the rules, which are no store's."""


TICK, LIMITS, PUT = "worker_setup", "limits_setup", "caller_setup"


@mutant_in(PAUSES)
def settle_without_token(patch):
    return both(
        swapped(TICK, "AND t.token = d.token", "AND t.token IS NOT NULL"),
        swapped(TICK, "AND t.token = value ->> 1", "AND t.token IS NOT NULL"),
    )


@mutant
def a_flag_instead_of_a_lease(patch):
    return swapped(TICK, "due = min({now} + c.lease, {max})", "due = {max}")


@mutant
def the_same_token_at_every_tick(patch):
    tick = SqliteStore.tick
    patch.setattr(SqliteStore, "tick", lambda self, r: tick(self, r._replace(token=r.worker << 32 | 1)))
    return untouched


@mutant
def ring_only_if_nearest_of_all_lanes(patch):
    return swapped(PUT, "o.lane = t.lane AND ", "")


@mutant
def a_bulk_put_marks_no_row_for_the_bell(patch):
    return swapped("put_many", "CASE WHEN key = 0 THEN 0 END", "NULL")


@mutant_in(STEPS)
def a_doubted_lease_hides_a_put(patch):
    return swapped(PUT, " AND o.token IS NULL", "")


@mutant
def retry_without_ring(patch):
    return swapped("ticked", "WHERE NOT s.forget AND", "WHERE 0 AND")


@mutant
def attempts_counted_at_the_claim(patch):
    return swapped(TICK, "claims = claims + 1", "claims = claims + 1, attempts = attempts + 1")


@mutant
def crashes_counted_at_the_claim(patch):
    return swapped(TICK, "crashes = crashes + (token IS NOT NULL)", "crashes = crashes + 1")


@mutant_in(STEPS)
def leases_stolen_after_a_clock_step(patch):
    """An expired lease is believed at once."""

    def always(self):
        return {"believed": 1 << 60, "expected": self._now(), **self.clock()}

    patch.setattr(SqliteStore, "_believed", always)
    return untouched


@mutant_in(STEPS_AND_DEATHS)
def leases_not_cut_after_a_step_back(patch):
    return swapped("cut_leases", "nextdue_task.token IS NOT NULL", "0")


@mutant
def no_renewal(patch):
    return swapped(TICK, "WHERE {now} NOT BETWEEN NEW.renewed AND NEW.renewed + NEW.renew_every", "WHERE 0")


@mutant_in(PAUSES)
def renewal_after_the_claim(patch):
    def move(store: SqliteStore) -> None:
        sql = store.database.sql[TICK]
        begin = sql.index("  UPDATE nextdue_task SET due = min(max(" + NOW + " + o.lease")
        renewal = sql[begin : sql.index(";", begin) + 1]
        end = sql.index("END;\n\nCREATE TEMP VIEW nextdue_bury")
        moved = sql[:begin] + sql[begin + len(renewal) : end] + renewal + "\n" + sql[end:]
        store.database.sql = {**store.database.sql, TICK: moved}

    return move


@mutant
def rows_with_crashes_claimed_ahead(patch):
    return swapped(TICK, "odd = 0 WHERE place > NEW.slots AND (taken OR odd NOT IN (0, 2));", "odd = 0 WHERE 0;")


@mutant
def history_in_a_second_transaction(patch):
    """The end of a task and its line in the history are two commits: a crash between them loses the line."""
    insert = "INSERT INTO nextdue_run(task, name, claim, ended, outcome) VALUES (:id, 'x', 0, 0, :outcome)"
    tick = SqliteStore.tick

    def in_two(self: Any, request: Any) -> Any:
        self.database.sql = {**self.database.sql, "second": insert}
        answer = tick(self, request)
        for s in request.settlements:
            if s.id not in answer.lost and s.ran_ms is not None:
                self.database.write("second", {"id": s.id, "outcome": s.outcome})
        return answer

    patch.setattr(SqliteStore, "tick", in_two)
    return swapped(TICK, "WHERE s.ran IS NOT NULL AND (NEW.keep_rows > 0 OR s.keep IS NOT NULL)", "WHERE 0")


@mutant
def purge_deletes_waiting_rows(patch):
    return swapped(TICK, "WHERE gone_at <= {now} LIMIT", "WHERE coalesce(gone_at, due) <= {now} LIMIT")


@mutant
def bury_without_counting_the_crash(patch):
    return swapped(TICK, "token = NULL, crashes = crashes + 1, progress", "token = NULL, progress")


@mutant
def bury_takes_every_workers_rows(patch):
    mine = "BETWEEN NEW.worker << 32 AND (NEW.worker << 32) + 4294967295;\n  INSERT INTO nextdue_freed"
    return swapped(TICK, "WHERE token " + mine, "WHERE token IS NOT NULL;\n  INSERT INTO nextdue_freed")


@mutant
def look_ignores_a_lane(patch):
    return swapped("look", "FROM nextdue_open o\n  UNION ALL", "FROM nextdue_open o WHERE o.lane <> 3\n  UNION ALL")


@mutant
def look_knows_of_no_lease(patch):
    return swapped("look", "t.token IS NOT NULL AND (o.lease <=", "0 AND (o.lease <=")


@mutant
def nobody_takes_over_a_lease(patch):
    return swapped(TICK, "WHERE t.token IS NOT NULL AND t.due <= min({now}", "WHERE 0 AND t.due <= min({now}")


@mutant
def look_counts_what_no_tick_claims(patch):
    return swapped("look", "n.lane = o.lane AND n.due IS NOT NULL", "n.due IS NOT NULL")


@mutant
def claims_of_unknown_names(patch):
    return swapped("serve", "json_each(:names) n ON n.key = l.name", "json_each(:names) n ON n.key = 'mail'")


@mutant
def claims_a_little_early(patch):
    return swapped(TICK, "n.lane = o.lane AND n.due <= min({now}", "n.lane = o.lane AND n.due <= min({now} + 9")


@mutant
def a_put_overwrites_a_key_in_use(patch):
    return swapped(PUT, "OR t.rest IN ('blocked', 'waits') THEN 'waiting'", "OR t.rest = 'blocked' THEN 'over'")


@mutant
def dead_without_having_been_alone(patch):
    def verdict(claim, judge=due.on_claim):
        return judge(msgspec.structs.replace(claim, alone=1))

    patch.setattr(due, "on_claim", verdict)
    return untouched


@mutant
def never_dead_by_crashes(patch):
    patch.setattr(due, "on_claim", lambda claim: None)
    return untouched


@mutant
def cancel_takes_a_running_row(patch):
    return both(
        swapped(PUT, f" AND token IS NULL AND {PLAIN};\n  DELETE", ";\n  DELETE"),
        swapped(PUT, "due = NULL, rest", "due = NULL, token = NULL, rest"),
    )


@mutant
def a_snooze_counts_as_an_attempt(patch):
    def settle(claim, ending, options, random, rule=due.settle):
        settlement = rule(claim, ending, options, random)
        counted = claim.attempts + (ending.kind in ("snoozed", "failed", "gave_up"))
        return msgspec.structs.replace(settlement, attempts=counted)

    patch.setattr(due, "settle", settle)
    return untouched


@mutant
def alone_beside_others(patch):
    from nextdue.worker import Worker

    request = Worker._request

    def beside(self):
        asked = request(self)
        overdue = self._alone_due is not None and self._alone_due <= self._now and not self.stopping
        return asked._replace(alone=True, slots=1, ahead=0) if overdue and self._free("thread") else asked

    patch.setattr(Worker, "_request", beside)
    return untouched
