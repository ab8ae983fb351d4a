"""`nextdue worker` in processes of its own: first lines, exit codes, and what it says and doesn't say."""

import importlib
import os
import pty
import re
import select
import signal
import time

import pytest

from nextdue.cli.progress import Lines, LiveLine
from nextdue.records import Settlement
from nextdue.service import Service


def settled(*outcomes):
    return [Settlement(n, 1, outcome) for n, outcome in enumerate(outcomes)]


def until(stream, word):
    """The lines up to the one with this word; the test's own time limit ends a wait for ever."""
    lines = []
    for line in stream:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"{word!r} never came: {lines}")


def test_the_first_lines_tell_what_there_is_to_do(shop):
    receipt = shop.nd.tasks["receipt"]
    receipt.enqueue(13)
    receipt.enqueue(1)
    receipt.using(delay="2h").enqueue(2)
    shop.sql("INSERT INTO nextdue_tasks(name) VALUES ('stranger'), ('stranger')")
    code, out, err = shop.run("worker", "shop:nd", "--once", env={"TZ": "Europe/Moscow"})
    lines = out.splitlines()
    assert code == 0, err  # although a task failed
    assert lines[0] == f"nextdue worker 1 on {shop.path}"
    assert lines[1] == "  serves     bill, letter, receipt"
    assert lines[2] == "  waiting    3"
    time_ = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d MSK \([\d: -]+ UTC\)"
    assert re.fullmatch(rf"  overdue    2, since {time_}, \d+ m?s ago", lines[3])
    assert lines[4] == "  unknown    stranger (2): kept until a worker that knows them comes"
    assert re.fullmatch(rf"  next due   {time_}, in 2 h", lines[5])
    assert lines[6] == "receipt 1"
    assert re.fullmatch(r"worked \d+ m?s: 1 done, 1 failed, 0 dead, 0 released", lines[7])
    assert len(lines) == 8
    assert err.count("ValueError: unlucky (shop.py:13 in receipt)\n") == 1
    assert err.count("Traceback") == 1
    assert err.count(" WARNING ") == 1


def test_a_herd_is_spread_and_said_to_be(shop):
    shop.nd.tasks["receipt"].enqueue_many([(n,) for n in range(100, 140)])
    shop.sql("UPDATE nextdue_task SET due = due - 3600000")
    with shop.popen("worker", "shop:nd", "--spread", "2h") as worker:
        lines = until(worker.stdout, "next due")
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=20)
    assert worker.returncode == 0, err
    assert "  spread     40 that were overdue for over a minute\n" in lines
    assert not any("overdue    40" in line for line in lines)
    assert out.count("receipt ") <= 1
    code, _, err = shop.run("worker", "shop:nd", "--once", "--spread", "2h")
    assert code == 2
    assert "give one of them" in err


def test_an_idle_file_is_told_in_few_words_and_without_rich(shop):
    shop.write(
        "from shop import nd\nimport atexit, sys\natexit.register(lambda: print('rich' in sys.modules))", "app.py"
    )
    code, out, err = shop.run("worker", "app", "--once")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[2:4] == ["  waiting    0", "  next due   nothing"]
    assert lines[-1] == "False"


def test_a_worker_of_the_command_line_renews_its_leases(shop):
    """What its first lines look up must not change what its ticks ask."""
    shop.write(
        """
        import time
        from shop import nd
        @nd.task(lease=1)
        def slow():
            time.sleep(1.2)
    """,
        "app.py",
    )
    importlib.import_module("app").slow.enqueue()
    code, out, err = shop.run("worker", "app:nd", "--once")
    assert (code, err) == (0, "")
    assert "1 done, 0 failed, 0 dead, 0 released" in out
    assert [run.outcome for run in shop.nd.get(1).runs()] == ["done"]


def test_the_applications_own_logging_shows_each_line_once(shop):
    shop.write("import logging\nlogging.basicConfig(format='own %(message)s')\nfrom shop import nd\n", "app.py")
    shop.nd.tasks["receipt"].enqueue(13)
    code, _, err = shop.run("worker", "app:nd", "--once")
    assert code == 0
    assert err.startswith("own receipt #1 failed")
    assert err.count("ValueError: unlucky (shop.py:13 in receipt)\n") == 1
    assert err.count("Traceback") == 1


def test_logging_set_up_late_shows_each_line_once_too(shop):
    shop.write("""
        import logging
        from shop import nd
        @nd.task
        def late():
            logging.basicConfig(format="own %(message)s")
            raise ValueError("unlucky")
        """, "app.py")  # fmt: skip
    shop.sql("INSERT INTO nextdue_tasks(name) VALUES ('late')")
    _, _, err = shop.run("worker", "app:nd", "--once")
    told, trace = err.split("\n", 1)
    assert re.fullmatch(r"own late #1 failed \(1 of 12\), again in 1 min( \d+ s)?: ValueError: unlucky \(.*\)", told)
    assert trace.count("Traceback") == 1


def test_only_the_queues_that_were_asked_for(shop):
    shop.nd.tasks["letter"].enqueue("Ada")
    shop.nd.tasks["receipt"].enqueue(1)
    code, out, _ = shop.run("worker", "shop:nd", "--once", "-q", "mail", "-c", "2")
    assert code == 0
    assert "(queues: mail)" in out
    assert "letter Ada" in out
    assert "receipt 1" not in out


def test_the_queues_of_the_application_are_shown_and_may_be_others(shop):
    shop.write("""
        from pathlib import Path
        from nextdue import Nextdue
        nd = Nextdue(Path(__file__).with_name("own.db"), queues=["mail"])
        @nd.task(queue="mail")
        def letter(): print("letter")
        @nd.task
        def receipt(): print("receipt")
        """, "app.py")  # fmt: skip
    for name in ("letter", "receipt"):
        assert shop.run("add", "app:nd", name)[0] == 0
    _, out, _ = shop.run("worker", "app:nd", "--once")
    assert "(queues: mail)" in out
    assert "waiting    1" in out
    assert ("\nletter\n" in out, "\nreceipt\n" in out) == (True, False)
    _, out, _ = shop.run("worker", "app:nd", "--once", "-q", "default,mail")
    assert "(queues: default, mail)" in out
    assert "\nreceipt\n" in out


def test_a_killed_worker_is_told_of_and_a_second_exclusive_one_is_refused(shop):
    shop.write("""
        import os, time
        from shop import nd
        @nd.task
        def hang(marker: str):
            if not os.path.exists(marker):
                open(marker, "w").close()
                print("hanging", flush=True)
                time.sleep(60)
        """, "app.py")  # fmt: skip
    shop.nd.tasks["receipt"].using(delay="1d").enqueue(1)
    args = f'["{shop.folder}/marker"]'
    shop.sql("INSERT INTO nextdue_tasks(name, args) VALUES ('hang', ?)", (args,))
    with shop.popen("worker", "app:nd", "--exclusive") as first:
        try:
            until(first.stdout, "hanging")
            code, _, err = shop.run("worker", "app:nd", "--once", "--exclusive")
            assert code == 3
            assert re.fullmatch(rf"nextdue: .*shop.db already has an exclusive worker: pid {first.pid} on .*\n", err)
            _, out, _ = shop.run("why", "shop.db", 2)
            assert f"Worker 1 (pid {first.pid} on " in out
        finally:
            first.kill()
    code, out, _ = shop.run("worker", "app:nd", "--once", "--exclusive")
    assert code == 0
    assert "  recovered  1 from a dead worker\n" in out
    assert ": 1 done, 0 failed" in out


def test_sigterm_right_after_the_first_line_is_a_graceful_stop(shop):
    with shop.popen("worker", "shop:nd") as process:
        until(process.stdout, "nextdue worker 1 on")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert "worked" in out


def test_a_signal_while_the_file_is_opened_is_not_forgotten(shop, cli, monkeypatch):
    def interrupted(service, opened=Service.open):
        os.kill(os.getpid(), signal.SIGTERM)
        return opened(service)

    monkeypatch.setattr(Service, "open", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    code, out, _ = cli("worker", "shop:nd")
    assert code == 0
    assert "worked" in out
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_work_goes_on_when_nobody_reads_stdout(shop):
    shop.nd.tasks["receipt"].enqueue_many([(n,) for n in range(14, 20)])
    process = shop.popen("worker", "shop:nd", "--once", bufsize=0)
    process.stdout.close()
    assert process.wait(20) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert shop.nd.find(state="waiting") == []


def test_a_newer_schema_is_a_fault_and_says_so(shop, cli):
    shop.nd.tasks["receipt"].enqueue(1)
    shop.sql("UPDATE nextdue_meta SET value = 99 WHERE name = 'schema'")
    code, out, err = cli("worker", "shop:nd", "--once")
    assert (code, out) == (1, "")
    assert "newer nextdue" in err
    assert err.count("\n") == 1


def test_a_part_of_the_worker_that_dies_ends_it_with_1(shop):
    shop.write("""
        from shop import nd
        import nextdue.worker
        def broken(self):
            raise RuntimeError("a part died")
        nextdue.worker.Worker.tick = broken
        """, "app.py")  # fmt: skip
    code, out, err = shop.run("worker", "app:nd", "--once")
    assert code == 1
    assert "worked" in out
    assert err.endswith("RuntimeError: a part died\n")


def on_terminal(shop, *args, env=None):
    """Run under a terminal of its own; answers the exit code and all that it shows."""
    master, slave = pty.openpty()
    process = shop.popen(
        *args, stdin=slave, stdout=slave, stderr=slave, text=False, env={"TERM": "xterm"} | (env or {})
    )
    os.close(slave)
    shown, end = b"", time.monotonic() + 20
    while time.monotonic() < end and select.select([master], [], [], 20)[0]:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        shown += part
    os.close(master)
    return process.wait(20), shown.decode()


def test_a_terminal_gets_one_live_line_with_the_tasks_prints_above_it(shop):
    shop.nd.tasks["receipt"].enqueue_many([(n,) for n in range(1, 14)])
    code, shown = on_terminal(shop, "worker", "shop:nd", "--once", "-c", "1")
    assert code == 0
    assert re.search(r"\d+ done, .*\d running", shown)
    assert "receipt 12\r\n" in shown
    assert shown.count("ValueError: unlucky (shop.py:13 in receipt)") == 1
    assert re.search(r"worked .*: 12 done, 1 failed", shown)


def test_a_table_on_a_terminal_respects_no_color(shop):
    shop.nd.tasks["receipt"].using(delay="1d").enqueue(1)
    code, shown = on_terminal(shop, "ls", "shop.db", env={"NO_COLOR": "1", "COLUMNS": "120"})
    assert code == 0
    assert "receipt" in shown
    assert not re.search(r"\x1b\[[\d;]*3\dm", shown)


def test_without_a_terminal_a_summary_line_comes_at_most_every_10_s():
    now = [100.0]
    said: list[str] = []
    lines = Lines(said.append, lambda: now[0])
    for at in (100.0, 109.9, 110.0, 119.9, 120.5):
        now[0] = at
        lines.settled(settled("done", "failed"))
    assert said == ["3 done, 3 failed", "5 done, 5 failed"]


def test_the_live_line_is_drawn_at_most_4_times_a_second_and_sleeps_when_nothing_happens():
    texts = []

    class Live:
        def update(self, text, refresh=False):
            texts.append(text)

        def stop(self):
            texts.append("stopped")

    line = LiveLine()
    line._live = Live()
    for _ in range(500):
        line.settled(settled("done"))
    assert texts == ["1 done, 0 running"]
    assert line._timer is not None
    line._timer.join(5)
    assert texts == ["1 done, 0 running", "500 done, 0 running"]
    assert line._timer is None  # nothing is left that could wake up
    line.end()
    assert texts[-1] == "stopped"


@pytest.mark.parametrize("command", [("ls", "shop.db"), ("check", "shop.db"), ("doctor", "shop.db")])
def test_a_reader_that_goes_away_is_no_error(shop, command):
    shop.nd.tasks["receipt"].enqueue(1)
    process = shop.popen(*command, env={"PYTHONUNBUFFERED": "1"})
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(20), err) == (0, "")


def test_the_installed_command_and_the_module_are_one(shop):
    code, out, _ = shop.run("--version")
    assert code == 0
    assert re.fullmatch(r"nextdue \d+\.\d+\.\d+\S* \(Python 3\.\S+, SQLite 3\.\S+\)\n", out)
