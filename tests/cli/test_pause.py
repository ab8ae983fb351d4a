"""`nextdue pause` and `resume`, and who says that something is paused."""

import pytest


@pytest.fixture
def tasks(shop):
    """receipt #1 is due in an hour, letter #2 and #3 of the queue mail are due now."""
    shop.nd.tasks["receipt"].using(delay="1h").enqueue(1)
    shop.nd.tasks["letter"].enqueue("Ada")
    shop.nd.tasks["letter"].enqueue("Bob")
    return shop


def test_a_queue_is_paused_and_resumed(tasks, cli):
    assert cli("pause", "shop:nd", "--queue", "mail") == (
        0,
        "queue mail is paused until `nextdue resume shop.db --queue mail`\n",
        "",
    )
    assert cli("pause", "shop.db", "--queue", "mail")[1].startswith("queue mail was already paused")
    assert [tuple(found)[:2] for found in tasks.nd.paused()] == [("queue", "mail")]
    assert cli("resume", "shop.db", "--queue", "mail") == (0, "queue mail is resumed\n", "")
    code, out, _ = cli("resume", "shop.db", "--queue", "mail")
    assert (code, out) == (1, "queue mail wasn't paused; nothing is paused\n")


def test_what_nobody_uses_yet_is_paused_and_said(tasks, cli):
    code, out, _ = cli("pause", "shop.db", "--name", "lettre")
    assert code == 0
    assert "No task of this name has been put so far" in out
    assert "No task" not in cli("pause", "shop:nd", "--name", "receipt")[1]
    assert "paused are: name lettre" in cli("resume", "shop.db", "--name", "letter")[1]


def test_tasks_are_paused_by_their_ids(tasks, cli, monkeypatch):
    assert cli("pause", "shop.db", "1", "#3") == (0, "receipt #1 is paused\nletter #3 is paused\n", "")
    assert {handle.id for handle in tasks.nd.find(state="held")} == {1, 3}
    monkeypatch.setenv("NEXTDUE", "shop.db")
    assert cli("resume", "3") == (0, "letter #3 is resumed\n", "")
    assert cli("resume", "2") == (1, "letter #2 wasn't paused; it is waiting\n", "")


def test_all_of_it_is_resumed(tasks, cli):
    cli("pause", "shop.db", "1", "--queue", "mail", "--name", "receipt")
    code, out, _ = cli("resume", "shop.db", "--all")
    assert code == 0
    assert out.splitlines() == ["queue mail is resumed", "name receipt is resumed", "receipt #1 is resumed"]
    assert cli("resume", "shop.db", "--all")[:2] == (0, f"nothing is paused in {tasks.path}\n")


def test_a_running_or_finished_task_is_left_alone(tasks, cli):
    tasks.sql("UPDATE nextdue_task SET token = (1 << 32) + 1, claims = 1, scheduled_for = 1 WHERE id = 1")
    tasks.sql("UPDATE nextdue_task SET due = NULL, rest = 'dead' WHERE id = 2")
    code, out, _ = cli("pause", "shop.db", "1", "2", "3")
    assert code == 1
    assert out.splitlines() == [
        "receipt #1 is running; it is left alone",
        "letter #2 is dead; nothing is changed",
        "letter #3 is paused",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("pause", "shop.db"), "what is to be paused?"),
        (("resume", "shop.db"), "what is to be resumed?"),
        (("resume", "shop.db", "1", "--all"), "what is to be resumed?"),
        (("pause", "shop.db", "receipt"), "'receipt' is no id"),
        (("pause", "shop.db", "3", "99"), "there is no task 99"),
        (("pause", "nosuch.db", "1"), "there is no file"),
        (("pause", "shop.db", "--queue", ""), "a queue's name must have"),
    ],
)
def test_wrong_usage_changes_nothing(tasks, cli, words, says):
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert says in err
    assert tasks.nd.paused() == []
    assert tasks.nd.find(state="held") == []


def test_everybody_who_looks_is_told(tasks, cli):
    cli("pause", "shop.db", "--queue", "mail")
    cli("pause", "shop.db", "1")
    assert "warn  paused        queue mail is paused since " in cli("doctor", "shop.db")[1]
    code, out, _ = tasks.run("worker", "shop:nd", "--once")
    assert code == 0
    assert "  paused     queue mail, since " in out


def test_a_word_with_a_space_can_be_copied(tasks, cli):
    assert "--queue 'my mail'`" in cli("pause", "shop.db", "--queue", "my mail")[1]
    assert "nextdue resume shop.db --queue 'my mail'" in cli("doctor", "shop.db")[1]
