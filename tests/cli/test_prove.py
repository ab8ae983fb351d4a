"""`nextdue prove` finds planted bugs, can be repeated to the last digit, and needs nothing but nextdue."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nextdue.cli.main import main
from nextdue.errors import StoreFull
from nextdue.sqlite.database import Database
from nextdue.testing.worlds import proof as proofs
from nextdue.testing.worlds.proof import TURNS, Proof
from nextdue.worker import Worker
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants_of_schedules import MUTANTS as OF_SCHEDULES

ALONE = "import sys; sys.modules.update(pytest=None, hypothesis=None); from nextdue.cli.main import main; "
SCHEDULES = next(seed for seed, (kind, _) in enumerate(TURNS) if kind == "schedules")


def python(*words, **env):
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=False, timeout=60)


def in_a_process(folder, hashes):
    """The report of some worlds, without the tools of the tests, and with another order of all sets."""
    words = ["prove", "--seed", str(SCHEDULES - 3), "--seeds", "4", "--keep", str(folder), "--json"]
    done = python("-c", f"{ALONE}sys.exit(main({words!r}))", PYTHONHASHSEED=hashes)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    del report["seconds"]
    return report


def test_the_same_seeds_have_the_same_digest_in_every_process(tmp_path):
    first = in_a_process(tmp_path, "1")
    assert first == in_a_process(tmp_path, "2")
    assert (first["held"], first["stopped"], first["failure"]) == (True, False, None)
    assert first["worlds"] == {"tasks": 3, "schedules": 1}
    assert min(first[word] for word in ("tasks", "ticks", "changes", "crashes", "steps")) > 0
    assert list(tmp_path.iterdir()) == [], "worlds that held are left"


def test_the_report_for_people(tmp_path, cli):
    code, out, err = cli("prove", "--seeds", "2", "--keep", tmp_path)
    assert code == 0
    assert err == "worlds from seed 0 on, 2 of them; Ctrl-C ends it with a report\n"
    held, worlds, work, troubles, on, digest = out.splitlines()
    assert re.fullmatch(r"every law held in 2 worlds in .*, .*/s", held)
    assert worlds.split(None, 1) == ["worlds", "2 of tasks"]
    assert re.fullmatch(r"work +\d+ tasks, [\d,]+ ticks, [\d,]+ changes of rows judged", work)
    assert re.fullmatch(r"troubles +\d+ crashes, \d+ clock steps, \d+ pauses, \d+ locks by others", troubles)
    assert re.fullmatch(r"on +SQLite \S+, Python \S+, nextdue \S+", on)
    assert re.fullmatch(r"digest +[0-9a-f]{8}, of seeds 0 to 1", digest)
    page = (Path(__file__).parents[2] / "docs" / "prove.md").read_text("utf-8")
    sample = page[page.index("every law held in 200") :].partition("\n```")[0].splitlines()
    assert [line.split()[0] for line in sample] == [line.split()[0] for line in out.splitlines()]
    assert re.fullmatch(r"digest +\.{8}, of seeds 0 to 199", sample[-1]), "it is another one in each version"


def test_progress_is_shown_while_it_goes_on(tmp_path, cli, monkeypatch):
    monkeypatch.setattr("nextdue.cli.prove.EVERY_S", 0)
    _, _, err = cli("prove", "--seeds", "2", "--keep", tmp_path, "--json")
    _, first, last = err.splitlines()
    assert re.fullmatch(r"  1 world, [\d.]+/s: [\d,]+ ticks, \d+ crashes, \d+ clock steps; .* left", first)
    assert last.startswith("  2 worlds, ")


PLANTED = [
    (MUTANTS["the_same_token_at_every_tick"][0], 0, "tasks", "a token was used twice"),
    (OF_SCHEDULES["all_missed_ones_run"][0], 15, "schedules", "is to run by its rule for missed ones"),
]


@pytest.mark.parametrize(("plant", "seed", "kind", "law"), PLANTED, ids=["tasks", "schedules"])
def test_a_planted_bug_is_found_kept_and_repeated(plant, seed, kind, law, tmp_path, cli, monkeypatch):
    with monkeypatch.context() as patch:
        plant(patch)
        code, out, _ = cli("prove", "--seed", seed, "--seeds", 9, "--keep", tmp_path)
        assert code == 1
        told, *evidence = out.splitlines()
        assert told.startswith(f"BROKEN in world {seed}, of {kind}: ")
        assert law in told
        repeat = next(line for line in evidence if line.startswith("repeat it:")).split(None, 2)[2]
        kept = Path(next(line for line in evidence if line.startswith("its file:")).split(None, 2)[2])
        assert kept.is_relative_to(tmp_path)
        assert cli("ls", kept)[0] == 0
        assert cli("check", kept)[0] in (0, 1)
        again = cli(*shlex.split(repeat)[1:], "--keep", tmp_path)
        assert again[0] == 1
        told_again = again[1].splitlines()
        assert told_again[: told_again.index("")] == [told, *evidence[: evidence.index("")]]
    held = cli(*shlex.split(repeat)[1:], "--keep", tmp_path)
    assert held[0] == 0, "the bug is gone and its world still fails"


def test_a_planted_bug_as_json(tmp_path, cli, monkeypatch):
    PLANTED[0][0](monkeypatch)
    code, out, _ = cli("prove", "--keep", tmp_path, "--json")
    report = json.loads(out)
    assert (code, report["held"], report["worlds"]) == (1, False, {})
    failure = report["failure"]
    assert (failure["seed"], failure["kind"], failure["law"]) == (0, "tasks", "a token was used twice")
    assert failure["repeat"] == "nextdue prove --seed 0 --seeds 1"
    assert failure["evidence"]
    assert Path(failure["database"]).is_file()


def test_an_error_of_the_engine_is_a_failing_world(tmp_path, cli, monkeypatch):
    monkeypatch.setattr(Worker, "_request", lambda self: 1 / 0)
    code, out, _ = cli("prove", "--keep", tmp_path)
    assert code == 1
    assert "the engine stopped with an error that no law allows: ZeroDivisionError: division by zero" in out
    assert "  Traceback" in out
    assert len(list(tmp_path.glob("*/world-0.db"))) == 1


def test_a_full_disk_is_no_verdict(tmp_path, cli, monkeypatch):
    def full(*args, **options):
        raise StoreFull("the disk is full")

    monkeypatch.setattr(Database, "write", full)
    code, out, err = cli("prove", "--keep", tmp_path)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "nextdue: the disk is full"
    assert list(tmp_path.iterdir()) == []


def test_minutes(tmp_path, cli):
    code, out, err = cli("prove", "--minutes", "0.001", "--keep", tmp_path, "--json")
    assert code == 0
    assert json.loads(out)["worlds"] == {"tasks": 1}
    assert err.startswith("worlds from seed 0 on, for 60 ms;")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_it_with_what_was_done(number, tmp_path):
    command = [sys.executable, "-m", "nextdue", "prove", "--minutes", "5", "--keep", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("worlds from seed 0 on, for 5 min;")
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, err) == (128 + number, "")
    assert out.startswith("stopped: every law held in ")
    assert list(tmp_path.iterdir()) == []


def test_a_second_signal_leaves_the_world_at_hand(tmp_path, cli, monkeypatch):
    def twice(*args):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(proofs, "lived", twice)
    code, out, _ = cli("prove", "--keep", tmp_path)
    assert code == 130
    assert out.startswith("stopped: every law held in 0 worlds")
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGINT) == before


MISTAKES = [
    (("--seeds", "0"), "--seeds must be a whole number from 1 to 4294967296, not 0"),
    (("--seeds", "-5"), "--seeds must be a whole number from 1"),
    (("--seeds", "many"), "argument --seeds: invalid int value: 'many'"),
    (("--seeds", "1.5"), "argument --seeds: invalid int value: '1.5'"),
    (("--seeds", "9" * 30), "--seeds must be a whole number from 1"),
    (("--minutes", "0"), "--minutes must be over 0 and at most 10080, a week, not 0"),
    (("--minutes", "-1"), "--minutes must be over 0"),
    (("--minutes", "nan"), "--minutes must be over 0 and at most 10080, a week, not nan"),
    (("--minutes", "inf"), "a week, not inf"),
    (("--minutes", "soon"), "argument --minutes: invalid float value: 'soon'"),
    (("--seeds", "5", "--minutes", "1"), "argument --minutes: not allowed with argument --seeds"),
    (("--seed", "-1"), "--seed must be a whole number from 0 to 4294967296, not -1"),
    (("--keep", "missing"), "--keep missing must be a folder in which files can be made: No such file or directory"),
    (("--keep", "a file"), "--keep a file must be a folder in which files can be made: Not a directory"),
    (("--keep", "/proc"), "--keep /proc must be a folder in which files can be made: "),
    (("--keep", "a\0b"), "must be a folder in which files can be made: embedded null byte"),
    (("shop.db",), "unrecognized arguments: shop.db"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[ascii(" ".join(words)) for words, _ in MISTAKES])
def test_a_mistake(words, said, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").touch()
    code, out, err = cli("prove", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path, cli):
    tmp_path.chmod(0o500)
    assert "Permission denied" in cli("prove", "--keep", tmp_path)[2]


def test_without_assertions_it_refuses():
    done = python("-O", "-m", "nextdue", "prove", "--seeds", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "python -O and PYTHONOPTIMIZE leave out what the worlds are judged by" in done.stderr


def test_other_commands_load_no_world(tmp_path):
    """Nor does `import nextdue`."""
    look = "main(['doctor', 'shop.db']); main(['explain', '@daily'])"
    left = "[name for name in sys.modules if name.startswith('nextdue.testing')]"
    done = python("-c", f"{ALONE}import nextdue; {look}; assert not {left}, {left}")
    assert done.returncode == 0, done.stderr
    done = python("-c", "import sys, nextdue.testing; assert 'nextdue.testing.worlds' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_every_kind_of_world_has_its_turn(tmp_path):
    assert {kind for kind, _ in TURNS} == {"tasks", "schedules", "effects"}
    proof = Proof(tmp_path, SCHEDULES)
    assert proof.live()
    assert proof.kinds == {"schedules": 1}
    assert main(["prove", "--help"]) == 0
