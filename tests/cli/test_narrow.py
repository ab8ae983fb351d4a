"""What a newcomer sees on a terminal of 80 columns, and what the lines of a worker say."""

import os
import pty
import re

import pytest

from nextdue.cli.commands import COMMANDS
from tests.cli.test_bulk import rest
from tests.cli.test_look import add, hold, why

WIDE = 80


@pytest.fixture
def terminal(shop):
    """Run a command on a terminal of 80 columns; answers its lines without colours."""

    def run(*words):
        master, slave = pty.openpty()
        with shop.popen(*words, stdout=slave, env={"COLUMNS": str(WIDE), "TERM": "xterm"}) as process:
            os.close(slave)
            said = b""
            try:
                while part := os.read(master, 65536):
                    said += part
            except OSError:  # the other end is closed
                pass
            os.close(master)
            assert process.wait(30) == 0, process.stderr.read()
        return re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).splitlines()

    return run


def test_ls_gives_each_task_one_line(shop, terminal):
    ids = add(shop, 1, 2, delay="2d") + add(shop, 3, key="order-42-of-a-customer-with-a-long-name")
    shop.nd.tasks["letter"].using(delay="4m").enqueue("Ada Lovelace, Dorset Street, Marylebone, London " * 3)
    rest(shop, ids[0], "dead", attempts=12, reason="ConnectionRefusedError")
    hold(shop, ids[2])
    shop.sql("UPDATE nextdue_task SET progress = '[9, 60, \"thumbs\"]' WHERE id = ?", (ids[2],))
    lines = terminal("ls", "shop.db")
    assert len(lines) == 1 + 4
    assert all(len(line) <= WIDE for line in lines)
    assert "DUE (UTC)" in lines[0]
    text = "\n".join(lines)
    assert "running 9/60 thumbs" in text
    assert "lease" not in text
    assert re.search(r"waiting +\d\d:\d\d, in 4 min ", text)
    assert re.search(r"waiting +\d\d-\d\d, in 2 d ", text)


def test_show_folds_only_the_reason(shop, terminal):
    (id,) = add(shop, 13)
    shop.nd.run(1, once=True)
    shop.sql("UPDATE nextdue_run SET message = ?", ("ValueError: " + "a long explanation " * 6,))
    lines = terminal("show", "shop.db", id)
    runs = lines[lines.index("") + 1 :]
    assert all(len(line) <= WIDE for line in runs)
    assert "explanation" in " ".join(runs[2:])


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_80_columns(cli, command):
    out = cli(*command.split(), "--help")[1]
    assert [line for line in out.splitlines() if len(line) > WIDE] == []


def test_show_gives_the_result_and_says_what_is_no_longer_kept(shop, cli):
    shop.write("""
        from pathlib import Path
        from nextdue import Nextdue
        nd = Nextdue(Path(__file__).with_name("shop.db"))
        @nd.task(keep_result=True)
        def total(day: str) -> dict[str, int]:
            return {"orders": 2}
        """)
    shop.nd.tasks["total"].enqueue("monday")
    shop.nd.run(1, once=True)
    fields = dict(line.split(maxsplit=1) for line in cli("show", "shop.db", 1)[1].splitlines() if "  " in line[:9])
    assert (fields["result"], fields["args"]) == ('{"orders":2}', "no longer kept")


def test_show_says_why_claims_are_missing(shop, cli):
    (id,) = add(shop, 1)
    line = (
        "INSERT INTO nextdue_run(task, name, claim, ended, outcome, store) VALUES (?, 'receipt', ?, 1, 'crashed', 'x')"
    )
    columns = {name for _, name, *_ in shop.sql("PRAGMA table_info(nextdue_run)")}
    line = line if "store" in columns else line.replace(", store)", ")").replace(", 'x')", ")")
    for claim in (1, 2):
        shop.sql(line, (id, claim))
    assert "missing" not in cli("show", "shop.db", id)[1]
    shop.sql(line, (id, 4))
    assert "Claims that are missing here were given back before they started." in cli("show", "shop.db", id)[1]


def test_a_module_that_puts_tasks_while_it_is_imported_is_told_of(shop):
    shop.write("from shop import nd, receipt\nreceipt.using(delay='1h').enqueue(1)\n", "careless.py")
    code, _, err = shop.run("ls", "careless:nd")
    assert code == 0
    assert f"nextdue: {shop.folder}/careless.py puts tasks while it is imported (1 now, by this command)" in err
    assert shop.run("ls", "shop:nd")[2] == ""


def test_why_a_task_waits_for_its_rate(shop, cli):
    shop.write("""
        from pathlib import Path
        from nextdue import Nextdue
        nd = Nextdue(Path(__file__).with_name("shop.db"))
        @nd.task(rate="1/h")
        def ask(n: int) -> None: ...
        """)
    ask = shop.nd.tasks["ask"]
    ask.enqueue_many([(1,), (2,)])
    ask.using(expires="10m").enqueue(3)
    shop.nd.run(1, once=True)
    ask.using(delay="2d").enqueue(4)
    said = why(cli, "shop.db", 2)
    assert "Its rate gave it the next free slot: it starts at " in said
    assert "in 1 h." in said
    assert re.search(r"But it expires before that, at .*, in 10 min: it won't be started\.", why(cli, "shop.db", 3))
    assert "It waits until its time comes: at " in why(cli, "shop.db", 4)


@pytest.mark.parametrize(
    ("run_in", "said"),
    [("thread", "a thread that never calls that runs to its end"), ("process", "or its process is killed after 5 s")],
)
def test_why_a_task_that_was_asked_to_stop_still_runs(shop, cli, run_in, said):
    shop.write(f"""
        from pathlib import Path
        from nextdue import Nextdue
        nd = Nextdue(Path(__file__).with_name("shop.db"))
        @nd.task(run_in={run_in!r})
        def receipt(order: int) -> None: ...
        """)
    (id,) = add(shop, 1)
    hold(shop, id)
    shop.sql("UPDATE nextdue_task SET stop = 5")
    assert said in why(cli, "shop:nd", id)
    assert "its next ctx.progress() or await ends it; a process is killed soon" in why(cli, "shop.db", id)


def test_a_dead_child_is_not_called_a_dead_worker(shop, cli):
    (id,) = add(shop, 1)
    rest(shop, id, "dead", crashes=3, reason="child_died", message="its process was ended by signal 9")
    assert "It is given up because its process was ended by signal 9." in why(cli, "shop.db", id)
    assert "crashed 3 times" in cli("show", "shop.db", id)[1]


def test_the_log_of_a_failure_is_one_line_and_says_what_follows(shop):
    shop.write("""
        from shop import nd
        from nextdue import Retry
        @nd.task(retry=Retry(base="2m", jitter=0, limit=2))
        def ask() -> None:
            raise TimeoutError("the server\\ndoesn't answer")
        @nd.task(retry=Retry(limit=None))
        def always() -> None:
            raise TimeoutError
        @nd.task(retry=Retry(limit=1))
        def never() -> None:
            raise TimeoutError
        """, "app.py")  # fmt: skip
    shop.sql("INSERT INTO nextdue_tasks(name) VALUES ('ask'), ('always'), ('never')")
    err = shop.run("worker", "app:nd", "--once")[2].splitlines()
    said = sorted(line.partition(" WARNING ")[2] for line in err if " WARNING " in line)
    message = "TimeoutError: the server\\ndoesn't answer (app.py:6 in ask)"
    assert said[1] == f"ask #1 failed (1 of 2), again in 2 min: {message}"
    assert re.fullmatch(r"always #2 failed \(1 of any number\), again in 1 min( \d+ s)?: TimeoutError \(app.*", said[0])
    assert said[2] == "never #3 dead: TimeoutError (app.py:12 in never)"
    assert len(said) == 3


def test_the_summary_counts_what_was_cancelled(shop):
    shop.write("""
        from shop import nd
        from nextdue import Cancelled
        @nd.task
        def stops() -> None:
            raise Cancelled
        """, "app.py")  # fmt: skip
    shop.sql("INSERT INTO nextdue_tasks(name) VALUES ('stops')")
    assert "0 done, 0 failed, 0 dead, 0 released, 1 cancelled" in shop.run("worker", "app:nd", "--once")[1]
