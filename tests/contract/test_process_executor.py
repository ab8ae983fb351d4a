"""What ports.Executor promises, kept by child processes."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from nextdue.executors import offspring, process
from nextdue.records import Claim
from tests.contract.rig import lines
from tests.process.harness import children, over, until


def test_claims_are_run_in_order_and_each_ends_once(rig, tmp_path):
    """`start`, `finished`: run when a slot is free, in order; each claim once."""
    r, file = rig(), tmp_path / "notes"
    claims = [r.start("note", str(file), str(n)) for n in range(200)]
    endings = r.ended(200)
    assert [e.claim for e in endings] == claims
    assert {e.kind for e in endings} == {"done"}
    assert lines(file) == [str(n) for n in range(200)]
    r.turn()
    assert len(r.endings) == 200


def pid(ending):
    """The number of the child, and how many tasks it has run."""
    return ending.message.split()[1:3]


def test_a_child_is_started_when_it_is_needed_and_reused(rig):
    r = rig(4)
    assert children(os.getpid()) == []
    assert pid(r.run("pid")) == [str(children(os.getpid())[0]), "1"]
    assert pid(r.run("pid")) == [str(children(os.getpid())[0]), "2"]
    assert len(children(os.getpid())) == 1


def test_as_many_run_at_once_as_there_are_slots(rig, tmp_path):
    r, file = rig(3), tmp_path / "notes"
    for _ in range(5):
        r.start("hang", str(file))
    r.sees(lambda: len(lines(file)) == 3)
    assert sorted(map(int, lines(file))) == sorted(children(os.getpid()))
    assert r.executor.waiting() == 2


def test_a_worker_may_sleep_while_a_child_starts_and_while_it_works(rig, tmp_path):
    """`limit_ms`: nothing is to be done until something happens."""
    r, file = rig(4), tmp_path / "notes"
    r.start("hang", str(file))
    limit = r.executor.limit_ms()
    assert limit is not None
    assert limit > 10_000, "the limit for the start of a child"
    r.sees(lambda: lines(file))
    assert r.executor.limit_ms() is None


def test_a_child_is_replaced_after_its_share(rig):
    """max_tasks: no child runs more, and the one before it is gone."""
    r = rig(1, max_tasks=3)
    for _ in range(10):
        r.start("pid")
    told = [pid(e) for e in r.ended(10)]
    assert [int(n) for _, n in told] == [1, 2, 3, 1, 2, 3, 1, 2, 3, 1]
    assert len({child for child, _ in told}) == 4
    r.sees(lambda: len(children(os.getpid())) == 1)


def test_the_context_is_the_same_as_anywhere(rig):
    ending = rig().run("tells", "x" * 1_000_000, key="k", attempts=2, crashes=1)
    assert (ending.kind, ending.result) == ("done", '[1,"tells","k",3,1,false,false,1000000]')


def test_large_arguments_for_many_do_not_stop_the_worker(rig):
    r = rig(2)
    begun = time.monotonic()
    for _ in range(60):
        r.start("tells", "x" * 1_000_000)
        assert time.monotonic() - begun < 10
    assert {e.kind for e in r.ended(60)} == {"done"}


def test_a_child_that_can_not_listen_is_not_filled(rig, tmp_path):
    """The worker's loop renews leases: it must never wait for a child."""
    r, file = rig(), tmp_path / "notes"
    r.run("noop")
    r.start("grips_a_while", str(file))
    r.sees(lambda: lines(file))
    begun = time.monotonic()
    for _ in range(20):
        r.start("tells", "x" * 500_000)
        r.executor.finished()
    assert time.monotonic() - begun < 0.7, "SEND_LIMIT_S wasn't reached"
    assert {e.kind for e in r.ended(22)} == {"done"}


@pytest.mark.parametrize(
    ("what", "kind", "delay_ms", "reason"),
    [
        ("snooze", "snoozed", 5000, None),
        ("retry", "failed", 7000, "RetryAfter"),
        ("late", "failed", None, "late"),
        ("odd", "failed", None, "Odd"),
        ("surrogate", "failed", None, "ValueError"),
        ("exit", "failed", None, "SystemExit"),
        ("interrupt", "failed", None, "KeyboardInterrupt"),
    ],
)
def test_what_a_task_raises_is_its_ending(rig, what, kind, delay_ms, reason):
    """F076, F083, F084: whatever it raises is told in words, not pickled; the child lives on."""
    r = rig()
    ending = r.run("raises", what)
    assert (ending.kind, ending.delay_ms, ending.reason) == (kind, delay_ms, reason)
    only = children(os.getpid())
    assert r.run("noop").kind == "done"
    assert children(os.getpid()) == only


def test_arguments_that_do_not_fit_are_unfit(rig):
    assert rig().run("note", 1, 2, 3).kind == "held"


# limits and deaths


@pytest.mark.parametrize("name", ["spins", "grips"])
def test_a_time_limit_is_kept_whatever_the_task_does(rig, name):
    """F028: a loop and a call into C that holds the interpreter are killed, and nothing of them runs on."""
    r = rig()
    r.run("noop")
    old = children(os.getpid())
    begun = time.monotonic()
    ending = r.run(name)
    took = time.monotonic() - begun
    assert (ending.kind, ending.reason) == ("failed", "time_limit")
    assert ending.message == "it ran for over its time limit of 0.5 s; its process was killed"
    assert 0.5 <= took < 3
    assert ending.ran_ms is not None
    assert 500 <= ending.ran_ms < 3000
    assert not set(old) & set(children(os.getpid())), "no zombie either"
    assert r.run("noop").kind == "done"


def test_what_a_killed_task_has_started_ends_too(rig, tmp_path):
    r, file = rig(), tmp_path / "notes"
    assert r.run("starts_another", str(file)).reason == "time_limit"
    until(lambda: over(int(lines(file)[0])), 5)


@pytest.mark.parametrize(
    ("way", "how"),
    [("exit", "exited with code 7"), ("segfault", "was killed by SIGSEGV"), ("", "was killed by SIGKILL")],
)
def test_a_death_is_the_running_task_s_alone(rig, tmp_path, way, how):
    """F037, F082: those before it are done, those behind it run elsewhere, and nobody runs twice."""
    r, file = rig(), tmp_path / "notes"
    r.run("noop")
    before = [r.start("note", str(file), f"a{n}") for n in range(5)]
    guilty = r.start("dies", way)
    after = [r.start("note", str(file), f"b{n}") for n in range(20)]
    endings = {e.claim: e for e in r.ended(27)[1:]}
    crashed = endings.pop(guilty)
    assert (crashed.kind, crashed.reason) == ("crashed", "child_died")
    assert crashed.message is not None
    assert crashed.message.endswith(how)
    assert set(endings) == {*before, *after}
    assert {e.kind for e in endings.values()} == {"done"}
    assert lines(file) == [f"a{n}" for n in range(5)] + [f"b{n}" for n in range(20)]


def test_a_death_is_seen_although_a_fork_of_it_lives(rig, tmp_path):
    r, file = rig(), tmp_path / "notes"
    ending = r.run("leaves_a_fork", str(file))
    assert (ending.kind, (ending.message or "")[-18:]) == ("crashed", "exited with code 3")
    until(lambda: over(int(lines(file)[0])), 5)


def test_a_child_that_is_killed_while_idle_blames_nobody(rig):
    r = rig()
    r.run("noop")
    os.kill(children(os.getpid())[0], signal.SIGKILL)
    r.sees(lambda: children(os.getpid()) == [])
    assert r.run("noop").kind == "done"
    assert len(r.endings) == 2


def test_a_task_that_writes_to_the_worker_is_killed(rig):
    r = rig()
    ending = r.run("babbles")
    assert (ending.kind, ending.reason) == ("crashed", "child_died")
    assert "connection to the worker" in (ending.message or "")
    assert r.run("noop").kind == "done"


# cancelling, withdrawing, losing


def test_a_cancelled_task_hears_it_and_cleans_up(rig, tmp_path):
    """`cancel`, `progress`: told while it runs; it ends when it sees it."""
    r, file = rig(), tmp_path / "notes"
    claim = r.start("steps", str(file))
    said: list[tuple[Claim, str]] = []

    def heard() -> bool:
        said.extend(r.executor.progress())
        return bool(said)

    r.sees(heard)
    assert said[0][0] is claim
    ((done, total, note),) = msgspec.json.decode(said[0][1])
    assert (total, note) == (10_000, "stepping")
    assert done > 0
    r.executor.cancel(claim)
    assert r.ended(1, 3)[0].kind == "cancelled"
    assert lines(file) == ["begun", "cleaned"]


def test_a_cancelled_task_that_does_not_listen_is_killed(rig, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "CANCEL_GRACE_S", 0.4)
    r, file = rig(), tmp_path / "notes"
    claim = r.start("deaf", str(file))
    r.sees(lambda: lines(file))
    begun = time.monotonic()
    r.executor.cancel(claim)
    (ending,) = r.ended(1, 5)
    assert 0.4 <= time.monotonic() - begun < 3
    assert (ending.kind, ending.reason) == ("cancelled", "killed")
    assert r.run("noop").kind == "done"


def test_a_task_that_is_cancelled_before_its_start_never_starts(rig, tmp_path):
    r, file = rig(), tmp_path / "notes"
    r.run("noop")
    running = r.start("steps", str(tmp_path / "steps"))
    behind = [r.start("note", str(file), str(n)) for n in range(10)]
    r.sees(lambda: lines(tmp_path / "steps"))
    r.turn()
    for claim in behind:
        r.executor.cancel(claim)
    r.executor.cancel(running)
    assert {e.kind for e in r.ended(12)[1:]} == {"cancelled"}
    assert lines(file) == []
    r.executor.cancel(running)  # one that has ended
    assert r.run("noop").kind == "done"


def test_what_is_withdrawn_is_never_run(rig, tmp_path):
    """`waiting`, `withdraw`: all that isn't started, even what a child already has."""
    r, file = rig(2), tmp_path / "notes"
    hung = [r.start("hang", str(tmp_path / "pids")) for _ in range(2)]
    r.sees(lambda: len(lines(tmp_path / "pids")) == 2)
    behind = [r.start("note", str(file), str(n)) for n in range(100)]
    r.turn()
    assert r.executor.waiting() == 100
    assert set(r.executor.withdraw()) == set(behind)
    assert r.executor.waiting() == 0
    assert r.executor.withdraw() == []
    for claim in hung:
        r.executor.lose(claim)
    assert r.run("noop").kind == "done"
    assert lines(file) == []


def test_withdrawing_while_they_run_loses_none_and_runs_none_twice(rig, tmp_path):
    r, file = rig(3), tmp_path / "notes"
    taken: list[Claim] = []
    for n in range(600):
        r.start("note", str(file), str(n))
        if n % 40 == 39:
            r.turn()
            taken += r.executor.withdraw()
    r.ended(600 - len(taken))
    assert taken
    assert {e.claim.id for e in r.endings} | {c.id for c in taken} == set(range(1, 601))
    assert sorted(map(int, lines(file))) == sorted(e.claim.id - 1 for e in r.endings)


def test_a_short_task_does_not_wait_behind_a_long_one(rig, tmp_path):
    """What a child has before it and hasn't started is given to the next that is free."""
    r, file = rig(2), tmp_path / "notes"
    for _ in range(2):
        r.start("noop")
    r.ended(2)
    for _ in range(40):
        r.start("noop")
    r.start("hang", str(tmp_path / "pids"))
    for n in range(40):
        r.start("note", str(file), str(n))
    r.ended(82, 10)
    assert len(lines(file)) == 40


def test_a_lost_task_is_dead_when_lose_returns(rig, tmp_path):
    """`lose`: others may run it from now on, so it must not run on; its ending isn't reported."""
    r, file = rig(), tmp_path / "notes"
    claim = r.start("hang", str(file))
    r.sees(lambda: lines(file))
    begun = time.monotonic()
    r.executor.lose(claim)
    assert time.monotonic() - begun < 0.5
    assert over(int(lines(file)[0]))
    assert children(os.getpid()) == []
    assert [r.run("noop").kind] == ["done"]
    assert [e.claim is claim for e in r.endings] == [False]
    waiting = [r.start("hang", str(file)), r.start("noop")]
    r.executor.lose(waiting[1])
    r.executor.lose(waiting[0])
    assert r.executor.waiting() == 0


def test_a_task_that_leaves_its_process_group_is_killed_too(rig, tmp_path):
    r, file = rig(), tmp_path / "notes"
    claim = r.start("leaves_its_group", str(file))
    r.sees(lambda: lines(file))
    r.executor.lose(claim)
    assert over(int(lines(file)[0]))


# more time


def test_a_task_gets_more_time(rig):
    """F028: ctx.extend asks the child's own application, and moves the time limit."""
    r = rig()
    assert r.run("extends", 0.1).reason == "time_limit"
    assert r.run("extends", 20).kind == "done"


def test_a_refused_extension_is_raised_in_the_task(rig):
    message = rig().run("extends_in_vain").message
    assert message.startswith("GiveUp: heard somebody else has it (chores.py:")


# what is left


def test_nothing_is_left_behind(rig, tmp_path):
    """No process, zombie, thread or descriptor, whatever the children were doing."""
    fds, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        r, file = rig(3), tmp_path / "notes"
        r.start("hang", str(file))
        r.start("dies", "exit")
        r.sees(lambda r=r: r.endings)
        r.start("noop")
        r.ended(2)
        r.start("noop")
        begun = time.monotonic()
        r.executor.close()
        assert time.monotonic() - begun < 2
        assert children(os.getpid()) == []
        assert over(int(lines(file)[-1]))
    until(lambda: threading.active_count() == threads, 2)
    assert len(os.listdir("/proc/self/fd")) == fds


def test_a_child_has_no_descriptors_but_its_own(rig, tmp_path):
    r = rig(2)
    secret = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(secret, True)
    kept = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    try:
        r = rig(2, keep_open=lambda: [kept])
        r.start("hang", str(tmp_path / "a"))
        r.start("hang", str(tmp_path / "a"))
        r.sees(lambda: len(lines(tmp_path / "a")) == 2)
        for pid in map(int, lines(tmp_path / "a")):
            held = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
            assert str(tmp_path) not in held
            assert str(tmp_path / "lock") in held
            assert len([name for name in held if name.startswith("socket")]) == 1
            assert len([name for name in held if name.startswith("pipe")]) <= 3  # its permits, the test's own output
    finally:
        os.close(secret)
        os.close(kept)


def test_a_child_whose_worker_died_before_it_could_look_ends(tmp_path):
    """The race of PR_SET_PDEATHSIG: the parent is gone before the child asked to be killed with it."""
    from nextdue.executors.offspring import _ROOT, _START

    reader, writer = os.pipe()
    done = subprocess.run(
        [sys.executable, "-P", "-c", _START, _ROOT, "1", str(writer), str(reader)],
        check=False,
        pass_fds=[reader, writer],
        timeout=10,
    )
    os.close(reader)
    os.close(writer)
    assert done.returncode == 1


def test_a_child_ends_without_a_word_if_its_worker_left_something_unread(capfd):
    """F037: then the connection is reset, which is its end as well."""
    ours, theirs = socket.socketpair()
    permits = os.pipe()
    child = offspring._spawn([theirs.fileno(), permits[0]])
    try:
        theirs.close()
        assert select.select([ours], [], [], 20)[0]  # it has said that it is up
        ours.close()
        until(lambda: len(os.listdir(f"/proc/{child.pid}/task")) == 1)  # who listened has ended
        os.close(permits[1])
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.wait()
        os.close(permits[0])
    assert capfd.readouterr().err == ""


def test_the_traceback_of_a_child_comes_over(rig):
    error = rig().run("pid").error
    assert 'chores.py", line ' in str(error)
    assert "GiveUp: " in str(error)
