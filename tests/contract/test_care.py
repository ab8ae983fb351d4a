"""What people do to tasks: which rows each verb takes, what becomes of them, and that all others stay as they are."""

import contextlib
import sqlite3

import pytest

from nextdue.records import Put, Serving
from nextdue.sqlite import care
from nextdue.sqlite.care import Chosen
from tests.contract.places import LEASE_MS, again, at_rest, done

KEYED = Put("mail", "default", 0, "[1]", key="k", remember_ms=10_000)
VERBS = ("retry", "run_now", "cancel", "purge")


def row(place, id):
    """The row as a dict; None if it is gone."""
    connection = place.store.database.connection
    cursor = connection.execute("SELECT * FROM nextdue_task WHERE id = ?", (id,))
    found = cursor.fetchone()
    return found and dict(zip([column[0] for column in cursor.description], found, strict=True))


def change(place, id, **values):
    connection = place.store.database.connection
    connection.execute(
        f"UPDATE nextdue_task SET {', '.join(f'{name} = :{name}' for name in values)} WHERE id = :id",
        values | {"id": id},
    )


def keyed(place, key="k"):
    (stored,), _ = place.store.put([KEYED._replace(key=key)])
    return stored.id


def claimed(place, id):
    """A worker that holds just this task, and its claim."""
    hand = place.hand()
    (claim,) = [claim for claim in hand.claim() if claim.id == id]
    return hand, claim


def waiting(place):
    return place.put(delay_ms=5_000)


def failed(place):
    id = place.put()
    hand, claim = claimed(place, id)
    hand.tick([again(claim, reason="timeout", message="TimeoutError: slow")])
    return id


def crashed(place):
    id = place.put()
    hand, claim = claimed(place, id)
    hand.tick([again(claim, "released", crashes=2, alone=True, reason="worker_died")])
    return id


def running(place):
    id = place.put()
    claimed(place, id)
    return id


def finished(place):
    id = keyed(place)
    hand, claim = claimed(place, id)
    hand.tick([done(claim, forget=False, rest="done")])
    return id


def dead(place):
    id = place.put()
    hand, claim = claimed(place, id)
    hand.tick([at_rest(claim, "dead", attempts=3, reason="timeout", message="TimeoutError: slow")])
    return id


def held(place):
    id = place.put()
    hand, claim = claimed(place, id)
    hand.tick([at_rest(claim, "held", reason="arguments", message="too many")])
    return id


def paused(place):
    id = place.put()
    change(place, id, due=None, rest="held", reason="paused", wished=5)
    return id


def blocked(place):
    id = place.put()
    change(place, id, due=None, rest="blocked", wished=5, grp="")
    return id


def cancelled(place):
    id = keyed(place)
    place.store.cancel(id)
    return id


STATES = (waiting, failed, crashed, running, finished, dead, held, paused, blocked, cancelled)
TAKES = {
    "retry": {failed, crashed, dead, held, cancelled},
    "run_now": {waiting, failed, crashed},
    "cancel": {waiting, failed, crashed, dead, held, paused},
    "purge": {finished, dead, cancelled},
}


# What the store's own verb makes of a running or a blocked one, test_verbs.py and test_groups.py say.
PAIRS = [(v, make) for v in VERBS for make in STATES if v != "cancel" or make not in (running, blocked)]


@pytest.mark.parametrize(("verb", "make"), PAIRS)
def test_a_verb_takes_these_states_and_no_other(place, verb, make):
    """F110: for every state it is laid down what each verb does; what it doesn't take stays as it was."""
    id = make(place)
    before = place.rows()
    found = care.match(place.store, verb, Chosen(name="mail"))
    assert list(found.ids) == ([id] if make in TAKES[verb] else [])
    changed = care.apply(place.store, verb, [id])
    assert changed == (make in TAKES[verb])
    assert (place.rows() == before) == (not changed)


@pytest.mark.parametrize("make", [failed, crashed, dead, held, cancelled])
def test_a_retried_task_begins_anew_and_runs(place, make):
    id = make(place)
    change(place, id, wished=5, progress="[1, 2, null]")
    place.clock.advance(50)
    assert care.apply(place.store, "retry", [id]) == 1
    now = row(place, id)
    assert (now["due"], now["rest"], now["attempts"], now["crashes"]) == (place.clock.now(), None, 0, 0)
    assert {now[name] for name in ("reason", "message", "gone_at", "wished", "progress", "stop")} == {None}
    (claim,) = place.hand().claim()
    assert (claim.id, claim.attempts, claim.crashes, claim.alone) == (id, 0, 0, 0)


def test_what_expired_runs_when_it_is_retried(place):
    id = dead(place)
    change(place, id, expires=place.clock.now() - 1)
    care.apply(place.store, "retry", [id])
    assert row(place, id)["expires"] is None
    change(place, id, due=None, rest="dead", expires=place.clock.now() + 5)
    care.apply(place.store, "retry", [id])
    assert row(place, id)["expires"] == place.clock.now() + 5


def test_run_now_makes_due_now_and_never_later(place):
    early, late = place.put(), place.put(delay_ms=3_600_000)
    was = row(place, early)["due"]
    place.clock.advance(100)
    assert care.apply(place.store, "run_now", [early, late]) == 2
    assert row(place, early)["due"] == was
    assert row(place, late)["due"] == place.clock.now()
    assert {claim.id for claim in place.hand().claim()} == {early, late}


RATED = {"mail": Serving(LEASE_MS, rate_ms=1_000)}


@pytest.mark.parametrize("group", ["", "a", None])
def test_hurrying_makes_nothing_later(place, group):
    """What has a slot of its rate keeps it; what is delayed beyond all slots gets the next one."""
    hand, start = place.hand(RATED), place.clock.now()
    ids = [place.put(group=group) for _ in range(3)]
    far = place.put(group=group, delay_ms=9_000)
    hand.claim()
    assert list(care.match(place.store, "run_now", Chosen(name="mail")).ids) == [far]
    assert care.apply(place.store, "run_now", [*ids, far]) == 1
    change(place, ids[2], attempts=2)
    assert care.apply(place.store, "retry", [ids[2]]) == 1
    assert care.sight(place.store, ids[2]).rated
    assert not care.sight(place.store, ids[0]).rated
    hand.claim()
    assert [row(place, id)["due"] - start for id in (ids[1], ids[2], far)] == [1_000, 2_000, 3_000]
    assert row(place, ids[2])["attempts"] == 0
    place.clock.advance(3_000)
    (claim,) = hand.claim()
    assert (claim.id, care.apply(place.store, "run_now", [ids[1]])) == (ids[1], 0)


def test_slots_of_a_rate_that_is_no_more_bind_nobody(place):
    hand, start = place.hand(RATED), place.clock.now()
    ids = [place.put(group="") for _ in range(3)]
    hand.claim()
    free = place.hand()
    assert care.apply(place.store, "run_now", ids) == 2
    assert {row(place, id)["due"] for id in ids[1:]} == {start}
    assert {claim.id for claim in free.claim()} == set(ids[1:])


def test_a_cancelled_bulk_is_what_the_stores_own_verb_makes_of_each(place):
    one, other = place.put(delay_ms=9), keyed(place)
    assert care.apply(place.store, "cancel", [one, other]) == 2
    assert place.store.get(one).state == place.store.get(other).state == "cancelled"
    assert row(place, one) is None
    assert row(place, other)["gone_at"] == place.clock.now() + 10_000
    assert [run.outcome for run in place.store.runs()] == ["cancelled"] * 2
    assert care.apply(place.store, "cancel", [one, other]) == 0


def test_purged_tasks_are_gone_and_their_keys_free(place):
    """F116: a tombstone that is removed early lets its key run again, and the count before says how many do."""
    id = finished(place)
    assert care.guarding(place.store, [id]) == 1
    assert care.apply(place.store, "purge", [id]) == 1
    assert place.store.by_key("mail", "k") is None
    place.clock.advance(20_000)
    again = finished(place)
    place.clock.advance(10_001)
    assert care.guarding(place.store, [again]) == 0


@pytest.mark.parametrize("verb", VERBS)
def test_a_row_that_changed_after_the_look_is_left_alone(place, verb):
    """The write asks again: between the preview and --yes a task may be claimed, or be somebody else's match."""
    id = {"purge": dead, "retry": dead}.get(verb, waiting)(place)
    only = Chosen(state=place.store.get(id).state, name="mail")
    found = care.match(place.store, verb, only)
    assert list(found.ids) == [id]
    if verb in ("purge", "retry"):
        care.apply(place.store, "retry", [id])
    place.clock.advance(10_000)
    claimed(place, id)
    before = place.rows()
    assert care.apply(place.store, verb, found.ids, only) == 0 or verb == "cancel"
    if verb != "cancel":
        assert place.rows() == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_row_that_matches_no_more_is_left_alone(place, verb):
    """It may still be changed, but it isn't what was shown."""
    id = {"run_now": failed}.get(verb, dead)(place)
    only = Chosen(reason="timeout")
    found = care.match(place.store, verb, only)
    assert list(found.ids) == [id]
    change(place, id, reason="refused")
    before = place.rows()
    assert care.apply(place.store, verb, found.ids, only) == 0
    assert place.rows() == before
    assert care.apply(place.store, verb, found.ids, Chosen(reason="refused")) == 1


def test_every_filter_must_match(place):
    now = place.clock.now()
    lane = {"mail": LEASE_MS, "export": LEASE_MS}
    ids = [place.put(), place.put(queue="slow"), place.put("export"), place.put()]
    hand = place.hand(lane)
    reasons = ("timeout", "timeout", "timeout", "refused")
    for claim in hand.claim():
        place.clock.advance(1_000)
        hand.tick([at_rest(claim, "dead", reason=reasons[claim.id - ids[0]])])
    plain = keyed(place)

    def found(**wishes):
        return list(care.match(place.store, "cancel", Chosen(**wishes)).ids)

    assert found() == sorted([*ids, plain])
    assert found(state="dead") == [ids[2], ids[0], ids[1], ids[3]]  # by name and id
    assert found(name="mail", reason="timeout") == ids[:2]
    assert found(queue="slow") == [ids[1]]
    assert found(key="k") == found(key="k", name="mail") == [plain]
    assert found(key="k", name="export") == found(key="K") == found(key="*") == []
    assert found(state="dead", before=now + 2_000) == ids[:2]
    assert found(state="dead", since=now + 3_000) == ids[2:]
    assert found(state="dead", before=now + 2_000, since=now + 2_000) == [ids[1]]
    assert care.match(place.store, "cancel", Chosen(name="mail")).counts == {
        ("mail", "dead"): 3,
        ("mail", "waiting"): 1,
    }


@pytest.mark.parametrize("state", ["dead", "waiting"])
def test_pages_miss_nothing_and_show_nothing_twice(place, state, monkeypatch):
    monkeypatch.setattr(care, "READ", 7)
    ids = [place.put(name, delay_ms=9_000) for name in ("b", "a", "c", "a", "b") * 9]
    if state == "dead":
        for id in ids:
            change(place, id, due=None, rest="dead")
    found = care.match(place.store, "cancel", Chosen(state=state))
    assert sorted(found.ids) == ids
    assert care.apply(place.store, "cancel", found.ids) == len(ids)


def test_a_bulk_is_cut_into_short_transactions(place, monkeypatch):
    monkeypatch.setattr(care, "BATCH", 10)
    ids = [place.put(delay_ms=9_000) for _ in range(35)]
    written: list[str] = []
    place.store.database.connection.set_trace_callback(written.append)
    assert care.apply(place.store, "run_now", ids) == 35
    place.store.database.connection.set_trace_callback(None)
    assert sum(text.startswith("UPDATE") for text in written) == 4
    with contextlib.closing(sqlite3.connect(place.path)) as other:
        assert other.execute("SELECT DISTINCT due FROM nextdue_task").fetchall() == [(place.clock.now(),)]


@pytest.mark.parametrize("verb", ["retry", "run_now", "cancel"])
def test_the_workers_are_always_rung(place, verb):
    """Although an earlier row of the lane hides the changed one from the ring rule."""
    place.put(due_ms=1)
    id = {"retry": dead}.get(verb, waiting)(place)
    wake = place.path.with_name(place.path.name + "-wake")
    wake.write_bytes(b"")
    care.apply(place.store, verb, [id])
    assert wake.read_bytes() == b"\n"


def test_old_lines_of_the_history_go_and_kept_results_stay(place):
    hand = place.hand()
    ids = []
    for _ in range(4):
        ids.append(place.put())
        (claim,) = hand.claim()
        hand.tick([done(claim)])
        place.clock.advance(1_000)
    connection = place.store.database.connection
    connection.execute("UPDATE nextdue_run SET keep = ? WHERE task = ?", (place.clock.now() + 1, ids[1]))
    connection.execute("UPDATE nextdue_run SET keep = ? WHERE task = ?", (place.clock.now(), ids[2]))
    only = Chosen(before=place.clock.now() - 2_000)
    found = care.match(place.store, "purge", only)
    assert (list(found.ids), len(found.lines)) == ([], 2)
    for other in (Chosen(before=only.before, queue="default"), Chosen(state="done")):
        assert not care.match(place.store, "purge", other).lines
    assert care.purge_lines(place.store, found.lines, only) == 2
    assert {run.task for run in place.store.runs()} == {ids[1], ids[3]}


def listed(place, only, **options):
    return [task.id for task in care.listed(place.store, only, **options)]


def test_a_list_shows_the_nearest_due_then_what_needs_a_person(place):
    """The order of find(), but for the finished: those come after the held."""
    made = {make.__name__: make(place) for make in (dead, held, blocked)}
    now = place.clock.now()
    late, soon = place.put(due_ms=now + 900), place.put("export", queue="slow", due_ms=now + 100)
    gone = cancelled(place)
    everything = [soon, late, made["blocked"], made["dead"], made["held"], gone]
    assert listed(place, Chosen(), limit=10) == everything
    assert listed(place, Chosen(), limit=2) == everything[:2]
    assert listed(place, Chosen(state="waiting"), limit=9) == everything[:3]
    assert listed(place, Chosen(queue="slow"), limit=9) == [soon]
    assert listed(place, Chosen(state="held"), limit=9) == [made["held"]]
    assert listed(place, Chosen(key="k"), limit=9) == [gone]
    assert running(place) in listed(place, Chosen(state="running"), limit=9)
    assert not {soon, late, gone} & set(listed(place, Chosen(state="running"), limit=9))
    assert listed(place, Chosen(state="done"), limit=9) == []


def test_a_list_by_age_begins_with_the_longest_untouched(place):
    first, second = place.put(delay_ms=9_000), place.put()
    place.clock.advance(100)
    third = place.put(delay_ms=1)
    place.clock.advance(100)
    hand, claim = claimed(place, second)
    hand.tick([at_rest(claim, "dead")])
    assert listed(place, Chosen(), limit=9, sort="age") == [first, third, second]
    assert listed(place, Chosen(state="dead"), limit=9, sort="age") == [second]
