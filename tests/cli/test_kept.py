"""What keeps a task, and how far it is, as `ls`, `show` and `why` tell it; and the filters of `ls`."""

import json

from tests.cli.test_bulk import rest
from tests.cli.test_look import add, hold, why


def ls(cli, *words):
    code, out, err = cli("ls", "shop.db", *words)
    assert (code, err) == (0, "")
    return out.splitlines()[1:]


def listed(cli, *words):
    return json.loads(cli("ls", "shop.db", *words, "--json")[1])


def test_progress_of_a_running_task(shop, cli):
    (id,) = add(shop, 1)
    hold(shop, id)
    shop.sql("UPDATE nextdue_task SET progress = '[412, 900, \"files\"]'")
    assert " running 412/900 files  -  " in ls(cli)[0]
    assert "progress       412/900 files" in cli("show", "shop.db", id)[1]
    assert listed(cli)[0]["progress"] == {"done": 412, "total": 900, "note": "files"}
    for text, said in (('[412, null, ""]', "running 412"), ("no json", "running"), ("[1]", "running")):
        shop.sql("UPDATE nextdue_task SET progress = ?", (text,))
        assert f" {said}  -  " in ls(cli)[0], text


def test_a_running_task_that_was_asked_to_stop(shop, cli):
    (id,) = add(shop, 1)
    hold(shop, id)
    shop.sql("UPDATE nextdue_task SET stop = 5")
    assert " running (asked to stop) " in ls(cli)[0]
    assert "It was asked to stop at 1970-01-01 00:00:00 UTC, " in why(cli, "shop.db", id)
    assert listed(cli)[0]["stop_asked_ms"] == 5
    assert cli("cancel", "shop.db", id)[1] == f"receipt #{id} is running; it was asked to stop before\n"


def test_a_paused_task(shop, cli):
    (id,) = add(shop, 1)
    rest(shop, id, "held", reason="paused", wished=5)
    assert " held (paused) " in ls(cli)[0]
    said = why(cli, "shop.db", id)
    assert f"It is paused; `nextdue resume shop.db {id}` lets it go on." in said
    assert "It was to be due at 1970-01-01 00:00:00 UTC, " in said
    assert "goes on with  due 1970-01-01 00:00:00 UTC" in cli("show", "shop.db", id)[1]
    assert listed(cli)[0]["paused"] == ["task"]
    assert len(ls(cli, "--state", "held", "--reason", "paused")) == 1


def test_a_paused_queue_and_name(shop, cli):
    (id,) = add(shop, 1)
    shop.sql("INSERT INTO nextdue_pause VALUES ('queue', 'default', 5)")
    assert " waiting (queue paused) " in ls(cli)[0]
    assert "Its queue 'default' is paused since 1970-01-01 00:00:00 UTC, " in why(cli, "shop.db", id)
    shop.sql("INSERT INTO nextdue_pause VALUES ('name', 'receipt', 5), ('name', 'letter', 5)")
    assert " waiting (queue paused, name paused) " in ls(cli)[0]
    assert "`nextdue resume shop.db --name receipt` ends that." in why(cli, "shop.db", id)
    assert listed(cli)[0]["paused"] == ["queue", "name"]


def test_a_task_of_a_restored_file(shop, cli):
    """Who is told to resume its queue would let it go past the look that the release is."""
    (id,) = add(shop, 1)
    shop.sql("INSERT INTO nextdue_pause VALUES ('name', 'receipt', 1)")
    shop.sql("INSERT INTO nextdue_meta VALUES ('restored', 1)")
    said = why(cli, "shop.db", id)
    assert "The file is a restored backup and held since 1970-01-01" in said
    assert "shows what would start, and lets it." in said
    assert "resume --queue" not in said
    assert "--name receipt` ends that." in said
    assert "restored backup" in why(cli, "shop.db", add(shop, 2, queue="other")[0])


def test_a_blocked_task(shop, cli):
    one, two = add(shop, 1, 2)
    rest(shop, one, "blocked", wished=5, grp="")
    rest(shop, two, "blocked", wished=5, grp="ada")
    assert all(" waiting (blocked by its limit) " in line for line in ls(cli, "--state", "waiting"))
    said = why(cli, "shop.db", one)
    assert "It is blocked: as many run as the limit of 'receipt' allows, " in said
    assert "It was due at 1970-01-01 00:00:00 UTC, " in said
    assert "the limit of 'receipt' for the group 'ada' allows" in why(cli, "shop.db", two)
    assert listed(cli)[0]["blocked"]


def test_a_task_that_expires(shop, cli):
    (id,) = add(shop, 1, delay="1h")
    shop.sql("UPDATE nextdue_task SET expires = due + 3600000")
    assert "in 2 h: after that it isn't started." in why(cli, "shop.db", id)
    assert "expires   2" in cli("show", "shop.db", id)[1]
    shop.sql("UPDATE nextdue_task SET expires = 5")
    assert "It expired at 1970-01-01 00:00:00 UTC" in why(cli, "shop.db", id)
    rest(shop, id, "dead", reason="expired")
    assert "It expired before it could be started." in why(cli, "shop.db", id)


def test_a_held_task_says_what_to_do(shop, cli):
    (id,) = add(shop, 1)
    rest(shop, id, "held", reason="arguments", message="BadArguments: too many")
    said = why(cli, "shop.db", id)
    assert "It is held until a person decides: BadArguments: too many." in said
    assert f"`nextdue retry shop.db {id}` starts it anew" in said


def test_ls_filters_by_key_reason_and_age(shop, cli):
    one, two, three = add(shop, 1, 2, 3, delay="1h")
    add(shop, 4, delay="1h", key="k")
    rest(shop, one, "dead", reason="timeout")
    rest(shop, two, "dead", reason="refused")
    shop.sql("UPDATE nextdue_task SET created = created - 7200000 WHERE id IN (?, ?)", (one, three))

    def ids(*words):
        return [task["id"] for task in listed(cli, *words)]

    assert ids("--key", "k") == [4]
    assert ids("--reason", "timeout") == [one]
    assert ids("--older-than", "1h") == [three, one]
    assert ids("--newer-than", "1h") == [4, two]
    assert ids("--older-than", "1h", "--newer-than", "3h", "--state", "dead") == [one]
    assert ids("--sort", "age")[:2] == [one, three]
    assert ls(cli, "--reason", "Timeout") == []
    for words in (("--older-than", "old"), ("--older-than", "2h", "--newer-than", "1h"), ("--sort", "id")):
        code, out, err = cli("ls", "shop.db", *words)
        assert (code, out) == (2, "")
        assert "Traceback" not in err


def test_an_old_task_that_ran_lately_is_new(shop, cli):
    """Age counts from the last run: `--newer-than 1h` finds what died in the last hour, however old."""
    add(shop, 13)
    shop.nd.run(1, once=True)
    shop.sql("UPDATE nextdue_task SET created = created - 864000000")
    cli("ls", "shop.db")
    assert len(listed(cli, "--newer-than", "1h")) == 1
    assert listed(cli, "--older-than", "1h") == []
