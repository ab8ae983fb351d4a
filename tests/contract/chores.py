"""Tasks for the child processes of the tests; imported by them, and the database is never made."""

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from nextdue import Cancelled, Context, GiveUp, LeaseLost, Nextdue, Retry, RetryAfter, Snooze

nd = Nextdue(Path(__file__).with_name("never.db"))
served: list[int] = []


class Desk:
    """The desk of an application whose store says no to ten seconds."""

    def extend(self, claim: Any, ms: int) -> None:
        if ms == 10_000:
            raise LeaseLost("somebody else has it")

    def close(self) -> None:
        """Nothing is open: sandboxes of the same test run ask every application."""


vars(nd)["desk"] = Desk()


@nd.task
def note(file: str, word: str) -> None:
    """A whole line; no kill can cut it."""
    fd = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.write(fd, f"{word}\n".encode())
    os.close(fd)


@nd.task
def noop() -> None:
    pass


@nd.task
def pid() -> None:
    served.append(1)
    raise GiveUp(f"{os.getpid()} {len(served)}")


@nd.task
def hang(file: str) -> None:
    note(file, str(os.getpid()))
    time.sleep(60)


@nd.task(keep_result=True)
def tells(ctx: Context, text: str) -> list[Any]:
    return [ctx.id, ctx.name, ctx.key, ctx.attempt, ctx.crashes, ctx.lost(), ctx.cancelled(), len(text)]


@nd.task
def dies(way: str) -> None:
    if way == "exit":
        os._exit(7)
    if way == "segfault":
        ctypes.string_at(0)
    os.kill(os.getpid(), signal.SIGKILL)


@nd.task(time_limit=0.5)
def spins() -> None:
    while True:
        pass


@nd.task(time_limit=0.5)
def grips() -> None:
    """A call into C that never lets go of the interpreter."""
    sum(range(10**15))


@nd.task
def grips_a_while(file: str) -> None:
    note(file, "begun")
    sum(range(7 * 10**7))


@nd.task
def leaves_its_group(file: str) -> None:
    os.setpgid(0, os.getpgid(os.getppid()))
    hang.definition.fn(file)


@nd.task(time_limit=0.5)
def starts_another(file: str) -> None:
    note(file, str(subprocess.Popen(["sleep", "60"]).pid))
    time.sleep(60)


@nd.task
def leaves_a_fork(file: str) -> None:
    other = os.fork()
    if not other:
        time.sleep(60)
        os._exit(0)
    note(file, str(other))
    os._exit(3)


@nd.task
def steps(ctx: Context, file: str) -> None:
    note(file, "begun")
    try:
        for n in range(10_000):
            ctx.progress(n, 10_000, "stepping")
            time.sleep(0.002)
    except Cancelled:
        note(file, "cleaned")
        raise


@nd.task
def deaf(file: str) -> None:
    note(file, "begun")
    while True:
        time.sleep(0.01)


@nd.task(time_limit=0.5)
def extends(ctx: Context, seconds: float) -> None:
    ctx.extend(seconds)
    time.sleep(1)


@nd.task
def extends_in_vain(ctx: Context) -> None:
    try:
        ctx.extend(10)
        raise AssertionError
    except LeaseLost as exc:
        raise GiveUp(f"heard {exc}") from None


@nd.task
def babbles() -> None:
    for fd in range(3, 30):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("socket"):
                os.write(fd, b"what?\n")
        except OSError:
            pass
    time.sleep(60)


class Odd(Exception):
    """One that can't be made again from what it tells of itself, and that can't be told."""

    def __init__(self, first: object, second: object) -> None:
        self.first, self.second = first, second

    def __str__(self) -> str:
        raise RuntimeError("not for you")

    def __reduce__(self) -> Any:
        raise RuntimeError("nor for you")


@nd.task(retry=Retry(reasons={TimeoutError: "late"}))
def raises(what: str) -> None:
    match what:
        case "snooze":
            raise Snooze(5)
        case "retry":
            raise RetryAfter(7)
        case "odd":
            raise Odd(object(), print)
        case "surrogate":
            raise ValueError("\ud800\x00")
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case _:
            raise TimeoutError(what)
