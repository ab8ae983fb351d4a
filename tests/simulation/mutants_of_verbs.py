"""Keys, limits, rates, expiry, stops and pauses with one guarantee broken each."""

from nextdue.sqlite import tx
from nextdue.sqlite.store import SqliteStore
from nextdue.testing.worlds.world import Weather
from tests.simulation.mutants import MAX, NOW, PLAIN, PUT, TICK, Plant, both, swapped

MUTANTS: dict[str, tuple[Plant, Weather | None]] = {}
BUSY = Weather(puts=90)
LATE = Weather(puts=90, late=True)
DEATHS = Weather(puts=90, crash=0.04)
UNKNOWN_DEATHS = Weather(puts=90, crash=0.04, unknown=1.0)
ONE_GROUP = Weather(puts=90, names=("shard",), groups=("a",))
ONE_GROUP_AND_DEATHS = Weather(puts=90, names=("shard", "shard", "mail"), groups=("a",), crash=0.04)
ONE_KEY = Weather(puts=90, names=("mail",), keys=1, long_every=4)
ONE_KEY_AND_STOPS = Weather(puts=120, names=("mail",), keys=1, long_every=4, stop=0.1)
SLOW = Weather(puts=120, names=("rated",), groups=("a",), long_every=4)
ONE_KEY_AND_DEATHS = Weather(puts=120, names=("mail",), keys=1, long_every=4, crash=0.04)
ONE_LIMITED_KEY = Weather(puts=120, names=("shard",), keys=1, long_every=4)
FROZEN = Weather(puts=90, pause=0.03, storm_ms=600_000, finish_every=1)
RESTS = Weather(puts=90, rests=6)
LONG_RESTS = Weather(puts=60, rests=10, long_every=5)

FREED = "INSERT INTO nextdue_freed SELECT DISTINCT name, grp FROM nextdue_settled WHERE grp IS NOT NULL;"
MINE = "BETWEEN NEW.worker << 32 AND (NEW.worker << 32) + 4294967295"
AT = "coalesce(t.due, t.wished)"


def mutant(weather: Weather):
    def keep(plant: Plant) -> Plant:
        MUTANTS[plant.__name__] = plant, weather
        return plant

    return keep


@mutant(ONE_GROUP)
def a_limit_without_those_just_admitted(patch):
    count = "r.token IS NOT NULL) < NEW.most"
    return swapped(TICK, count, count.replace(")", " AND r.token <> NEW.token)"))


@mutant(ONE_GROUP)
def nobody_follows_who_ended(patch):
    return swapped(TICK, FREED + "\nEND;", "\nEND;")


@mutant(ONE_GROUP_AND_DEATHS)
def nobody_follows_the_dead(patch):
    return swapped(TICK, FREED + "\n  DELETE FROM nextdue_worker", "DELETE FROM nextdue_worker")


@mutant(RESTS)
def only_the_first_of_all_lanes_follows(patch):
    return swapped(TICK, "n.due IS NULL AND n.lane = l.id AND", "n.due IS NULL AND")


@mutant(SLOW)
def set_aside_without_a_limit_reached(patch):
    return swapped(
        TICK, "r.token IS NOT NULL) >= NEW.most\n    AND id IN", "r.token IS NOT NULL) + 1 >= NEW.most\n    AND id IN"
    )


@mutant(BUSY)
def what_has_a_rate_claimed_ahead(patch):
    return swapped(TICK, "OR o.limited & 1", "")


@mutant(LATE)
def a_rate_counts_from_the_start(patch):
    slot = "CASE WHEN excluded.tail - free < NEW.rate THEN free + NEW.rate ELSE excluded.free END"
    return swapped(TICK, slot, "excluded.free")


@mutant(BUSY)
def a_group_has_the_rate_of_its_task(patch):
    return swapped(TICK, "coalesce(s.rate, l.rate)", "l.rate")


@mutant(BUSY)
def a_rate_forgets_its_tail(patch):
    return swapped(TICK, "NEW.grp AND EXISTS (SELECT 1 FROM nextdue_behind)", "NEW.grp AND 0")


@mutant(Weather(puts=90, step=0.02))
def a_rate_waits_for_a_clock_that_was_set_back(patch):
    return swapped(TICK, "AND free > {now} + NEW.rate", "AND 0")


@mutant(Weather(puts=90, names=("rated",), crash=0.04, unknown=1.0))
def a_lease_is_taken_over_whatever_its_rate(patch):
    return both(
        swapped(TICK, "WHERE taken AND odd & 2 AND odd < 4", "WHERE 0"),
        swapped(TICK, "AND c.odd < 2;", "AND c.odd < 4 AND (c.odd < 2 OR c.taken);"),
    )


@mutant(BUSY)
def expiry_ignored(patch):
    return swapped(TICK, "CASE WHEN t.expires <= {now} THEN 4 ELSE 0 END", "0")


@mutant(BUSY)
def expired_without_a_word(patch):
    return swapped(TICK, "WHERE c.odd >= 4 AND NEW.keep_rows > 0", "WHERE 0")


@mutant(BUSY)
def what_expired_is_dropped(patch):
    return swapped(TICK, "FROM nextdue_claimed WHERE odd & 8);", "FROM nextdue_claimed WHERE odd >= 4);")


@mutant(ONE_KEY)
def a_wish_is_lost_when_the_attempt_failed(patch):
    return swapped(TICK, "WHEN value ->> 2 <> 'released' OR", "WHEN value ->> 2 = 'done' OR")


@mutant(ONE_KEY)
def a_wish_is_lost_on_success(patch):
    return swapped(TICK, "WHEN value ->> 2 <> 'released' OR", "WHEN value ->> 2 NOT IN ('released', 'done') OR")


@mutant(ONE_KEY_AND_DEATHS)
def a_wish_is_lost_with_its_worker(patch):
    kept = "token = NULL, crashes = crashes + 1, progress"
    return swapped(TICK, kept, "again_due = NULL, again_args = NULL, " + kept)


@mutant(ONE_KEY_AND_DEATHS)
def a_wish_begins_after_a_newer_one(patch):
    return swapped(PUT, "expires = k.expires, again_due = NULL, again_args = NULL,", "expires = k.expires,")


@mutant(ONE_KEY_AND_STOPS)
def a_release_begins_the_next_life(patch):
    return swapped(
        TICK, "CASE WHEN value ->> 2 <> 'released' OR t.stop IS NOT NULL THEN t.again_due END", "t.again_due"
    )


@mutant(BUSY)
def a_stop_is_forgotten_at_a_retry(patch):
    return swapped(TICK, "t.stop IS NOT NULL AND value ->> 5 IS NOT NULL AND (", "0 AND (")


@mutant(DEATHS)
def a_stop_is_forgotten_with_the_worker(patch):
    return both(
        swapped(TICK, "'crashed', stop IS NOT NULL AND key IS NULL,", "'crashed', 0,"),
        swapped(TICK, f"WHERE token {MINE} AND stop IS NOT NULL AND {PLAIN};", "WHERE 0;"),
    )


@mutant(UNKNOWN_DEATHS)
def a_stop_is_forgotten_with_the_lease(patch):
    return swapped(TICK, f" + CASE WHEN t.stop IS NOT NULL AND {PLAIN} THEN 8 ELSE 0 END", "")


@mutant(Weather(puts=90, storm_ms=60_000))
def a_full_worker_hears_of_no_stop(patch):
    patch.setattr(SqliteStore, "stops", lambda self, worker: [])
    return lambda store: None


@mutant(RESTS)
def a_pause_is_seen_when_lanes_are_opened_next(patch):
    return swapped(TICK, "NEW.pauses = coalesce((SELECT value FROM nextdue_meta WHERE name = 'pauses'), 0)", "1")


@mutant(LONG_RESTS)
def what_runs_is_not_renewed_in_a_pause(patch):
    return both(
        swapped(TICK, "FROM nextdue_limit o\n    WHERE " + NOW, "FROM nextdue_open o\n    WHERE " + NOW),
        swapped(TICK, "o.name = nextdue_task.name", "o.lane = nextdue_task.lane"),
    )


@mutant(ONE_KEY)
def a_wish_touches_what_runs(patch):
    return swapped(PUT, "again_args = NEW.args, expires", "args = NEW.args, again_args = NEW.args, expires")


@mutant(ONE_LIMITED_KEY)
def new_arguments_stay_in_the_old_group(patch):
    return swapped(PUT, "grp = NEW.grp,\n    lane", "lane")


@mutant(ONE_LIMITED_KEY)
def a_next_life_stays_in_the_old_group(patch):
    kept = "s.again IS NULL OR (s.scheduled AND again_due IS NULL)"
    return swapped(TICK, f"grp = CASE WHEN {kept} THEN nextdue_task.grp ELSE again_grp END,", "")


@mutant(Weather(puts=120, names=("rated",), keys=1, groups=("a",), long_every=4))
def asked_for_again_a_slot_is_lost(patch):
    return swapped(PUT, "AND t.due <= r.tail\n", "AND 0\n")


def finish_with(patch, **statements):
    """tx.py with these statements changed: each is (old, new)."""
    changed = {name: tx.SQL[name].replace(old, new) for name, (old, new) in statements.items()}
    assert all(changed[name] != tx.SQL[name] for name in statements), "the mutant is out of date"
    patch.setattr(tx, "SQL", {**tx.SQL, **changed})
    return lambda store: None


@mutant(FROZEN)
def finished_without_the_token(patch):
    fence = "token = :token", "(token = :token OR token IS NOT NULL)"
    held = "t.token = :token", "(t.token = :token OR t.token IS NOT NULL)"
    return finish_with(patch, tx_held=held, tx_run=fence, tx_forget=fence, tx_rest=fence, tx_again=fence)


@mutant(BUSY)
def finished_without_a_line_in_the_history(patch):
    return finish_with(patch, tx_run=("token = :token", "0"))


@mutant(ONE_KEY)
def a_wish_is_lost_by_finishing(patch):
    return finish_with(patch, tx_again=("coalesce(again_args, args)", "args"))


@mutant(ONE_GROUP)
def nobody_follows_who_finished(patch):
    return finish_with(patch, tx_unblock=("ON l.name = t.name", "ON 0"))


@mutant(ONE_KEY)
def extended_beyond_the_latest(patch):
    return swapped(PUT, f"min(max(k.due, {AT}), max(coalesce(t.latest, {MAX}), {AT}))", f"max(k.due, {AT})")
