"""The command as a whole: help, mistakes, and what is no file of Signal's."""

import os
import sqlite3

import pytest

COMMANDS = "init add list refresh pause resume worker why queue show approve reject search publish import export serve"


def test_help_tells_the_commands_and_the_exit_codes(empty):
    said = empty.run("--help")
    for word in ("init", "add", "list", "worker", "refresh", "pause", "resume", "why", "Exit codes"):
        assert word in said
    assert empty.run() == said


@pytest.mark.parametrize("command", [*COMMANDS.split()])
def test_the_help_of_each_command_tells_what_it_does(empty, command):
    assert f" {command} " in empty.run("--help")
    about, *rest = empty.run(command, "--help").split("\n\n")[1:]
    assert about.rstrip().endswith(".")
    assert "options:" in rest[-1]


def test_version(empty):
    assert empty.run("--version").startswith("signal 0.")


def test_a_command_that_is_none(empty):
    assert "there is no command 'lst'; did you mean list?" in empty.run("lst", code=2)
    assert "there are init, add" in empty.run("zzz", code=2)


def test_a_wrong_setting_is_named_and_nothing_is_done(folder):
    folder.settings('intervall = "1h"\n')
    said = folder.run("worker", "--once", code=2)
    assert "signal.toml: there is no setting intervall; did you mean interval?" in said
    assert folder.sql("SELECT count(*) FROM attempt") == [(0,)]


@pytest.mark.parametrize("command", [["list"], ["worker", "--once"], ["why", "x"]], ids=lambda argv: argv[0])
def test_a_file_that_is_no_database(empty, command):
    (empty.path / "signal.db").write_bytes(b"This is a letter, and no database at all. " * 100)
    said = empty.run(*command, code=2 if command[0] == "worker" else 1)
    assert "signal.db" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("command", ["list", "init"])
def test_a_database_of_somebody_else(empty, command):
    with sqlite3.connect(empty.path / "signal.db") as connection:
        connection.execute("CREATE TABLE songs(name TEXT)")
    connection.close()
    said = empty.run(command, code=1 if command == "list" else 0)
    if command == "list":
        assert "signal.db can't be used" in said


def test_a_folder_that_can_not_be_made(empty):
    assert empty.run("--folder", "/proc/none", "init", code=1) == (
        "signal: /proc/none can't be used (No such file or directory)\n"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_database_that_can_not_be_opened_is_there(folder):
    (folder.path / "signal.db").chmod(0)
    assert "signal.db can't be used: unable to open" in folder.run("list", code=1)


def test_a_newer_version_of_the_tables(folder):
    folder.sql("UPDATE signal_meta SET version = 99")
    assert "install a newer Signal" in folder.run("worker", "--once", code=2)


@pytest.mark.parametrize(
    ("argv", "said", "code"),
    [
        (["add", "example.org"], "'example.org' — неполный адрес", 2),
        (["add", "https://github.blog/feed"], "уже есть: это источник 'github-blog'", 2),
        (["why", "x"], "источника 'x' нет", 2),
        (["show", "7"], "записи с номером 7 нет", 2),
        (["approve", "7"], "нужен отпечаток", 2),
        (["approve", "7", "--fingerprint", "x"], "'x' не отпечаток", 2),
        (["search"], "искать нечего", 2),
        (["import", "none.opml"], "none.opml не читается", 2),
        (["export", "none/x.opml"], "нет папки", 1),
        (["serve", "--port", "70000"], "не порт", 2),
    ],
    ids=range(10),
)
def test_errors_speak_the_language_of_the_folder(folder, argv, said, code):
    folder.settings('language = "ru"\n')
    assert said in folder.run(*argv, code=code)


def test_an_early_refresh_is_refused_in_russian(folder):
    folder.run("worker", "--once")
    folder.settings('language = "ru"\n')
    assert "fixture-rss можно опросить снова в 20" in folder.run("refresh", "fixture-rss", "--by", "Ира", code=1)
