"""`nextdue retry`, `run-now`, `cancel` and `purge`: named tasks at once, filters with a preview, refusals."""

import json

import pytest

from nextdue.sqlite import care
from tests.cli.test_look import add, hold, worked

VERBS = ("retry", "run-now", "cancel", "purge")


def rest(shop, id, state, **values):
    """The task at rest, as it might be after anything."""
    values = {"due": None, "rest": state} | values
    shop.sql(
        f"UPDATE nextdue_task SET {', '.join(f'{name} = ?' for name in values)} WHERE id = ?", (*values.values(), id)
    )
    return id


def states(shop):
    return dict(shop.sql("SELECT state, count(*) FROM nextdue_tasks GROUP BY state"))


def report(cli, *words):
    code, out, err = cli(*words, "--json")
    assert err == ""
    return code, json.loads(out)


def test_named_tasks_are_changed_at_once(shop, cli):
    one, two, three = add(shop, 1, 2, 3, delay="2h")
    rest(shop, one, "dead", attempts=12, reason="timeout")
    assert cli("run-now", "shop.db", two) == (0, f"receipt #{two} is due now\n", "")
    assert cli("retry", "shop:nd", f"#{one}") == (0, f"receipt #{one} is due now\n", "")
    worked(shop)
    assert [run.task for run in shop.nd.get(one).runs()] == [one]
    assert (shop.nd.get(one).state, shop.nd.get(two).state, shop.nd.get(three).state) == ("done", "done", "waiting")


def test_several_ids_and_a_key_in_the_environments_file(shop, cli, monkeypatch):
    ids = add(shop, 1, 2, delay="2h")
    add(shop, 3, delay="2h", key="7")
    monkeypatch.setenv("NEXTDUE", "shop.db")
    assert cli("cancel", *ids)[:2] == (0, f"receipt #{ids[0]} is cancelled\nreceipt #{ids[1]} is cancelled\n")
    assert cli("run-now", "receipt", "7")[:2] == (0, "receipt #3 is due now\n")
    assert cli("run-now", "shop.db", "receipt", "7")[0] == cli("run-now", "shop.db", 3)[0] == 0
    assert cli("cancel", "--name", "receipt", "--yes")[1].endswith("1 task is cancelled\n")


def test_what_can_not_be_is_left_alone_and_says_what_to_do(shop, cli):
    """F110: every state has an answer to every verb."""
    waiting, running, dead, held, paused, blocked = add(shop, *range(1, 7), delay="2h")
    hold(shop, running)
    rest(shop, dead, "dead", attempts=12, reason="timeout")
    rest(shop, held, "held", reason="arguments")
    rest(shop, paused, "held", reason="paused", wished=5)
    rest(shop, blocked, "blocked", wished=5, grp="")
    (done,) = add(shop, 7, key="done")
    rest(shop, done, "done", gone_at=1 << 50)
    (cancelled,) = add(shop, 8, delay="2h")
    shop.nd.get(cancelled).cancel()
    again = (
        "to run it again, put a new one, by on_conflict='replace', or free its key before: `nextdue purge shop.db 7`"
    )
    expected = {
        ("retry", waiting): f"is waiting and hasn't failed; `nextdue run-now shop.db {waiting}` starts it",
        ("retry", running): "is running; it is left alone",
        ("retry", done): f"is done; {again}",
        ("retry", cancelled): "is cancelled and its row is gone; put a new one",
        ("retry", paused): f"is paused; `nextdue resume shop.db {paused}` lets it go on",
        ("retry", blocked): f"is due already and waits for its limit; `nextdue why shop.db {blocked}` tells more",
        ("run-now", running): "is running already",
        ("run-now", dead): f"is dead; `nextdue retry shop.db {dead}` starts it anew",
        ("run-now", held): f"is held; `nextdue retry shop.db {held}` starts it anew",
        ("run-now", paused): f"is paused; `nextdue resume shop.db {paused}` lets it go on",
        ("run-now", blocked): f"is due already and waits for its limit; `nextdue why shop.db {blocked}` tells more",
        ("run-now", done): f"is done; {again}",
        ("run-now", cancelled): f"is cancelled; `nextdue retry shop.db {cancelled}` starts it anew",
        ("cancel", done): "is done already; nothing is changed",
        ("cancel", cancelled): "was cancelled before",
        ("purge", waiting): "is waiting; cancel it first",
        ("purge", running): "is running; it is left alone",
        ("purge", held): "is held for a person to decide; cancel it first",
        ("purge", cancelled): "has no row any more, only lines of the run history",
    }
    before = shop.sql("SELECT * FROM nextdue_task")
    for (verb, id), said in expected.items():
        assert cli(verb, "shop.db", id) == (1, f"receipt #{id} {said}\n", "")
    assert shop.sql("SELECT * FROM nextdue_task") == before


def test_what_waits_for_its_rate_keeps_its_slot(shop, cli):
    one, two, far = add(shop, 1, 2, delay="1h") + add(shop, 3, delay="9h")
    shop.sql("UPDATE nextdue_task SET attempts = 3, grp = '' WHERE id = ?", (two,))
    shop.sql("INSERT INTO nextdue_rate SELECT 'receipt', '', 0, max(due) FROM nextdue_task WHERE id <= ?", (two,))
    dues = shop.sql("SELECT due FROM nextdue_task ORDER BY id")
    code, out, _ = cli("run-now", "shop.db", one)
    assert (code, out.startswith("receipt #1 keeps its due at 20")) == (1, True)
    assert out.endswith(": its rate allows no earlier start\n")
    code, out, _ = cli("retry", "shop.db", two)
    assert (code, out.startswith("receipt #2 begins anew at 20")) == (0, True)
    assert shop.sql("SELECT due, attempts FROM nextdue_task ORDER BY id") == [(due, 0) for (due,) in dues]
    assert "Its rate allows no earlier start, so" in cli("why", "shop.db", one)[1]
    assert "Its rate" not in cli("why", "shop.db", far)[1]
    assert cli("run-now", "shop.db", far)[1] == "receipt #3 is due now\n"


def test_a_paused_queue_is_said(shop, cli):
    (id,) = add(shop, 1, delay="2h")
    shop.sql("INSERT INTO nextdue_pause VALUES ('queue', 'default', 1), ('name', 'receipt', 1)")
    assert cli("run-now", "shop.db", id)[1] == f"receipt #{id} is due now, but its queue and its name are paused\n"


def test_one_of_several_that_is_left_alone_makes_the_exit_code_1(shop, cli):
    one, two = add(shop, 1, 2, delay="2h")
    hold(shop, two)
    code, found = report(cli, "run-now", "shop.db", one, two, one)
    assert (code, found["changed"], found["left"], found["done"]) == (1, 1, 1, True)
    assert [(t["id"], t["changed"], t["state"]) for t in found["tasks"]] == [
        (one, True, "waiting"),
        (two, False, "running"),
    ]


def test_an_unknown_id_changes_nothing_of_the_others(shop, cli):
    (id,) = add(shop, 1, delay="2h")
    for verb in VERBS:
        code, out, err = cli(verb, "shop.db", id, 99)
        assert (code, out) == (2, "")
        assert "there is no task 99" in err
    assert shop.nd.get(id).state == "waiting"


def test_a_bulk_shows_and_does_nothing_without_yes(shop, cli):
    ids = add(shop, *range(1, 13), delay="2h")
    for id in ids:
        rest(shop, id, "dead", attempts=12, reason="timeout" if id < 12 else "refused")
    before = shop.sql("SELECT * FROM nextdue_task")
    code, out, _ = cli("retry", "shop.db", "--reason", "timeout")
    lines = out.splitlines()
    assert code == 2
    assert lines[0] == f"In {shop.path} 11 tasks match:"
    assert lines[1].split() == ["NAME", "STATE", "COUNT"]
    assert lines[2].split() == ["receipt", "dead", "11"]
    assert lines[3] == "The first 10:"
    assert [line.split()[0] for line in lines[5:15]] == [str(id) for id in ids[:10]]
    assert lines[15:] == ["Nothing is changed. --yes does it."]
    code, found = report(cli, "retry", "shop.db", "--reason", "timeout")
    assert (code, found["done"], found["changed"], found["left"]) == (2, False, 0, 0)
    assert found["matched"] == [{"name": "receipt", "state": "dead", "count": 11}]
    assert [task["id"] for task in found["tasks"]] == ids[:10]
    assert shop.sql("SELECT * FROM nextdue_task") == before
    code, out, _ = cli("retry", "shop.db", "--reason", "timeout", "--yes")
    assert (code, out.splitlines()[-1]) == (0, "11 tasks are due now")
    assert states(shop) == {"waiting": 11, "dead": 1}


def test_a_bulk_tells_what_it_left_alone(shop, cli, monkeypatch):
    ids = add(shop, 1, 2, 3, delay="2h")
    match = care.match

    def and_then_somebody_claims(*args):
        found = match(*args)
        hold(shop, ids[1])
        return found

    monkeypatch.setattr(care, "match", and_then_somebody_claims)
    code, out, _ = cli("run-now", "shop.db", "--name", "receipt", "--yes")
    assert code == 0
    assert out.splitlines()[-1].startswith("2 tasks are due now; 1 changed meanwhile")
    assert shop.nd.get(ids[1]).state == "running"


def test_nothing_matches(shop, cli):
    add(shop, 1, delay="2h")
    for words in ((), ("--yes",)):
        assert cli("retry", "shop.db", "--state", "dead", *words) == (0, f"no such task in {shop.path}\n", "")


def test_cancel_in_bulk_says_of_those_that_run(shop, cli):
    ids = add(shop, 1, 2, delay="2h")
    hold(shop, ids[1])
    out = cli("cancel", "shop.db", "--queue", "default", "--yes")[1]
    assert "cancelled, or asked to stop where they run" in out.splitlines()[-1]
    assert shop.nd.get(ids[0]).state == "cancelled"


def test_purge_takes_the_finished_and_old_history(shop, cli, capsys):
    """F116, F121: what is removed is counted before, those that still guard their keys apart."""
    add(shop, 1)
    add(shop, 2, key="k")
    worked(shop)
    (dead,) = add(shop, 3, delay="2h")
    rest(shop, dead, "dead")
    add(shop, 4, delay="2h")
    capsys.readouterr()
    shop.sql("UPDATE nextdue_task SET created = created - 864000000")
    shop.sql("UPDATE nextdue_run SET ended = ended - 864000000")
    assert cli("purge", "shop.db", "--older-than", "11d")[1] == f"no such task in {shop.path}\n"
    code, out, _ = cli("purge", "shop.db", "--older-than", "9d")
    assert code == 2
    assert "Of these, 1 still guard their keys: a task with such a key can then run again." in out
    assert "Of the run history 2 lines match." in out
    code, found = report(cli, "purge", "shop.db", "--older-than", "9d", "--yes")
    assert (code, found["changed"], found["lines"], found["lines_removed"]) == (0, 2, 2, 2)
    assert states(shop) == {"waiting": 1}
    assert shop.sql("SELECT count(*) FROM nextdue_runs") == [(0,)]


MISTAKES = [
    ((), "which tasks? Give ids, a name and a key, or a filter"),
    (("--yes",), "which tasks?"),
    (("1", "--name", "receipt"), "give ids or filters, not both"),
    (("--name", "receit"), "did you mean receipt?"),
    (("--queue", "defalt"), "did you mean default?"),
    (("--older-than", "soon"), "--older-than: can't read 'soon'"),
    (("--older-than", "2d", "--newer-than", "1d"), "nothing is older than 2d and newer than 1d"),
    (("--state", "lost"), "invalid choice"),
    (("1", "x"), "[TARGET] NAME KEY"),
    (("x",), "is no id"),
]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_changes_nothing(shop, cli, verb, words, said):
    add(shop, 1, delay="2h")
    before = shop.sql("SELECT * FROM nextdue_task")
    code, out, err = cli(verb, "shop.db", *words)
    assert (code, out) == (2, "")
    assert said in err or (words == ("1", "x") and "no task is called '1'" in err)
    assert "Traceback" not in err
    assert shop.sql("SELECT * FROM nextdue_task") == before


@pytest.mark.parametrize(
    ("verb", "state", "takes"),
    [
        ("retry", "running", "waiting, dead, cancelled, held"),
        ("run-now", "dead", "waiting"),
        ("cancel", "done", "waiting, running, dead, held"),
        ("purge", "held", "done, dead, cancelled"),
    ],
)
def test_a_state_that_a_verb_never_takes(shop, cli, verb, state, takes):
    add(shop, 1, delay="2h")
    assert cli(verb, "shop.db", "--state", state)[2] == f"nextdue: --state {state}: {verb} takes only {takes}\n"
