"""`nextdue add`: what is stored, and what is refused before anything is."""

import json
import os
import threading

import pytest

from nextdue.cli import add


def stored(shop):
    return shop.sql("SELECT name, args, key FROM nextdue_task")


def test_a_task_is_put_by_the_application(shop, cli):
    code, out, err = cli("add", "shop:nd", "receipt", "[42]", "--in", "5m", "--key", "k")
    assert (code, err) == (0, "")
    assert out.startswith(f"receipt #1 is stored in {shop.path}, due ")
    assert "in 4 min 59 s" in out or "in 5 min" in out
    assert stored(shop) == [("receipt", "[42]", "k")]
    code, out, _ = cli("add", "shop:nd", "receipt", "[43]", "--key", "k")
    assert (code, out) == (0, "receipt #1 holds this key already and is waiting; nothing is stored\n")
    assert stored(shop) == [("receipt", "[42]", "k")]


def test_a_task_is_put_into_a_database_under_a_name_that_it_knows(shop, cli):
    shop.nd.tasks["letter"].enqueue("Ada")
    at = ("--at", "2026-12-01 09:00", "--tz", "Europe/Moscow", "--priority", "7")
    code, out, err = cli("add", "shop.db", "letter", '{ "to": "Bob" }', *at, "--json")
    assert (code, err) == (0, "")
    task = json.loads(out)["task"]
    assert (task["args"], task["due"], task["due_ms"]) == ({"to": "Bob"}, "2026-12-01T06:00:00.000Z", 1796104800000)
    assert (task["queue"], task["priority"]) == ("mail", 7)
    code, _, err = cli("add", "shop.db", "lettre", '["Bob"]')
    assert code == 2
    assert "no task is called 'lettre'" in err
    assert "did you mean letter?" in err
    assert len(stored(shop)) == 2


def test_a_sleeping_worker_hears_of_it(shop, cli):
    ran = threading.Event()

    @shop.nd.task
    def hear() -> None:
        ran.set()

    shop.sql("INSERT INTO nextdue_tasks(name, due_utc) VALUES ('hear', '2999-01-01')")
    with shop.nd.working(1):
        assert cli("add", "shop.db", "hear")[0] == 0
        assert ran.wait(10)


def test_words_and_options_may_come_in_any_order(shop, cli):
    assert cli("add", "--in", "1h", "shop:nd", "receipt", "--key", "a", "[1]")[0] == 0
    assert cli("add", "shop:nd", "receipt", "--priority", "-5", "[-2]")[0] == 0
    assert cli("add", "shop:nd", "bill", "[3]")[0] == 0  # a former name
    assert [args for _, args, _ in stored(shop)] == ["[1]", "[-2]", "[3]"]


@pytest.mark.parametrize(
    ("words", "split"),
    [
        (["receipt"], (None, "receipt", "[]")),
        (["receipt", "[1]"], (None, "receipt", "[1]")),
        (["shop:nd", "receipt"], ("shop:nd", "receipt", "[]")),
        (["shop.db", "receipt", '{"a": 1}'], ("shop.db", "receipt", '{"a": 1}')),
        (["shop:nd", "receipt", "42"], ("shop:nd", "receipt", "42")),
    ],
)
def test_the_target_may_be_left_to_the_environment(words, split, monkeypatch):
    monkeypatch.setenv("NEXTDUE", "shop:nd")
    assert add.split(words) == split
    assert os.environ["NEXTDUE"]


REFUSED = [
    (("receipt", "[42]", "--at", "2026-12-01 09:00"), '--at "2026-12-01 09:00+00:00" or'),
    (("receipt", "[42]", "--at", "2026-12-01 09:00", "--tz", "berlin"), "did you mean Europe/Berlin"),
    (("receipt", "[42]", "--in", "5m", "--at", "2026-12-01T09:00Z"), "not both"),
    (("receipt", "[42]", "--tz", "UTC"), "give --at too"),
    (("receipt", "[42]", "--in", "five"), "can't read 'five'"),
    (("receipt", "[42]", "--at", "9999-12-31 23:59-14:00"), "outside 1970"),
    (("receipt", "[42]", "--at", "1969-12-31 23:59Z"), "outside 1970"),
    (("receit", "[42]"), "did you mean receipt?"),
    (("receipt", '["42"]'), "Expected `int`"),
    (("receipt", "[]"), "receipt"),
    (("receipt", "[1, 2, 3]"), "receipt"),
    (("receipt", '{"ordre": 1}'), "ordre"),
    (("receipt", "42"), "JSON array or object, like '[42]'"),
    (("receipt", "[42"), "isn't JSON"),
    (("receipt", "[NaN]"), "isn't JSON"),
    (("receipt", "[" * 100_000), "isn't JSON"),
    (("letter", f'["{"x" * (1 << 20)}"]'), "1048576"),
    (("receipt", "[1]", "--queue", "male"), "did you mean mail?"),
    (("receipt", "[1]", "--priority", "101"), "-100 to 100"),
    (("receipt", "[1]", "--key", "x" * 201), "201"),
    (("receipt", "[1]", "--key", "a\nb"), "control characters"),
    (("receipt", "x", "[1]", "[2]"), "give [TARGET] NAME [ARGS]"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_line_and_nothing_is_stored(shop, cli, words, said):
    code, out, err = cli("add", "shop:nd", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert stored(shop) == []


@pytest.mark.parametrize("args", ["[42", "42", f'["{"x" * (1 << 20)}"]'])
def test_a_database_takes_no_bad_arguments_either(shop, cli, args):
    shop.sql("INSERT INTO nextdue_tasks(name, due_utc) VALUES ('letter', '2999-01-01')")
    assert cli("add", "shop.db", "letter", args)[0] == 2
    assert len(stored(shop)) == 1


def test_no_command_makes_a_file_without_the_application(shop, cli):
    code, _, err = cli("add", "shop.db", "receipt", "[42]")
    assert code == 2
    assert "there is no file" in err
    assert not shop.path.exists()
