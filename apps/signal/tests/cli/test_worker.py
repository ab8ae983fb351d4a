"""signal worker: what it prints, what it doesn't do, who may be one, and its exit codes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apps.signal.tests.behaviours import answer, feed, message
from apps.signal.tests.server import Server

SIGNAL = str(Path(sys.executable).with_name("signal"))
NEXTDUE = str(Path(sys.executable).with_name("nextdue"))
HERE = ("--network", "--allow-net", "127.0.0.0/8")


def source(name: str, url: str) -> str:
    return f'[sources.{name}]\nurl = "{url}"\nspacing = "0s"\n'


def make_due(folder) -> None:
    folder.run("init")
    folder.sql("UPDATE nextdue_task SET due = 1 WHERE due IS NOT NULL AND key <> 'github-blog'")
    folder.sql("UPDATE nextdue_task SET wished = 1 WHERE rest = 'blocked'")  # those behind another of their host


def test_once_reads_what_is_due_and_again_nothing(folder):
    """Rule --once."""
    said = folder.run("worker", "--once")
    assert "4 sources" in said
    assert "1 isn't asked without --network" in said
    assert "3 due now" in said
    assert "fixture-rss  file  4 new entries" in said
    assert said.splitlines()[-1] == "3 asked, 0 failed, 13 new entries"
    again = folder.run("worker", "--once")
    assert "next due 20" in again
    assert again.splitlines()[-1] == "0 asked, 0 failed, 0 new entries"


def test_without_network_no_server_is_asked_and_its_due_stays(folder):
    """Rule --network off: no failure, no attempt row, due untouched."""
    with Server() as server:
        folder.settings(source("near", server.url("/feed/3")))
        make_due(folder)
        before = folder.sql("SELECT due_ms FROM nextdue_tasks WHERE key = 'near'")
        assert "3 asked, 0 failed" in folder.run("worker", "--once")
        assert folder.sql("SELECT due_ms FROM nextdue_tasks WHERE key = 'near'") == before
        assert server.seen() == []
    assert folder.sql("SELECT count(*) FROM attempt a JOIN source s ON s.number = a.source WHERE s.id = 'near'") == [
        (0,)
    ]


def test_a_line_for_each_source_and_0_although_some_failed(folder):
    """Rule output; rule --once: exit 0 although sources failed."""
    with Server() as server:
        folder.settings(
            source("good", server.url("/feed/3", "127.0.0.2"))
            + source("bad", server.url("/status/503", "127.0.0.3"))
            + source("page", server.url("/log", "127.0.0.4"))
        )
        make_due(folder)
        said = folder.run("worker", "--once", *HERE)
    assert "good  200  3 new entries" in said
    assert "bad  failed  http_server (503): the server has a fault" in said
    assert "page  failed  not_a_feed (200): not a feed" in said
    assert "6 asked, 2 failed, 16 new entries" in said


def test_an_address_that_nobody_allowed_is_not_asked(folder):
    with Server() as server:
        folder.settings(source("near", server.url("/feed/3")))
        make_due(folder)
        assert "near  failed  address_refused" in folder.run("worker", "--once", "--network")
        assert server.seen() == []


OFF = "[builtin]\n" + "".join(f"fixture-{kind} = false\n" for kind in ("rss", "atom", "json"))


def several(server: Server, count: int) -> str:
    """Sources of one host, and nothing else."""
    first, *rest = [f'[sources.s{n}]\nurl = "{server.url(f"/feed/{n}")}"\n' for n in range(1, count + 1)]
    return f'{OFF}{first}spacing = "300ms"\n{"".join(rest)}'


def test_once_asks_all_that_are_due_of_one_host_one_after_the_other(folder):
    """Rule --once: what is due at its start. Acceptance 12: one at a time per host, so far apart."""
    with Server() as server:
        folder.settings(several(server, 5))
        make_due(folder)
        begun = time.monotonic()
        assert "5 asked, 0 failed, 15 new entries" in folder.run("worker", "--once", *HERE)
        assert len(server.seen()) == 5
    # How far apart two of them arrive is also a matter of what else this machine does; rules/test_requests measures it.
    assert time.monotonic() - begun >= 4 * 0.3


def test_what_the_file_says_is_what_is_done(folder):
    """Rule configuration: contact, allow_net, robots. Acceptance 7: the contact of the file is told."""
    with Server() as server:
        server.put("/robots.txt", answer(b"User-agent: *\nDisallow: /feed/2\n"))
        own = 'contact = "https://me.example/"\nallow_net = ["127.0.0.0/8"]\nrobots = true\n'
        folder.settings(own + OFF + source("open", server.url("/feed/1")) + source("shut", server.url("/feed/2")))
        make_due(folder)
        said = folder.run("worker", "--once", "--network")
        assert "open  200  1 new entry" in said
        assert "shut  failed  robots" in said
        assert {request.path for request in server.seen()} == {"/robots.txt", "/feed/1"}
        assert all(b" (+https://me.example/)" in (request.header("user-agent") or b"") for request in server.seen())


class Slow:
    """A path that takes its time: how many asked it at once at most."""

    def __init__(self):
        self.now = self.most = 0

    async def __call__(self, exchange):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.3)
        self.now -= 1
        await exchange.send(message(200, feed(1)))


@pytest.mark.parametrize(("more", "at_once"), [((), 2), (("--jobs", "3"), 3)], ids=["file", "option"])
def test_so_many_are_asked_at_once(folder, more, at_once):
    """Rule configuration: jobs, which --jobs overrules."""
    slow = Slow()
    with Server() as server:
        server.put("/slow", slow)
        sources = (source(f"s{number}", server.url("/slow", f"127.0.0.{number}")) for number in range(1, 7))
        folder.settings("jobs = 2\n" + OFF + "".join(sources))
        make_due(folder)
        assert "6 asked, 0 failed" in folder.run("worker", "--once", *HERE, *more)
    assert slow.most == at_once


def test_one_host_is_asked_one_at_a_time(folder):
    """Acceptance 12: one request at a time per host, though it takes longer than the spacing."""
    slow = Slow()
    with Server() as server:
        server.put("/slow", slow)
        folder.settings(OFF + "".join(source(f"s{number}", server.url(f"/slow?{number}")) for number in range(3)))
        make_due(folder)
        assert "3 asked, 0 failed" in folder.run("worker", "--once", *HERE)
    assert slow.most == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_once_can_be_stopped_in_between(folder, number):
    with Server() as server:
        folder.settings(several(server, 5).replace("300ms", "1h"))
        make_due(folder)
        worker = folder.start("worker", "--once", *HERE)
        worker.says("s1  200")
        worker.send(number)
        assert worker.ends() == 0
        assert worker.lines[-1] == "1 asked, 0 failed, 1 new entry"
        assert len(server.seen()) == 1


@pytest.mark.parametrize("again", ["signal", "nextdue"])
def test_a_second_worker_is_refused_and_told_who_works(folder, again):
    """Rule one owner; rule --once: 3 if another worker holds the lock."""
    first = folder.start("worker")
    first.says("new entries")
    argv = {
        "signal": (SIGNAL, "worker", "--once"),
        "nextdue": (NEXTDUE, "worker", "signal_feeds:nd"),
    }
    done = subprocess.run(argv[again], cwd=folder.path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3, done
    assert str(first.pid) in done.stderr
    assert done.stdout == ""
    assert first.terminate() == 0
    assert "0 asked" in folder.run("worker", "--once")


def test_nextdue_itself_works_on_the_folder(folder):
    done = subprocess.run(
        [NEXTDUE, "worker", "signal_feeds:nd", "--once"],
        cwd="/", env={**os.environ, "SIGNAL_FOLDER": str(folder.path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    assert folder.sql("SELECT count(*) FROM entry") == [(13,)]


def test_it_works_until_it_is_told_to_stop(folder):
    worker = folder.start("worker")
    worker.says("fixture-rss  file  4 new entries")  # the last one, by its name
    assert worker.terminate() == 0
    assert worker.lines[-1] == "3 asked, 0 failed, 13 new entries"


def test_one_behind_another_of_its_host_is_due(folder):
    folder.sql("UPDATE nextdue_task SET due = NULL, rest = 'blocked' WHERE key = 'fixture-json'")
    assert "3 due now" in folder.run("worker", "--once")


def test_a_worker_whose_contact_nobody_named_says_so(folder):
    """Acceptance 7: with a contact, which only its owner knows."""
    folder.sql("UPDATE nextdue_task SET due = due + 86400000")
    said = "contact is empty in signal.toml: no server learns whom to write to"
    assert said in folder.run("worker", "--once", "--network")
    assert said not in folder.run("worker", "--once")
    folder.settings('contact = "me@example.org"\n')
    assert said not in folder.run("worker", "--once", "--network")


def test_nobody_has_to_listen(folder):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [SIGNAL, "worker", "--once"], cwd=folder.path, stdout=writer, stderr=subprocess.PIPE,
        timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert folder.sql("SELECT count(*) FROM entry") == [(13,)]


def test_a_removed_task_comes_back_with_a_worker(folder):
    folder.sql("DELETE FROM nextdue_task")
    assert folder.listed()["fixture-rss"]["state"] == "gone"
    assert "3 asked" in folder.run("worker", "--once")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--jobs", "0"], "isn't a number from 1 to 1000"),
        (["--jobs", "many"], "isn't a number from 1 to 1000"),
        (["--allow-net", "0.0.0.0/0"], "too much to allow at once"),
        (["--allow-net", "home"], "is no network"),
        (["--onse"], "unrecognized arguments"),
    ],
    ids=range(5),
)
def test_what_worker_refuses(folder, argv, words):
    said = folder.run("worker", "--once", *argv, code=2)
    assert words in said
    assert folder.sql("SELECT count(*) FROM attempt") == [(0,)]
