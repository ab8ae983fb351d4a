"""Mistakes of the user: one line that says what to do, exit code 2, no traceback of ours."""

import os
import re

import pytest

from nextdue.cli import target

MISTAKES = [
    (("lss",), "there is no command 'lss'; did you mean ls?"),
    (("worker",), "which application?"),
    (("ls",), "or set NEXTDUE"),
    (("worker", "shop:zzz"), "has no attribute 'zzz'; it holds shop:nd, shop:second"),
    (("worker", "shop:number"), "shop:number is no Nextdue but has the type int; it holds shop:nd, shop:second"),
    (("worker", "shop:nd.path"), "no Nextdue"),
    (("worker", "shoop:nd"), "there is no module 'shoop' in {folder}"),
    (("worker", "shop.zzz:nd"), "there is no module 'shop.zzz' in {folder}"),
    (("worker", "nofile.py:nd"), "there is no file {folder}/nofile.py"),
    (("worker", ":nd"), "can't be a module's name"),
    (("worker", "..:nd"), "module"),
    (("worker", "empty"), "empty holds no Nextdue at all"),
    (("worker", "other.db"), "a worker needs the application's code"),
    (("worker", "shop:nd", "-c", "0"), "concurrency"),
    (("worker", "shop:nd", "--loop", "0"), "loop must be a whole number from 1 to 10000, not 0"),
    (("worker", "shop:nd", "--processes", "0"), "processes must be a whole number from 1 to 1000, not 0"),
    (("worker", "shop:nd", "--tasks-per-process", "0"), "tasks_per_process must be a whole number from 1"),
    (("worker", "shop:nd", "-c", "many"), "invalid int value"),
    (("worker", "shop:nd", "-q", "male"), "no task uses a queue 'male'"),
    (("worker", "shop:nd", "-q", ","), "names no queue"),
    (("worker", "shop:nd", "--grace", "soon"), "can't read 'soon'"),
    (("worker", "shop:nd", "--grace", "-5"), "negative"),
    (("worker", "shop:nd", "--ones"), "unrecognized arguments: --ones"),
    (("ls", "nofile.db"), "there is no file {folder}/nofile.db"),
    (("ls", "postgresql://host/db"), "not supported by this version"),
    (("ls", "./"), "is a directory"),
    (("ls", "text.db"), "is not an SQLite database"),
    (("ls", "plain.db"), "holds no tables of nextdue"),
    (("ls", "shop.db", "--limit", "0"), "--limit"),
    (("ls", "shop.db", "--state", "lost"), "invalid choice"),
    (("ls", "shop.db", "--name", "receit"), "did you mean receipt?"),
    (("ls", "shop.db", "--queue", "defalt"), "did you mean default?"),
    (("show",), "required"),
    (("show", "shop.db"), "which task of shop.db? Give its id"),
    (("show", "shop.db", "1", "2"), "this command takes one id, not 2"),
    (("show", "24"), "which file?"),
    (("backup", "shop.db"), "PATH, where the copy is to be made, is missing: nextdue backup shop.db PATH"),
    (("backup", "shop.db", "nodir/b.db"), "{folder}/nodir doesn't exist"),
    (("restore", "shop.db"), "the file to be replaced is missing: nextdue restore shop.db TARGET"),
    (("restore", "text.db", "new.db"), "the backup {folder}/text.db is no SQLite database"),
    (("add", "receipt"), "TARGET is missing: nextdue add TARGET receipt"),
    (("add", "shop.db"), "NAME [ARGS] is missing: nextdue add shop.db NAME"),
    (("show", "shop.db", "a", "b", "c"), "[TARGET] NAME KEY"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake(shop, cli, words, said):
    shop.nd.tasks["receipt"].enqueue(1)
    shop.write("", "empty.py")
    shop.write("no database at all " * 100, "text.db")
    (shop.folder / "plain.db").touch()
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert said.format(folder=shop.folder) in err
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if not re.match(r"usage:|\s", line)]) == 1


def test_an_error_inside_the_users_module_shows_their_traceback_only(shop, cli):
    shop.write("def open_shop():\n    return 1 / 0\n\nopen_shop()\n", "broken_app.py")
    code, _, err = cli("worker", "broken_app:nd")
    assert code == 2
    assert err.startswith("Traceback")
    assert re.findall(r'File "(.*?)"', err) == [str(shop.folder / "broken_app.py")] * 2
    assert err.splitlines()[-1] == "nextdue: broken_app can't be imported: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("def (", "SyntaxError"),
        ("import sys; sys.exit(5)", "SystemExit: 5"),
        ("from nextdue import Nextdue; nd = Nextdue(':memory:')", "BadDefinition"),
    ],
)
def test_other_errors_inside_the_users_module(shop, cli, text, said):
    shop.write(text, "broken_app.py")
    code, _, err = cli("worker", "broken_app")
    assert code == 2
    assert f"nextdue: broken_app can't be imported: {said}" in err.splitlines()[-1]
    assert os.sep.join(("nextdue", "cli")) not in err


def test_ways_to_name_an_application(shop, cli, monkeypatch):
    shop.nd.tasks["receipt"].using(delay="1h").enqueue(1)
    for word in ("shop", "shop:nd", "shop:second", "shop.py", "shop.py:nd", str(shop.folder / "shop.py"), "shop.db"):
        code, out, err = cli("ls", word)
        assert (code, err) == (0, ""), word
        assert "receipt" in out


def test_an_application_in_another_folder(shop, cli, tmp_path_factory, monkeypatch):
    shop.nd.tasks["receipt"].using(delay="1h").enqueue(1)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert "receipt" in cli("ls", f"{shop.folder}/shop.py:nd")[1]


def test_a_file_whose_name_is_taken_says_so(shop, cli):
    shop.write("", "json.py")
    code, _, err = cli("ls", "json.py:nd")
    assert code == 2
    assert "the name 'json' is taken by" in err


def test_no_words_show_the_commands_in_groups(cli):
    code, out, err = cli()
    assert (code, err) == (0, "")
    assert cli("--help") == (0, out, "")
    groups = [line for line in out.splitlines() if line in ("work:", "tasks:", "the file:")]
    assert groups == ["work:", "tasks:", "the file:"]


def test_what_can_only_be_a_database():
    assert target.is_path("a/b")
    assert target.is_path("shop.sqlite3")
    assert not target.is_path("a/b.py:nd")
    assert not target.is_path("shop.tasks:nd")


def test_a_fault_of_the_store_is_1(shop, cli):
    shop.nd.tasks["receipt"].enqueue(1)
    shop.sql("UPDATE nextdue_meta SET value = 99 WHERE name = 'schema'")
    for command in (("ls", "shop.db"), ("check", "shop.db"), ("why", "shop.db", "1"), ("uninstall", "shop.db")):
        code, out, err = cli(*command)
        assert (code, out) == (1, "")
        assert "upgrade nextdue" in err
    assert cli("doctor", "shop.db")[0] == 1
