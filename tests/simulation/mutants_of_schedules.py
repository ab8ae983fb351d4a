"""Schedules with one guarantee broken each."""

from dataclasses import replace
from random import Random

import msgspec

from nextdue import due, schedule
from nextdue.cron import Cron
from nextdue.sqlite import tx
from nextdue.sqlite.store import SqliteStore
from nextdue.testing.worlds.timeworld import weather
from nextdue.testing.worlds.world import Weather
from tests.simulation.mutants import TICK, Plant, swapped, untouched

MUTANTS: dict[str, tuple[Plant, Weather | None]] = {}
CALM = replace(weather(Random(0)), crash=0.0, pause=0.0, step=0.0, lock=0.0, stop=0.0, unknown=0.0, puts=4)
STEPS = replace(CALM, step=0.006)
BUSY = replace(CALM, long_every=2)
"""Half of the tasks take long, so that much is changed while they run."""
BUSY_DEATHS = replace(BUSY, crash=0.06)
DEATHS = replace(CALM, crash=0.06)
STOPS = replace(CALM, stop=0.03)
STOPS_AND_DEATHS = replace(BUSY, puts=150, crash=0.06)
"""Whoever puts tasks asks some that run to stop, too."""


def mutant(weather: Weather | None):
    def keep(plant: Plant) -> Plant:
        MUTANTS[plant.__name__] = plant, weather
        return plant

    return keep


def changed(old: str, new: str):
    """Whoever changes schedules says `new` for `old`."""

    def swap(store: SqliteStore) -> None:
        database = store.database
        if database.bring("schedules.sql"):
            text = database.sql["schedules_setup"]
            assert old in text, f"the mutant is out of date: {old!r} is not there"
            database.sql = {**database.sql, "schedules_setup": text.replace(old, new)}
            database.script("schedules_setup")

    return swap


@mutant(CALM)
def the_next_slot_from_now(patch):
    rule = schedule.following
    patch.setattr(schedule, "following", lambda plan, slot, ended: rule(plan, max(slot, ended) + 60_000, ended))
    return untouched


@mutant(CALM)
def a_dead_occurrence_has_no_next_one(patch):
    rule = due.followed
    patch.setattr(due, "followed", lambda c, ended, random: ended if ended.rest == "dead" else rule(c, ended, random))
    return untouched


@mutant(BUSY)
def a_schedule_removed_while_it_runs_goes_on(patch):
    return swapped(
        TICK,
        "EXISTS (\n        SELECT 1 FROM nextdue_schedule g WHERE g.name = u.name AND g.key = u.key) END AS known",
        "1 END AS known",
    )


@mutant(BUSY_DEATHS)
def a_removed_schedule_is_tried_again(patch):
    rule = due.on_claim
    patch.setattr(due, "on_claim", lambda claim: rule(msgspec.structs.replace(claim, key=None)))
    return untouched


@mutant(BUSY)
def a_schedule_paused_while_it_runs_goes_on(patch):
    return swapped(TICK, "(coalesce(g.paused, g.orphaned) IS NOT NULL OR", "(g.orphaned IS NOT NULL OR")


@mutant(CALM)
def a_schedule_without_its_code_goes_on(patch):
    return changed("WHERE NEW.verb IN ('pause', 'orphan') AND", "WHERE NEW.verb = 'pause' AND")


@mutant(STEPS)
def what_was_begun_is_passed_over(patch):
    rule = due.pass_over

    def forgetful(claim, now, random):
        if claim.occurrence is not None:
            fresh = msgspec.structs.replace(claim.occurrence, begun=0)
            claim = msgspec.structs.replace(claim, attempts=0, crashes=0, occurrence=fresh)
        return rule(claim, now, random)

    patch.setattr(due, "pass_over", forgetful)
    return untouched


@mutant(CALM)
def what_was_snoozed_is_passed_over(patch):
    return swapped("occurrences", "r.outcome IN ('snoozed', 'released')", "0")


@mutant(CALM)
def missed_ones_are_not_counted(patch):
    return swapped(TICK, "missed_ever = missed_ever + coalesce(s.missed, 0)", "missed_ever = missed_ever")


@mutant(STEPS)
def only_the_last_missed_ones_are_told(patch):
    return swapped(TICK, "nextdue_schedule.missed + s.missed", "s.missed")


@mutant(STEPS)
def all_missed_ones_run(patch):
    patch.setattr(due, "pass_over", lambda claim, now, random: None)
    return untouched


@mutant(STOPS)
def skipped_ones_run_however_late(patch):
    patch.setattr(schedule, "SKIP_AFTER_MS", 1 << 40)
    return untouched


@mutant(BUSY)
def a_change_while_it_runs_is_ignored(patch):
    running = "AND key = NEW.key AND (token IS NOT NULL OR (rest IS 'held' AND reason IS 'in_doubt'))"
    return changed(f"{running};", f"{running} AND 0;")


@mutant(BUSY)
def a_change_while_it_runs_begins_at_a_due_with_jitter(patch):
    return changed("SELECT NEW.slot FROM nextdue_schedule g", "SELECT NEW.due FROM nextdue_schedule g")


@mutant(BUSY)
def a_change_while_it_runs_counts_the_old_one(patch):
    return swapped(TICK, "(s.missed IS NULL AND NOT s.another)", "(s.missed IS NULL)")


@mutant(CALM)
def the_next_slot_from_a_due_with_jitter(patch):
    return swapped(
        TICK,
        "scheduled_for = CASE WHEN s.again IS NULL THEN scheduled_for ELSE s.slot END",
        "scheduled_for = CASE WHEN s.again IS NULL THEN scheduled_for END",
    )


@mutant(STOPS_AND_DEATHS)
def who_was_asked_to_stop_and_died_ends_its_schedule(patch):
    plain = "AND coalesce(substr(key, 1, 1) <> '@', 1)"
    return swapped(TICK, f"AND stop IS NOT NULL {plain};\n  UPDATE", "AND stop IS NOT NULL;\n  UPDATE")


@mutant(CALM)
def one_more_than_its_count(patch):
    rule = due.next_of

    def later(claim, random):
        seen = msgspec.structs.replace(claim.occurrence, fired=claim.occurrence.fired - 1)
        return rule(msgspec.structs.replace(claim, occurrence=seen), random)

    patch.setattr(due, "next_of", later)
    return untouched


@mutant(CALM)
def the_last_one_is_not_counted(patch):
    over = "known IS 1 AND reason IS NOT 'in_doubt' AND (delay IS NULL OR halted OR again IS NOT NULL), key"
    return swapped(TICK, over, "goes_on, key")


@mutant(BUSY)
def who_ended_by_its_count_comes_back_with_a_deploy(patch):
    return changed("coalesce(fired < plan ->> 'count', 1)", "1")


@mutant(BUSY)
def what_lay_in_a_pause_runs(patch):
    return changed(
        "due = NEW.due, scheduled_for = NEW.slot, wished", "due = CASE WHEN NEW.due IS NOT NULL THEN wished END, wished"
    )


@mutant(BUSY)
def without_its_code_but_resumed_it_runs(patch):
    return changed("AND key = NEW.key AND orphaned IS NULL);", "AND key = NEW.key);")


@mutant(CALM)
def who_finishes_by_itself_ends_its_schedule(patch):
    patch.setattr(tx, "next_of", lambda claim, random: None)
    return untouched


@mutant(CALM)
def a_fixed_time_comes_twice_in_a_repeated_hour(patch):
    patch.setattr(Cron, "_next_fixed", lambda self, after: self._next_real(after + 1))
    return untouched


@mutant(STEPS)
def a_period_waits_for_a_clock_that_was_set_back(patch):
    return swapped("cut_periods", "t.token IS NULL", "0")
