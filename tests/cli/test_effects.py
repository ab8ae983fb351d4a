"""What users see of steps, of waits and of what comes after what: ls, show, why, resolve, send."""

import json

import pytest

from nextdue import BadArguments, NotInDoubt, TaskFailed

SHOP = """
    import os
    from pathlib import Path
    from nextdue import Context, Nextdue, Retry

    nd = Nextdue(Path(__file__).with_name("shop.db"))

    def send(to: str) -> int:
        if Path("broken").exists():
            raise OSError("no answer")
        with open("mails.txt", "a") as file:
            file.write(to + chr(10))
        if Path("die").exists():
            Path("die").unlink()
            os._exit(9)
        return 250

    @nd.task(keep_result=True)
    def letter(ctx: Context, to: str, in_doubt: str = "hold") -> int:
        ctx.step("open", str.upper, to)
        return ctx.step("mail", send, to, in_doubt=in_doubt)

    @nd.task(retry=Retry(limit=1), keep_result=True)
    def download(broken: bool = False) -> int:
        if broken:
            raise ValueError("no such page")
        return 7

    @nd.task
    def report(ctx: Context) -> None:
        print("report of", ctx.results, flush=True)

    @nd.task
    def ship(ctx: Context, order: int, most: str | None = None) -> None:
        print("paid by", ctx.wait_for(f"paid:{order}", most), flush=True)

    @nd.task
    def nap(ctx: Context) -> None:
        ctx.sleep("night", "8h")
"""


@pytest.fixture
def effects(shop):
    shop.write(SHOP)
    return shop


def work(shop):
    return shop.run("worker", "shop:nd", "--once")


def mails(shop):
    file = shop.folder / "mails.txt"
    return file.read_text().split() if file.exists() else []


def in_doubt(shop, how="hold"):
    """A letter whose worker died between the effect and its mark; then a worker looked at it again."""
    (shop.folder / "die").touch()
    handle = shop.nd.tasks["letter"].enqueue("Ada", how)
    assert work(shop)[0] == 9
    assert mails(shop) == ["Ada"]
    shop.nd.pause(name="letter")
    assert work(shop)[0] == 0  # which gives it back, for its worker is dead
    shop.nd.resume(name="letter")
    handle.run_now()  # whatever the back-off after a crash
    return handle


def test_a_step_in_doubt_is_listed_and_explained(effects, cli):
    in_doubt(effects)
    assert work(effects)[0] == 0
    code, out, _ = cli("ls", "shop.db", "--held")
    assert code == 0
    head, line = out.splitlines()
    assert head.split()[:2] == ["ID", "NAME"]
    assert line.split()[:2] == ["1", "letter"]
    assert line.endswith("in doubt: mail")
    assert " ago" in line
    assert "held (in doubt: mail)" in cli("ls", "shop.db")[1]
    assert cli("ls", "shop.db", "--held", "--state", "held")[1].splitlines()[1].split()[0] == "1"
    (row,) = json.loads(cli("ls", "shop.db", "--held", "--json")[1])
    assert (row["in_doubt"], row["held_for"]) == (["mail"], "in doubt: mail")
    assert row["since_ms"] > row["created_ms"]
    shown = cli("show", "shop.db", "1")[1]
    assert "open: done at" in shown
    assert 'it returned "ADA"' in shown
    assert "mail: in doubt, begun at" in shown
    said = cli("why", "shop.db", "1")[1]
    assert "`nextdue resolve shop.db 1 mail --happened`" in said
    assert "`nextdue resolve shop.db 1 mail --not-happened`" in said
    assert [doubt.label for doubt in effects.nd.get(1).doubts()] == ["mail"]
    assert mails(effects) == ["Ada"]


def test_resolved_as_happened_it_goes_on_after_it(effects, cli):
    handle = in_doubt(effects)
    work(effects)
    code, out, _ = cli("resolve", "shop.db", handle.id, "mail", "--happened", "--result", "250")
    assert (code, out) == (0, "step 'mail' of letter #1 has happened; the task is due now\n")
    work(effects)
    assert handle.result(timeout=0) == 250
    assert mails(effects) == ["Ada"]


def test_resolved_as_not_happened_it_is_made(effects, cli):
    handle = in_doubt(effects)
    work(effects)
    code, out, _ = cli("resolve", "shop:nd", "#1", "mail", "--not-happened", "--json")
    assert code == 0
    said = json.loads(out)
    assert (said["released"], said["state"], said["in_doubt"]) == (True, "waiting", [])
    work(effects)
    assert handle.result(timeout=0) == 250
    assert mails(effects) == ["Ada", "Ada"]


def test_a_program_resolves_too(effects):
    handle = in_doubt(effects)
    work(effects)
    with pytest.raises(NotInDoubt, match="in doubt are: 'mail'"):
        handle.resolve("open", happened=True)
    with pytest.raises(BadArguments, match="returned nothing"):
        handle.resolve("mail", happened=False, result=1)
    with pytest.raises(BadArguments, match="JSON"):
        handle.resolve("mail", happened=True, result=object())
    with pytest.raises(TaskFailed, match="`nextdue resolve`, decide whether it happened"):
        handle.result(timeout=0)
    assert handle.doubts() != []
    assert handle.resolve("mail", happened=True, result=250)
    assert (handle.state, handle.doubts()) == ("waiting", [])
    work(effects)
    assert handle.result(timeout=0) == 250


def test_before_a_worker_looks_at_it_again_it_can_be_resolved_too(effects, cli):
    handle = in_doubt(effects)
    assert "mail: in doubt" in cli("show", "shop.db", "1")[1]
    assert "Step 'mail' is in doubt: the next run will not come before it is resolved." in cli("why", "shop.db", "1")[1]
    out = cli("resolve", "shop.db", "1", "mail", "--happened", "--result", "1")[1]
    assert "the task goes on by itself" in out
    work(effects)
    assert handle.result(timeout=0) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("1", "mail"), "has it happened?"),
        (("1", "mail", "--happened", "--not-happened"), "has it happened?"),
        (("1", "mail", "--not-happened", "--result", "1"), "--result goes with --happened"),
        (("1", "mail", "--happened", "--result", "{"), "--result isn't JSON"),
        (("1", "mail", "--happened", "--result", "NaN"), "--result isn't JSON"),
        (("1", "post", "--happened"), "in doubt are: 'mail'"),
        (("1", "open", "--happened"), "in doubt are: 'mail'"),
        (("1", "@event x", "--happened"), "in doubt are: 'mail'"),
        (("2", "mail", "--happened"), "there is no task 2"),
        (("letter", "k", "mail", "--happened"), "no task 'letter' with the key 'k'"),
        (("1", "--happened"), "give [TARGET] ID LABEL"),
        (("1", "2", "mail", "--happened"), "one task and one of its steps"),
    ],
)
def test_a_wrong_resolve_changes_nothing(effects, cli, words, says):
    in_doubt(effects)
    work(effects)
    before = effects.sql("SELECT * FROM nextdue_mark"), effects.sql("SELECT * FROM nextdue_task")
    code, out, err = cli("resolve", "shop.db", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert (effects.sql("SELECT * FROM nextdue_mark"), effects.sql("SELECT * FROM nextdue_task")) == before


def test_what_runs_or_is_done_cannot_be_resolved(effects, cli):
    handle = in_doubt(effects)
    effects.sql("UPDATE nextdue_task SET token = (9 << 32) + 1")
    assert "task #1 runs" in cli("resolve", "shop.db", "1", "mail", "--happened")[2]
    effects.sql("UPDATE nextdue_task SET token = NULL")
    assert not handle.resolve("mail", happened=True, result=1)
    work(effects)
    code, _, err = cli("resolve", "shop.db", "1", "mail", "--happened")
    assert code == 2
    assert "it is done: it has no steps any more" in err


def test_a_paused_queue_is_said_after_resolving(effects, cli):
    in_doubt(effects)
    work(effects)
    cli("pause", "shop.db", "--queue", "default")
    assert "due now, but its queue is paused" in cli("resolve", "shop.db", "1", "mail", "--not-happened")[1]


def test_a_task_that_is_dead_with_a_doubt_is_retried_after_it(effects, cli):
    handle = in_doubt(effects)
    effects.sql("UPDATE nextdue_task SET due = NULL, rest = 'dead', reason = 'OSError'")
    out = cli("resolve", "shop.db", "1", "mail", "--happened", "--result", "5")[1]
    assert "the task is dead: `nextdue retry shop.db 1` lets it go on after its steps" in out
    cli("retry", "shop.db", "1")
    work(effects)
    assert handle.result(timeout=0) == 5
    assert mails(effects) == ["Ada"]


# what comes after what


def test_what_waits_for_others_says_so(effects, cli):
    first = effects.nd.tasks["download"].using(delay="1h").enqueue()
    effects.nd.tasks["report"].using(after=[first]).enqueue()
    listed = cli("ls", "shop.db", "--state", "waiting")[1]
    assert "waiting (waits for #1)" in listed
    assert {task.id for task in effects.nd.find(state="waiting")} == {1, 2}
    assert [task.id for task in effects.nd.find(state="waiting", name="report")] == [2]
    assert "after it  report #2, waiting" in cli("show", "shop.db", "1")[1]
    assert "download #1, waiting" in cli("show", "shop.db", "2")[1]
    assert "It comes after download #1, which is waiting." in cli("why", "shop.db", "2")[1]
    shown = json.loads(cli("show", "shop.db", "2", "--json")[1])
    assert shown["waits_for"][0]["task"] == 1
    assert json.loads(cli("show", "shop.db", "1", "--json")[1])["after_it"] == [
        {"id": 2, "name": "report", "state": "waiting"}
    ]
    code, out, _ = cli("run-now", "shop.db", "2")
    assert (code, out) == (1, "report #2 waits for #1; `nextdue why shop.db 2` tells more\n")
    assert "1 report wait for other tasks or events" in cli("health", "shop.db")[1]
    assert "2 waiting" in cli("doctor", "shop.db")[1]
    assert "waiting    2, 1 of them for other tasks or events" in work(effects)[1]
    assert cli("run-now", "shop.db", "1")[0] == 0
    work(effects)
    assert "report of [7]" in work(effects)[1]


def test_a_dead_parent_holds_it_and_what_to_do_is_said(effects, cli):
    first = effects.nd.tasks["download"].enqueue(True)
    second = effects.nd.tasks["report"].using(after=[first]).enqueue()
    work(effects)
    line = cli("ls", "shop.db", "--held")[1].splitlines()[1]
    assert "task #1, which it comes after, is dead" in line
    assert " ago" in line
    assert "held (comes after #1)" in cli("ls", "shop.db")[1]
    said = cli("why", "shop.db", "2")[1]
    assert "`nextdue retry shop.db 1` starts that one anew" in said
    cli("retry", "shop.db", "2")
    assert "report of [None]" in work(effects)[1]
    assert second.state == "done"


# events


def test_an_event_is_waited_for_and_sent(effects, cli):
    handle = effects.nd.tasks["ship"].enqueue(42)
    work(effects)
    assert "waiting (waits for paid:42)" in cli("ls", "shop.db")[1]
    assert "It waits for the event 'paid:42', since" in cli("why", "shop.db", "1")[1]
    assert "waits for      event paid:42" in cli("show", "shop.db", "1")[1]
    assert cli("send", "shop.db", "paid:42", '{"amount": 1990}')[:2] == (
        0,
        "event paid:42 is sent, and kept for 7d\n",
    )
    assert "paid by {'amount': 1990}" in work(effects)[1]
    assert handle.state == "done"
    code, out, _ = cli("send", "shop.db", "paid:42", "--json")
    assert (code, json.loads(out)) == (1, {"event": "paid:42", "sent": False})
    effects.nd.tasks["ship"].enqueue(42)
    assert "paid by {'amount': 1990}" in work(effects)[1]


def test_a_wait_with_an_end_and_a_sleep_say_until_when(effects, cli):
    effects.nd.tasks["ship"].enqueue(42, "2h")
    effects.nd.tasks["nap"].enqueue()
    work(effects)
    assert "event paid:42, at most until" in cli("show", "shop.db", "1")[1]
    assert "(waits for paid:42)" in cli("ls", "shop.db")[1]
    assert ", at most until" in cli("why", "shop.db", "1")[1]
    assert "waiting (sleeps)" in cli("ls", "shop.db")[1]
    assert "It sleeps, since" in cli("why", "shop.db", "2")[1]
    assert "(night)" in cli("show", "shop.db", "2")[1]


@pytest.mark.parametrize(
    ("variable", "words", "sent"),
    [
        (None, ("shop.db", "paid:1"), ("paid:1", None)),
        (None, ("shop:nd", "paid:1", "5"), ("paid:1", "5")),
        ("shop.db", ("paid:1",), ("paid:1", None)),
        ("shop.db", ("paid:1", "5"), ("paid:1", "5")),
        ("shop.db", ("shop:nd", "paid:1"), ("paid:1", None)),
        ("nosuch.db", ("shop.db", "paid:1", "[]"), ("paid:1", "[]")),
    ],
)
def test_the_target_of_an_event_may_be_left_out(effects, cli, monkeypatch, variable, words, sent):
    effects.nd.tasks["nap"].enqueue()
    if variable:
        monkeypatch.setenv("NEXTDUE", variable)
    assert cli("send", *words)[0] == 0
    assert effects.sql("SELECT name, data FROM nextdue_event") == [sent]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("shop.db", "paid", "{"), "DATA isn't JSON"),
        (("shop.db", ""), "an event must have"),
        (("shop.db",), "give [TARGET] EVENT [DATA]"),
        (("shop.db", "a", "1", "2"), "give [TARGET] EVENT [DATA]"),
        (("shop.db", "a", "--keep", "soon"), "soon"),
        (("nosuch.db", "a"), "there is no file"),
    ],
)
def test_a_wrong_event_is_refused(effects, cli, words, says):
    effects.nd.tasks["nap"].enqueue()
    code, out, err = cli("send", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert effects.sql("SELECT count(*) FROM nextdue_event") == [(0,)]
    assert not (effects.folder / "nosuch.db").exists()


def test_a_child_run_without_its_dead_parent_can_wait_for_an_event(effects, cli):
    """A parent that never comes must not keep what the child itself waits for from waking it."""
    effects.write(
        SHOP.replace("ctx.results, flush", 'ctx.wait_for("go"), ctx.results, flush'),
    )
    first = effects.nd.tasks["download"].enqueue(True)
    second = effects.nd.tasks["report"].using(after=[first]).enqueue()
    work(effects)
    cli("retry", "shop.db", "2")
    work(effects)
    cli("pause", "shop.db", "2")
    cli("resume", "shop.db", "2")
    cli("send", "shop.db", "go")
    assert "report of None [None]" in work(effects)[1]
    assert second.state == "done"


def test_a_schedule_that_is_held_in_doubt_is_shown_as_held(shop, cli):
    shop.write("""
        import os
        from pathlib import Path
        from nextdue import Context, Nextdue

        nd = Nextdue(Path(__file__).with_name("shop.db"))

        @nd.every("1h")
        def count(ctx: Context) -> None:
            ctx.step("post", post, in_doubt="hold")

        def post() -> None:
            raise OSError("no answer")
    """)
    assert work(shop)[0] == 0
    out = cli("schedules", "shop.db")[1]
    assert out.splitlines()[1].split()[:3] == ["count", "count", "held"]
    assert "held: step 'post' may have happened" in out
    assert json.loads(cli("schedules", "shop.db", "--json")[1])[0]["state"] == "held"
    assert "in doubt: post" in cli("ls", "shop.db", "--held")[1]
    assert cli("resolve", "shop.db", "1", "post", "--happened")[0] == 0
    work(shop)
    assert "waiting" in cli("schedules", "shop.db")[1]


def test_many_that_wait_are_counted(effects, cli):
    first = effects.nd.tasks["download"].using(delay="1h").enqueue()
    effects.nd.tasks["report"].using(after=[first]).enqueue_many([()] * 1_200)
    assert "after it  and over 990 more" in cli("show", "shop.db", "1")[1]
    assert "1,200 report wait" in cli("health", "shop.db")[1]
    last = effects.nd.tasks["report"].using(after=effects.nd.find(name="report", limit=50)).enqueue()
    assert f"{last.id} " in cli("ls", "shop.db", "--limit", "2000")[1]
    assert "and 40 more tasks" in cli("show", "shop.db", last.id)[1]


def test_a_child_paused_while_its_parent_dies_is_held_for_it_when_it_is_resumed(effects, cli):
    first = effects.nd.tasks["download"].enqueue(True)
    second = effects.nd.tasks["report"].using(after=[first]).enqueue()
    second.pause()
    work(effects)
    assert first.state == "dead"
    cli("resume", "shop.db", "2")
    assert (second.state, second.view().reason) == ("held", "parent")
    first.retry()
    effects.sql("UPDATE nextdue_task SET args = '[false]' WHERE id = 1")
    work(effects)
    assert "report of [7]" in work(effects)[1]


def test_a_retry_says_that_the_doubt_is_still_there(effects, cli):
    in_doubt(effects)
    work(effects)
    out = cli("retry", "shop.db", "1")[1]
    assert out == "letter #1 is due now, and is held again unless `nextdue resolve shop.db 1 mail` decides before\n"


def test_a_step_of_a_running_task_is_in_no_doubt(effects, cli):
    handle = in_doubt(effects)
    assert handle.doubts() != []
    effects.sql("UPDATE nextdue_task SET token = (9 << 32) + 1")
    assert handle.doubts() == []
    assert json.loads(cli("ls", "shop.db", "--json")[1])[0]["in_doubt"] == []
    effects.sql("UPDATE nextdue_task SET token = NULL")


def test_uninstall_counts_what_waits_once(effects, cli):
    first = effects.nd.tasks["download"].using(delay="1h").enqueue()
    effects.nd.tasks["report"].using(after=[first]).enqueue()
    out = cli("uninstall", "shop.db")[1]
    assert [line.split() for line in out.splitlines() if line.startswith("report")] == [["report", "waiting", "1"]]


def test_a_cursor_is_shown(effects, cli):
    handle = effects.nd.tasks["nap"].enqueue()
    assert "\ncursor" not in cli("show", "shop.db", str(handle.id))[1]
    assert json.loads(cli("show", "shop.db", str(handle.id), "--json")[1])["cursor"] is None
    effects.sql(
        "INSERT INTO nextdue_mark(task, label, begun, done, result) VALUES (?, '@cursor', 1, 1, '{\"page\":7}')",
        (handle.id,),
    )
    (line,) = [line for line in cli("show", "shop.db", str(handle.id))[1].splitlines() if line.startswith("cursor")]
    assert line.split() == ["cursor", '{"page":7}']
    assert json.loads(cli("show", "shop.db", str(handle.id), "--json")[1])["cursor"] == {"page": 7}


def test_nothing_held_is_said_so(effects, cli):
    effects.nd.tasks["nap"].enqueue()
    assert "no such task is held in" in cli("ls", "shop.db", "--held")[1]
