"""The editor's commands, as they are typed."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from apps.signal.tests.desk import Desk


@pytest.fixture
def desk(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capfd)


def typed(said: str, verb: str = "approve") -> list[str]:
    """The last command of this kind that was printed, without the program's name."""
    line = [line for line in said.splitlines() if verb in line.split()][-1]
    words = shlex.split(line)
    assert words[0] == "signal"
    return words[1:]


def test_the_queue_prints_what_to_type(desk: Desk) -> None:
    entry = desk.db.says(desk.news, "a", title="Peace talks begin")
    queue = desk("queue")
    assert queue.lines[0] == f"{entry}  Peace talks begin"
    assert "The News" in queue.lines[1]
    assert "1 entry waits for a decision." in queue.out
    done = desk(*typed(queue.out))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{entry}  approved  ")
    assert desk.decisions() == [(entry, "approved")]
    assert desk("queue").out == "0 entries wait for a decision.\n"


def test_the_command_names_the_folder_only_where_it_must(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.db.says(desk.news, "a")
    assert typed(desk("queue").out)[:2] == ["--folder", str(desk.folder)]
    monkeypatch.setenv("SIGNAL_FOLDER", str(desk.folder))
    queue = desk("queue", folder=False)
    assert typed(queue.out)[0] == "approve"
    assert desk(*typed(queue.out), folder=False).code == 0
    assert desk.decisions() == [(1, "approved")]


def test_the_queue_of_changes(desk: Desk) -> None:
    desk.db.says(desk.news, "new")
    entry = desk.db.says(desk.news, "a", title="Before")
    desk(*typed(desk("show", str(entry)).out))
    assert desk("queue", "--changed").out == "0 entries have changed after a decision.\n"
    desk.db.says(desk.news, "a", title="After")
    queue = desk("queue", "--changed")
    assert queue.lines[0] == f"{entry}  After"
    assert "changed" in queue.lines[1]
    assert "1 entry has changed after a decision." in queue.out


def test_the_queue_shows_as_many_as_it_is_told(desk: Desk) -> None:
    for key in "abc":
        desk.db.says(desk.news, key)
    queue = desk("queue", "--limit", "2")
    assert queue.out.count("--fingerprint") == 2
    assert "3 entries wait" in queue.out
    assert "2 shown" in queue.out


def test_an_approval_needs_the_fingerprint_that_was_read(desk: Desk) -> None:
    entry = str(desk.db.says(desk.news, "a"))
    for words in ((), ("--fingerprint", "abc")):
        refused = desk("approve", entry, *words)
        assert (refused.code, refused.out) == (2, "")
        assert f"signal show {entry} prints" in refused.err
    assert desk.decisions() == []


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_mismatch_shows_the_diff_and_changes_nothing(desk: Desk, verb: str) -> None:
    desk.db.says(desk.news, "a", title="Peace talks begin", text="One. Two.")
    read = typed(desk("show", "1").out, verb)
    desk.db.says(desk.news, "a", title="Peace talks fail", text="One. Three.")
    refused = desk(*read)
    assert refused.code == 1
    assert refused.err == "signal: entry 1 has changed since you read it; nothing was decided\n"
    assert "Peace talks [-begin-]{+fail+}" in refused.out
    assert "One. [-Two-]{+Three+}." in refused.out
    assert "link:" not in refused.out
    assert desk.decisions() == []
    assert desk(*typed(refused.out, verb)).code == 0
    assert len(desk.decisions()) == 1


def test_a_fingerprint_of_another_entry_has_no_diff(desk: Desk) -> None:
    desk.db.says(desk.news, "a")
    desk.db.says(desk.news, "b", title="Other")
    other = typed(desk("show", "2").out)[-1]
    refused = desk("approve", "1", "--fingerprint", other)
    assert refused.code == 1
    assert "never had a text with this fingerprint" in refused.err
    assert "[-" not in refused.out
    assert desk.decisions() == []


def test_a_rejection_without_a_fingerprint_is_of_what_it_says_now(desk: Desk) -> None:
    entry = desk.db.says(desk.news, "a")
    said = desk("reject", str(entry))
    assert said.code == 0
    assert said.out.startswith(f"{entry}  rejected  ")
    assert desk.decisions() == [(entry, "rejected")]


def test_show_tells_all_of_an_entry(desk: Desk) -> None:
    desk.db.says(desk.news, "guid:a", text="First.", author="Anna")
    desk(*typed(desk("show", "1").out, "reject"))
    desk.db.says(desk.news, "guid:a", text="Second.\nParagraph.", author="Anna")
    shown = desk("show", "1").out
    for text in ("The News (news)", "https://news.example/1", "Anna", "guid:a", "Second.\nParagraph.", "waits"):
        assert text in shown
    revisions = [line for line in shown.splitlines() if line[:2] in ("* ", "  ")]
    assert [("rejected" in line, line[0]) for line in revisions] == [(True, " "), (False, "*")]
    diff = desk("show", "1", "--diff").out
    assert "[-First-]{+Second.\nParagraph+}." in diff


def test_show_diff_of_a_first_text(desk: Desk) -> None:
    desk.db.says(desk.news, "a")
    said = desk("show", "1", "--diff").out
    assert "This is its first text" in said
    assert "Some text." in said


def test_what_is_the_same_is_left_out_of_a_long_diff(desk: Desk) -> None:
    same = " ".join(f"Sentence {number}." for number in range(200))
    desk.db.says(desk.news, "a", text=f"{same} End. {same}")
    desk(*typed(desk("show", "1").out))
    desk.db.says(desk.news, "a", text=f"{same} Change. {same}")
    diff = desk("show", "1", "--diff").out
    assert "Sentence 199. [-End-]{+Change+}. Sentence 0." in diff
    assert diff.count("words the same") == 2
    assert "Sentence 100." not in diff


@pytest.mark.parametrize("command", ["show", "approve", "reject"])
@pytest.mark.parametrize(("number", "code"), [("99", 2), ("0", 2), ("-1", 2), ("x", 2), ("9" * 5_000, 2), ("٣", 2)])
def test_an_entry_that_is_not_there(desk: Desk, command: str, number: str, code: int) -> None:
    words = ["--fingerprint", "0" * 12] if command == "approve" else []
    said = desk(command, number, *words)
    assert (said.code, said.out) == (code, "")
    assert "signal queue" in said.err or "usage" in said.err


def test_texts_of_others_do_not_steer_the_terminal(desk: Desk) -> None:
    hostile = "a\x1b]0;owned\x07\x1b[31m\u202e\x9b\rb"
    desk.db.says(
        desk.news, "k\x1b[1m", title=hostile, text=f"cake {hostile}", author=hostile, link="https://a.example/\x1b"
    )
    outputs = [desk(*words).out for words in (("queue",), ("show", "1"), ("search", "cake"), ("reject", "1"))]
    desk.db.says(desk.news, "k\x1b[1m", title="b", text=f"{hostile} tea", author=hostile)
    outputs += [desk("show", "1", "--diff").out]
    for out in outputs:
        assert not set(out) & set("\x1b\x07\x9b\u202e\r"), repr(out)
    assert "\\x1b[31m" in outputs[0]


def test_search_answers_clearly(desk: Desk) -> None:
    desk.db.says(desk.news, "a", title="Выборы мэра", text="Итоги объявят завтра.")
    found = desk("search", "итоги", "завтра")
    assert found.code == 0
    assert "Выборы мэра" in found.out
    assert "    Итоги объявят завтра." in found.out
    assert "1 entry with итоги завтра" in found.out
    none = desk("search", "cake")
    assert (none.code, none.out) == (0, "Nothing found: no entry has all of: cake\n")
    for words in ((), ("",), ("?!",)):
        nothing = desk("search", *words)
        assert (nothing.code, nothing.out) == (2, "")
        assert "type a word" in nothing.err


def test_search_says_that_there_may_be_more(desk: Desk) -> None:
    for key in "abc":
        desk.db.says(desk.news, key, text="cake")
    assert "--limit" in desk("search", "cake", "--limit", "2").out
    assert "--limit" not in desk("search", "cake").out


def test_russian(desk: Desk) -> None:
    (desk.folder / "signal.toml").write_text('language = "ru"\n')
    desk.db.says(desk.news, "a", title="")
    queue = desk("queue")
    assert "1 запись ждёт решения." in queue.out
    assert "без заголовка" in queue.out
    assert "одобрено" in desk(*typed(queue.out)).out


def test_colours_on_a_terminal(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.db.says(desk.news, "a", text="One.")
    desk("reject", "1")
    desk.db.says(desk.news, "a", text="Two.")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    diff = desk("show", "1", "--diff").out
    assert "\x1b[9;31mOne\x1b[0m\x1b[32mTwo\x1b[0m" in diff
    assert "[-" not in diff


WORKER = "import sys; from signal_feeds.cli.main import main; sys.exit(main(sys.argv[1:]))"


def test_decisions_are_made_beside_a_worker(desk: Desk) -> None:
    """One owner: approve, reject, publish and search work beside it."""
    argv = [sys.executable, "-c", WORKER, "--folder", str(desk.folder), "worker"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline()  # said when it has the lock
            desk.db.says(desk.news, "a", text="cake")
            (mine,) = (line for line in desk("queue").lines if line.endswith("  A title"))
            assert desk(*typed(desk("show", mine.split()[0]).out)).code == 0
            assert desk("reject", mine.split()[0]).code == 0
            assert desk("search", "cake").code == 0
            assert desk("publish", str(desk.folder / "out")).code == 0
            assert worker.poll() is None
        finally:
            worker.terminate()
        worker.stdout.read()
    assert worker.returncode == 0
