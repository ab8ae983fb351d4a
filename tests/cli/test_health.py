"""`nextdue health`: exit code 0 only if all that is due is being run, and nobody is blamed for what can't run."""

import json

import pytest

from nextdue import Every
from nextdue.cli.times import utc
from nextdue.records import Serving
from tests.cli.test_bulk import rest
from tests.cli.test_look import add

MINUTE = 60_000


@pytest.fixture
def health(cli):
    def ask(*words):
        code, out, err = cli("health", *(words or ("shop.db",)), "--json")
        assert err == ""
        found = json.loads(out)
        assert found["healthy"] == (code == 0)
        return code, found, {(f["level"], f["about"]): f["text"] for f in found["findings"]}

    return ask


@pytest.fixture
def living(shop):
    """A worker that lives and takes nothing: its lock is held, and it never ticks."""
    shop.nd.tasks["receipt"].using(delay="1d").enqueue(0)
    with shop.nd.caller.use() as store:
        store.enlist()
        yield shop
        store.lives.let_go()


def late(shop, *, minutes, name="receipt", queue="default", count=1):
    """Tasks that fell due so long ago."""
    for n in range(count):
        shop.sql("INSERT INTO nextdue_tasks(name, queue, args) VALUES (?, ?, ?)", (name, queue, f"[{n}]"))
    shop.sql(
        "UPDATE nextdue_task SET due = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ? WHERE id IN "
        "(SELECT id FROM nextdue_task ORDER BY id DESC LIMIT ?)",
        (minutes * MINUTE, count),
    )


def test_no_worker_ever_ran(shop, cli, health):
    """F123."""
    add(shop, 1, delay="1h")
    code, found, said = health()
    assert (code, found["worker_ever"], found["workers"]) == (1, False, 0)
    assert said["bad", "worker"].startswith("no worker ever ran on this file")
    out = cli("health", "shop.db")[1]
    assert out.splitlines()[0] == f"{shop.path} is NOT healthy"


def test_no_worker_lives_and_what_did_not_run_since(shop, health, capsys):
    """F123, F038: after a downtime it says what didn't run, how many, and since when."""
    add(shop, 1)
    shop.nd.run(1, once=True)
    capsys.readouterr()
    late(shop, minutes=180, count=3)
    late(shop, minutes=60, name="letter", queue="mail")
    code, found, said = health()
    assert (code, found["worker_ever"]) == (1, True)
    assert said["bad", "worker"].startswith("no worker lives; the last run ended at ")
    assert [(kind["name"], kind["queue"], kind["overdue"]) for kind in found["late"]] == [
        ("receipt", "default", 3),
        ("letter", "mail", 1),
    ]
    texts = [f["text"] for f in found["findings"] if f["about"] == "late"]
    since = f"{found['late'][0]['since'][:19].replace('T', ' ')} UTC"
    assert texts[0].startswith(f"receipt: 3 didn't run, since {since}, 3 h")
    assert texts[1].startswith("letter in mail: 1 didn't run, since ")


@pytest.mark.parametrize("ever", [False, True])
def test_a_schedule_that_nobody_runs_is_late(shop, health, ever, capsys):
    """F123: its next run is no promise: overdue without a worker, or beside a dead one, it is not healthy."""
    shop.nd.schedules.put(shop.nd.tasks["receipt"], Every("1h"), args=(1,))
    if ever:
        shop.nd.run(1, once=True)
        capsys.readouterr()
    shop.sql("UPDATE nextdue_task SET due = due - ?", (2 * 60 * MINUTE,))
    code, found, said = health()
    assert (code, found["worker_ever"]) == (1, ever)
    assert [(kind["name"], kind["overdue"]) for kind in found["late"]] == [("receipt", 1)]
    assert said["bad", "late"].startswith("receipt: 1 didn't run, since ")


def test_a_worker_of_which_nobody_knows_is_none_that_lives(shop, health):
    add(shop, 1, delay="1h")
    shop.sql("INSERT INTO nextdue_worker(started, host, pid) VALUES (1, 'far', 4)")
    code, found, said = health()
    assert (code, found["workers"]) == (1, 0)
    assert said["bad", "worker"] == "no worker is known to live; of worker 1 (pid 4 on far) it can't be told"


def test_what_a_person_did_is_no_run(shop, health):
    (id,) = add(shop, 1, delay="1h")
    assert shop.nd.get(id).cancel()
    assert health()[1]["last_run"] is None


def test_a_worker_lives_and_nothing_is_late(living, cli, health):
    code, found, said = health()
    assert (code, found["workers"], found["late"]) == (0, 1, [])
    assert said["ok", "late"] == "nothing that could run is overdue"
    assert cli("health", "shop:nd")[1].splitlines()[0] == f"{living.path} is healthy"


def test_late_is_what_max_late_says(living, health):
    late(living, minutes=4)
    code, _, said = health()
    assert code == 0
    assert said["ok", "late"].startswith("the oldest is receipt, overdue for 4 min")
    assert health("shop.db", "--max-late", "3m")[0] == 1
    late(living, minutes=6)
    assert health()[0] == 1
    assert health("shop.db", "--max-late", "10m")[0] == 0


def test_an_expired_lease_is_late_too(living, health):
    late(living, minutes=10)
    living.sql("UPDATE nextdue_task SET token = (1 << 32) + 1, claims = 1, scheduled_for = 1 WHERE id = 2")
    assert health()[0] == 1
    living.sql("UPDATE nextdue_task SET due = due + 3600000 WHERE id = 2")
    assert health()[0] == 0


@pytest.mark.parametrize(("kind", "word"), [("queue", "default"), ("name", "receipt")])
def test_what_is_paused_is_named_and_no_failure(living, health, kind, word):
    late(living, minutes=60, count=2)
    assert health()[0] == 1
    living.sql("INSERT INTO nextdue_pause VALUES (?, ?, 1000)", (kind, word))
    code, found, said = health()
    assert code == 0
    assert said["note", "paused"].startswith(f"{kind} {word} since 1970-01-01 00:00:01 UTC")
    assert said["note", "paused"].endswith("; 2 overdue")
    assert [one["why"] for one in found["late"]] == ["paused"]


def test_a_restored_file_is_named_and_no_failure(living, health):
    late(living, minutes=60, count=2)
    living.sql("INSERT INTO nextdue_meta VALUES ('restored', 1000)")
    code, found, said = health()
    assert code == 0
    assert said["note", "restore"].startswith("a restored backup, held since 1970-01-01 00:00:01 UTC")
    assert said["note", "restore"].endswith("; 2 overdue; nextdue release shop.db ends that")
    assert [one["why"] for one in found["late"]] == ["paused"]
    assert found["restored_ms"] == 1000


def test_what_is_blocked_by_its_limit_is_named_and_no_failure(living, health):
    ids = add(living, 1, 2, 3, 4)
    for id, group in zip(ids, ("a", "a", "b", "c"), strict=True):
        rest(living, id, "blocked", wished=1_000 * id, grp=group)
    add(living, 5, delay="1h")
    code, found, said = health()
    assert code == 0
    assert found["blocked"] == [{"name": "receipt", "count": 4, "since": utc(2_000), "since_ms": 2_000}]
    assert said["note", "blocked"].startswith("4 receipt wait for their limit, the longest since 1970-01-01 00:00:02")


def test_a_name_that_nobody_declares_is_told_apart_where_that_can_be_known(living, health):
    """F091, F092, F129."""
    late(living, minutes=60, name="stranger")
    code, found, said = health("shop:nd")
    assert (code, found["late"][0]["why"]) == (0, "unknown")
    assert said["note", "unknown"].endswith("; the application declares no such task")
    code, found, said = health("shop.db")
    assert (code, found["late"][0]["served"]) == (1, None)  # the worker hasn't said what it serves
    with living.nd.caller.use() as store:
        store.serve({"receipt": Serving(60_000)}, None)
    code, found, said = health("shop.db")
    assert (code, found["late"][0]["served"]) == (1, False)  # their worker may be down: that must be told
    assert said["bad", "late"].endswith("; no living worker serves them")
    late(living, minutes=60, name="bill")  # an alias
    assert health("shop:nd")[0] == 1


def test_the_dead_the_held_and_single_paused_ones_are_counted(living, health):
    ids = add(living, *range(1, 7), delay="1h")
    for id in ids[:3]:
        rest(living, id, "dead")
    rest(living, ids[3], "held", reason="arguments")
    for id in ids[4:]:
        rest(living, id, "held", reason="paused", wished=1)
    code, found, said = health()
    assert (code, found["dead"], found["held"]) == (0, {"receipt": 3}, {"receipt": 1})
    assert found["paused_tasks"] == {"receipt": 2}
    assert said["note", "dead"] == "receipt (3): nextdue ls shop.db --state dead"
    assert said["note", "paused"] == "receipt: 2 paused one by one"


def test_looking_makes_no_file_and_changes_none(shop, cli, living):
    assert cli("health", "nofile.db")[0] == 2
    assert not (shop.folder / "nofile.db").exists()
    before = living.sql("PRAGMA data_version"), shop.path.read_bytes()
    cli("health", "shop.db")
    assert (living.sql("PRAGMA data_version"), shop.path.read_bytes()) == before
    assert cli("health", "shop.db", "--max-late", "soon")[0] == 2


def test_what_is_many_is_not_counted_to_the_end(living, health, monkeypatch):
    monkeypatch.setattr("nextdue.sqlite.health.MOST", 4)
    monkeypatch.setattr("nextdue.cli.health.MOST", 4)
    late(living, minutes=60, count=9)
    assert "over 3 didn't run" in health()[2]["bad", "late"]
