"""init, add, list, refresh, pause, resume, why: what a person types, and what is told about each mistake."""

import asyncio
import threading

import pytest

from apps.signal.tests.server import Exchange, Server
from tests.process.harness import until


def test_init_makes_the_two_files_and_tells_what_is_next(empty):
    said = empty.run("init")
    assert "4 sources: fixture-atom, fixture-json, fixture-rss, github-blog" in said
    assert "signal worker --once" in said
    assert {path.name for path in empty.path.iterdir()} >= {"signal.toml", "signal.db"}


def test_init_again_changes_nothing(folder):
    folder.settings('interval = "1h"\n')
    before = folder.sql("SELECT * FROM source")
    assert folder.run("init").count("stays as it is") == 2
    assert (folder.path / "signal.toml").read_text() == 'interval = "1h"\n'
    assert folder.sql("SELECT * FROM source") == before


def test_init_makes_the_folder_that_is_named(empty):
    empty.run("--folder", "a/b", "init")
    assert (empty.path / "a/b/signal.db").exists()
    assert "fixture-rss" in empty.run("list", SIGNAL_FOLDER="a/b")


@pytest.mark.parametrize(
    "argv", [["list"], ["worker", "--once"], ["why", "x"], ["add", "https://a.example/"]], ids=lambda argv: argv[0]
)
def test_a_folder_without_a_signal_stays_empty(empty, argv):
    assert "make them by: signal init" in empty.run(*argv, code=2)
    assert not list(empty.path.iterdir())


def test_a_folder_with_settings_alone_is_enough(empty):
    empty.settings("[builtin]\ngithub-blog = false\n")
    assert set(empty.listed()) == {"fixture-rss", "fixture-atom", "fixture-json"}


def test_add_spreads_first_requests_over_half_an_hour(folder):
    """Acceptance 13."""
    said = folder.run("add", "https://Example.org/feed#top")
    assert "example.org is added: https://example.org/feed, to be asked in " in said
    assert "by a worker with --network" in said
    (due, now) = folder.sql("SELECT next_due, unixepoch() FROM sources WHERE id = 'example.org'")[0]
    assert 0 <= due - now <= 1800
    assert "news" in folder.run("add", "https://example.org/other", "--name", "news")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["example.org"], "write http:// or https:// before the host: https://example.org"),
        (["ftp://example.org/"], "only http and https"),
        (["https://u:p@example.org/"], "user name or password"),
        (["https://github.blog/feed"], "it is the source 'github-blog'"),
        (["https://example.org/", "--name", "fixture-rss"], "choose another name with --name"),
        (["https://example.org/", "--name", "a b"], "can't be a source's name"),
        (["https://example.org/", "--name=--once"], "can't be a source's name"),
        (["https://example.org/", "--name", ""], "can't be a source's name"),
    ],
    ids=range(8),
)
def test_what_add_refuses(folder, argv, words):
    assert words in folder.run("add", *argv, code=2)
    assert len(folder.listed()) == 4


def test_list_is_a_table_with_the_next_one_first(folder):
    folder.run("worker", "--once")
    head, *rows = folder.run("list").splitlines()
    assert head.split("  ")[0] == "name"
    assert [row.split()[0] for row in rows][-1] == "fixture-rss"  # its ttl is an hour
    assert all(" in " in row for row in rows)


def test_list_where_there_is_none_and_of_one_that_nobody_knows(empty):
    off = "".join(f"{name} = false\n" for name in ("fixture-rss", "fixture-atom", "fixture-json", "github-blog"))
    empty.settings(f"[builtin]\n{off}")
    assert "signal add URL" in empty.run("init")
    assert "signal add URL" in empty.run("list")
    empty.settings(f'[builtin]\n{off}[sources.typo]\ninterval = "2h"\n')
    assert "sources.typo in signal.toml has no url, and no source is called typo" in empty.run("list")


def test_the_name_of_a_host_in_its_own_letters(folder):
    folder.run("add", "https://пример.рф/лента")
    assert folder.listed()["пример.рф"]["url"].startswith("https://xn--e1afmkfd.xn--p1ai/")


def test_list_for_programs(folder):
    folder.run("worker", "--once")
    one = folder.listed()["fixture-rss"]
    assert one["url"] == "fixture:rss.xml"
    assert one["state"] == "waiting"
    assert one["next_due"] > one["last_ok"]
    assert (one["failures"], one["last_error"]) == (0, None)


def test_list_due_and_failing(folder):
    assert set(folder.listed("--due")) == {"fixture-rss", "fixture-atom", "fixture-json"}
    assert folder.listed("--failing") == {}
    assert folder.run("list", "--failing").strip() == "none"
    folder.sql("UPDATE source SET failures = 3, last_error = 'dns' WHERE id = 'github-blog'")
    assert set(folder.listed("--failing")) == {"github-blog"}
    said = folder.run("list", "--failing")
    assert "3/12" in said
    assert "dns: the host's name leads nowhere" in said


def test_what_a_feed_calls_itself_cannot_steer_the_terminal(folder):
    folder.sql("UPDATE source SET title = ? WHERE id = 'github-blog'", "\x1b[2J\u202eevil")
    said = folder.run("why", "github-blog")
    assert "\x1b" not in said
    assert "\\x1b[2J\\u202eevil" in said


def test_a_source_of_the_settings_is_taken_up_by_the_next_worker(folder):
    folder.settings('[sources.news]\nurl = "https://news.example/"\n')
    assert "taken up when a worker starts: news" in folder.run("list")
    folder.run("worker", "--once")
    assert "news" in folder.listed()


def test_a_source_no_longer_named_is_orphaned_and_the_others_go_on(folder):
    """Rule removed source."""
    folder.settings("[builtin]\nfixture-rss = false\n")
    assert "2 asked" in folder.run("worker", "--once")
    assert folder.listed()["fixture-rss"]["state"] == "orphaned"
    (shown,) = (line for line in folder.run("list").splitlines() if line.startswith("fixture-rss"))
    assert "orphaned: no longer named in signal.toml" in shown
    assert "orphaned: no longer named in signal.toml" in folder.run("why", "fixture-rss")
    assert "isn't asked anyway: orphaned" in folder.run("pause", "fixture-rss")
    assert "name it there again" in folder.run("resume", "fixture-rss", code=1)
    assert "can't be asked" in folder.run("refresh", "fixture-rss", "--by", "me", code=1)


def test_a_paused_source_is_not_asked_until_it_is_resumed(folder):
    assert "paused, until: signal resume fixture-rss" in folder.run("pause", "fixture-rss")
    assert "paused already" in folder.run("pause", "fixture-rss")
    assert folder.listed()["fixture-rss"]["state"] == "paused"
    assert "2 asked" in folder.run("worker", "--once")
    assert "can't be asked: paused" in folder.run("refresh", "fixture-rss", "--by", "me", code=1)
    assert "goes on, next due now" in folder.run("resume", "fixture-rss")
    assert "isn't paused" in folder.run("resume", "fixture-rss")
    assert "1 asked" in folder.run("worker", "--once")


def test_pause_waits_for_the_attempt_that_runs(folder):
    go = threading.Event()

    async def held(exchange: Exchange) -> None:
        while not go.is_set():
            await asyncio.sleep(0.01)
        exchange.abort()

    with Server() as server:
        server.put("/held", held)
        folder.settings(f'[sources.slow]\nurl = "{server.url("/held")}"\n')
        folder.run("init")
        folder.sql("UPDATE nextdue_task SET due = 1 WHERE key = 'slow'")
        worker = folder.start("worker", "--network", "--allow-net", "127.0.0.0/8")
        until(lambda: server.seen("/held"))
        pausing = folder.start("pause", "slow")
        pausing.says("is being asked; waiting for the end of that")
        go.set()
        assert pausing.ends() == 0
        worker.says("slow  failed")
        assert folder.listed()["slow"]["state"] == "paused"
        assert worker.terminate() == 0


@pytest.mark.parametrize("command", ["why", "pause", "resume", "refresh"])
def test_a_source_that_is_not_there(folder, command):
    more = ["--by", "me"] if command == "refresh" else []
    assert "no source is called 'nobody'; signal list shows them" in folder.run(command, "nobody", *more, code=2)


def test_a_refresh_is_a_wish_and_a_refusal_says_when(folder):
    """Rule forced refresh."""
    folder.run("worker", "--once")
    assert "fixture-atom may be asked again at " in folder.run("refresh", "fixture-atom", "--by", "ada", code=1)
    folder.sql("UPDATE source SET last_attempt = last_attempt - 301000 WHERE id = 'fixture-atom'")
    assert "noted; a worker reads fixture-atom at once" in folder.run("refresh", "fixture-atom", "--by", "ada")
    assert "ada asked for it out of turn" in folder.run("why", "fixture-atom")
    assert "fixture-atom  file  0 new entries" in folder.run("worker", "--once")
    assert folder.run("why", "fixture-atom").count(" ada\n") == 1


def test_a_refresh_needs_a_name_to_be_logged(folder):
    assert "--by" in folder.run("refresh", "fixture-rss", code=2)
    assert "WHO" in folder.run("refresh", "fixture-rss", "--by", " ", code=2)


def test_russian_words_by_the_settings(folder):
    folder.settings('language = "ru"\n')
    assert "4 новые записи" in folder.run("worker", "--once")
    assert "следующий опрос" in folder.run("list")
    assert "встроен в Сигнал" in folder.run("why", "fixture-rss")


def test_the_json_of_a_list_does_not_steer_a_terminal(folder):
    folder.sql("UPDATE source SET title = ? WHERE id = 'fixture-rss'", "\x9b2J\u202eлента")
    assert folder.run("list", "--json").isascii()
    assert folder.listed()["fixture-rss"]["title"] == "\x9b2J\u202eлента"
