"""`nextdue ls`, `show`, `why` and `cancel` of one task: what a person and a program are told of tasks."""

import json

import pytest

from nextdue.records import Serving

HOUR = 3_600_000


def add(shop, *orders, **options):
    return [shop.nd.tasks["receipt"].using(**options).enqueue(n).id for n in orders]


def worked(shop):
    """Run all that is due, in this process."""
    shop.nd.run(1, once=True)


def test_ls_shows_the_nearest_first(shop, cli):
    add(shop, 1, delay="2h")
    add(shop, 2, delay="1h", key="a")
    shop.nd.tasks["letter"].using(delay="30m").enqueue("Ada")
    code, out, _ = cli("ls", "shop.db")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["ID", "NAME", "STATE", "DUE", "(UTC)", "KEY", "FAILED", "ARGS"]
    assert [line.split()[0] for line in lines[1:]] == ["3", "2", "1"]
    assert ", in 30 min " in lines[1]
    assert len({line.index("waiting") for line in lines[1:]}) == 1
    assert not set(out) & set("│┃━─")


def test_ls_filters_and_says_that_there_is_more(shop, cli):
    add(shop, *range(1, 6), delay="1h")
    shop.nd.tasks["letter"].enqueue("Ada")
    assert "... and more; --limit 20 shows them" in cli("ls", "shop.db", "--limit", "2")[1]
    assert [t["name"] for t in json.loads(cli("ls", "shop.db", "--queue", "mail", "--json")[1])] == ["letter"]
    assert len(json.loads(cli("ls", "--json", "shop.db", "--name", "receipt", "--state", "waiting")[1])) == 5
    assert cli("ls", "shop:nd", "--state", "held")[1] == f"no such task in {shop.path}\n"


def test_ls_finds_finished_tasks_that_have_no_row_any_more(shop, cli):
    add(shop, 1)
    add(shop, 2, key="k")
    worked(shop)
    cli("cancel", "shop.db", *add(shop, 3, delay="1h"))
    done = json.loads(cli("ls", "shop.db", "--state", "done", "--json")[1])
    assert {(t["id"], t["key"], t["state"]) for t in done} == {(1, None, "done"), (2, "k", "done")}
    assert [t["id"] for t in json.loads(cli("ls", "shop.db", "--state", "cancelled", "--json")[1])] == [3]


def test_hostile_text_plays_no_tricks(shop, cli):
    shop.sql("INSERT INTO nextdue_tasks(name, args) VALUES ('a' || char(27) || '[31m', '[\"\u202e\"]')")
    for command in (("ls", "shop.db"), ("show", "shop.db", 1), ("why", "shop.db", 1)):
        out = cli(*command)[1]
        assert "a\\x1b[31m" in out
        assert not {"\x1b", "\u202e"} & set(out)


def test_show_tells_all_with_the_runs(shop, cli):
    add(shop, 13, key="k")
    worked(shop)
    code, out, _ = cli("show", "shop.db", "receipt", "k")
    assert code == 0
    for line in (
        "id             1",
        "key            k",
        "args           [13]",
        "message        ValueError: unlucky (shop.py:13 in receipt)",
    ):
        assert line in out.splitlines()
    assert "claimed        once, failed once, crashed never" in out
    task = json.loads(cli("show", "shop:nd", 1, "--json")[1])
    assert (task["args"], task["attempts"], task["due"][-1]) == ([13], 1, "Z")
    (run,) = task["runs"]
    assert (run["outcome"], run["reason"], run["worker"]) == ("failed", "ValueError", 1)
    assert run["ended_ms"] >= run["started_ms"]


def test_the_environment_may_name_the_target(shop, cli, monkeypatch):
    add(shop, 1, key="7")
    monkeypatch.setenv("NEXTDUE", "shop.db")
    for words in (("1",), ("#1",), ("receipt", "7"), ("shop.db", "1"), ("shop:nd", "receipt", "7")):
        assert json.loads(cli("show", *words, "--json")[1])["id"] == 1
    assert cli("ls")[0] == cli("check")[0] == 0


@pytest.mark.parametrize(
    "words", [("99",), ("x",), ("receipt", "nokey"), ("receit", "k"), ("-1",), ("9" * 25,), ("9" * 40,)]
)
def test_a_task_that_is_not_there(shop, cli, words):
    add(shop, 1)
    for command in ("show", "why", "cancel"):
        code, out, err = cli(command, "shop.db", *words)
        assert (code, out) == (2, "")
        assert "Traceback" not in err


def test_cancel_stops_only_what_waits(shop, cli):
    (waiting,) = add(shop, 1, delay="1h")
    assert cli("cancel", "shop.db", waiting) == (0, f"receipt #{waiting} is cancelled\n", "")
    assert cli("cancel", "shop.db", waiting)[:2] == (1, f"receipt #{waiting} was cancelled before\n")
    (running,) = add(shop, 2)
    hold(shop, running)
    code, out, _ = cli("cancel", "shop.db", running)
    asked = shop.sql("SELECT stop IS NOT NULL FROM nextdue_task WHERE id = ?", (running,))[0][0]
    said = "it was asked to stop" if asked else "it is left alone"
    assert (code, out) == (0 if asked else 1, f"receipt #{running} is running; {said}\n")
    code, out, _ = cli("cancel", "shop.db", running, "--json")
    assert (code, json.loads(out)["changed"], json.loads(out)["tasks"][0]["state"]) == (1, 0, "running")
    assert shop.nd.get(running).state == "running"


def hold(shop, id, due="(julianday('now') - 2440587.5) * 86400000 + 300000", worker=None):
    """The row as a worker that lives nowhere holds it."""
    if worker is None:
        (worker,) = shop.sql("INSERT INTO nextdue_worker(started, host, pid) VALUES (1, 'far', 4) RETURNING id")[0]
    shop.sql(
        f"UPDATE nextdue_task SET token = (? << 32) + 1, due = CAST({due} AS INTEGER), claims = 1, scheduled_for = 1 "
        "WHERE id = ?",
        (worker, id),
    )
    return worker


def why(cli, *words):
    code, out, err = cli("why", *words)
    assert (code, err) == (0, "")
    return out


def test_why_it_waits(shop, cli):
    (id,) = add(shop, 1, delay="2h")
    out = why(cli, "shop.db", id)
    assert out.startswith("receipt #1 is waiting.\nIt waits until its time comes: at ")
    assert "in 2 h." in out
    assert json.loads(cli("why", "shop.db", id, "--json")[1])["why"] == [out.splitlines()[1]]


def test_why_it_is_due_and_nobody_comes(shop, cli):
    (id,) = add(shop, 1)
    out = why(cli, "shop.db", id)
    assert "It is due since " in out
    assert "No worker lives on this file." in out


def test_why_it_is_due_and_a_worker_lives(shop, cli):
    shop.sql("INSERT INTO nextdue_tasks(name) VALUES ('stranger'), ('stranger')")
    with shop.nd.working(1):
        out = why(cli, "shop:nd", 2)
    assert "The application given here declares no task 'stranger', so its workers leave it alone." in out
    assert "Worker 1 (pid " in out
    assert "Due before it, of its name and queue: 1 task." in out
    assert "lives and holds 0 tasks, but doesn't serve its name and queue." in out
    assert "No living worker serves the name 'stranger' in the queue 'default'." in out


def test_why_it_is_due_and_the_right_worker_lives(shop, cli):
    (id,) = add(shop, 1)
    with shop.nd.caller.use() as store:
        worker = store.enlist()
        assert "serve" not in why(cli, "shop.db", id)  # it hasn't said yet
        for said in ("no json", "[1]", "[[], [2]]", "{}", "7"):
            shop.sql("UPDATE nextdue_worker SET serves = ? WHERE id = ?", (said, worker))
            assert "serve" not in why(cli, "shop.db", id)
        store.serve({"receipt": Serving(60_000)}, None)
        assert "serve" not in why(cli, "shop.db", id)
        store.serve({"receipt": Serving(60_000)}, ["mail"])
        assert "No living worker serves the name 'receipt' in the queue 'default'." in why(cli, "shop.db", id)
        store.lives.let_go()


def test_why_it_runs(shop, cli):
    (id,) = add(shop, 1)
    hold(shop, id)
    out = why(cli, "shop:nd", id)
    assert "Worker 1 (pid 4 on far) has it; its lease runs until " in out
    assert "It was claimed, or its lease last renewed, at " in out
    assert "dead" not in out
    hold(shop, id, due="1")
    assert "The lease is over: the next worker that is free takes the task." in why(cli, "shop.db", id)


def test_why_it_seems_to_run_in_a_dead_worker(shop, cli):
    (id,) = add(shop, 1)
    with shop.nd.caller.use() as store:
        worker = store.enlist()
        hold(shop, id, worker=worker)
        store.lives.let_go()
    assert "That worker is dead." in why(cli, "shop.db", id)


def test_why_it_is_tried_again_and_why_alone(shop, cli):
    add(shop, 13)
    worked(shop)
    out = why(cli, "shop.db", 1)
    assert "It failed once, the last time with: ValueError: unlucky (shop.py:13 in receipt)." in out
    assert "It is tried again: at " in out
    shop.sql("INSERT INTO nextdue_lane(queue, name, priority, alone) VALUES ('default', 'receipt', 0, 1)")
    shop.sql("UPDATE nextdue_task SET lane = (SELECT id FROM nextdue_lane WHERE alone), crashes = 2, due = 1")
    out = why(cli, "shop.db", 1)
    assert "Its worker died twice while it had this task." in out
    assert "so it is tried alone" in out


def test_why_it_ended(shop, cli):
    add(shop, 1)
    add(shop, 2, key="k")
    shop.sql("INSERT INTO nextdue_tasks(name, args) VALUES ('receipt', '[\"no number\"]')")
    worked(shop)
    assert "It finished at " in why(cli, "shop.db", 1)
    assert "by worker 1." in why(cli, "shop.db", "receipt", "k")
    assert "It is held until a person decides: " in why(cli, "shop.db", 3)
    (id,) = add(shop, 4, delay="1h", key="c")
    cli("cancel", "shop.db", id)
    assert "It was cancelled at " in why(cli, "shop.db", id)


def test_why_it_is_dead(shop, cli):
    add(shop, 1, key="k")
    shop.sql("UPDATE nextdue_task SET due = NULL, rest = 'dead', attempts = 12, reason = 'X', message = 'X: no'")
    out = why(cli, "shop.db", 1)
    assert "It is given up after it failed 12 times, the last time with: X: no." in out
    assert "starts it anew" in out
    shop.sql("UPDATE nextdue_task SET reason = 'worker_died', message = 'its worker died 3 times', key = NULL")
    out = why(cli, "shop.db", 1)
    assert "It is given up because its worker died 3 times." in out
    assert "`nextdue retry shop.db 1` starts it anew; `nextdue cancel shop.db 1` takes it away." in out
