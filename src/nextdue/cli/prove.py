"""`nextdue prove`: the engine on this machine and its SQLite, in one simulated world after the other."""

import argparse
import contextlib
import math
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from sqlite3 import sqlite_version
from typing import Any

from nextdue.cli import render
from nextdue.cli.progress import EVERY_S, REFRESH_S
from nextdue.clock import span
from nextdue.errors import BadDefinition
from nextdue.testing.worlds.proof import Failure, Proof

SEEDS = 200
"""So many worlds without --seeds and --minutes: about a minute."""
MOST_SEED, MOST_MINUTES = 1 << 32, 7 * 24 * 60
TROUBLES = {"crashes": "crashes", "steps": "clock steps", "pauses": "pauses", "locks": "locks by others"}


def prove(args: argparse.Namespace) -> int:
    """Live through the worlds; 0 if every law held, 1 if one is broken, 2 for wrong usage, 130 after Ctrl-C."""
    if not __debug__:
        raise BadDefinition("python -O and PYTHONOPTIMIZE leave out what the worlds are judged by: run it without")
    plan = Plan(args)
    proof = Proof(_folder(args.keep), plan.first)
    with _stop() as stop, Line() as line:
        line.say(f"worlds from seed {plan.first} on, {plan}; Ctrl-C ends it with a report")
        while not (stop or plan.over(proof.worlds)):
            if not proof.live():
                break
            line.show(plan.so_far(proof))
    report = Report(proof, plan, stopped=bool(stop))
    report.document() if args.json else report.show()
    return 1 if proof.failure else 128 + stop[0] if stop else 0


class Plan:
    """How many worlds, or for how long. Raises BadDefinition."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.first: int = args.seed
        self.minutes: float | None = args.minutes
        self.seeds: int | None = args.seeds if args.seeds is not None or self.minutes is not None else SEEDS
        if not 0 <= self.first <= MOST_SEED:
            raise BadDefinition(f"--seed must be a whole number from 0 to {MOST_SEED}, not {self.first}")
        if self.seeds is not None and not 1 <= self.seeds <= MOST_SEED:
            raise BadDefinition(f"--seeds must be a whole number from 1 to {MOST_SEED}, not {self.seeds}")
        if self.minutes is not None and not 0 < self.minutes <= MOST_MINUTES:
            raise BadDefinition(f"--minutes must be over 0 and at most {MOST_MINUTES}, a week, not {self.minutes:g}")
        self._began = time.monotonic()

    def __str__(self) -> str:
        return f"{self.seeds:,} of them" if self.minutes is None else f"for {span(math.ceil(self.minutes * 60_000))}"

    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    def over(self, worlds: int) -> bool:
        """Whether these were all."""
        if self.minutes is not None:
            return self.seconds() >= self.minutes * 60
        return worlds >= (self.seeds or 0)

    def rate(self, worlds: int) -> str:
        """Worlds per second."""
        return f"{worlds / max(self.seconds(), 0.001):.1f}/s"

    def so_far(self, proof: Proof) -> str:
        """One line."""
        share = proof.worlds / self.seeds if self.seeds else self.seconds() / 60 / (self.minutes or 1)
        left = span(math.ceil(self.seconds() / share * (1 - share)) * 1000) if 0 < share < 1 else "nothing"
        met = proof.met
        return (
            f"{render.counted(proof.worlds, 'world')}, {self.rate(proof.worlds)}: {met['ticks']:,} ticks, "
            f"{met['crashes']:,} crashes, {met['steps']:,} clock steps; {left} left"
        )


class Report:
    """What was done, when it is over."""

    def __init__(self, proof: Proof, plan: Plan, *, stopped: bool) -> None:
        self.proof, self.plan, self.stopped = proof, plan, stopped
        self.seconds = plan.seconds()

    def show(self) -> None:
        """For people."""
        proof, met = self.proof, self.proof.met
        worlds = f"{render.counted(proof.worlds, 'world')} in {span(int(self.seconds * 1000))}"
        if proof.failure is None:
            print(f"{'stopped: ' if self.stopped else ''}every law held in {worlds}, {self.plan.rate(proof.worlds)}")
        else:
            _show(proof.failure)
            print(f"\nbefore it every law held in {worlds}" if proof.worlds else "\nit was the first one")
        kinds = ", ".join(f"{count:,} of {kind}" for kind, count in proof.kinds.items())
        troubles = ", ".join(f"{met[name]:,} {words}" for name, words in TROUBLES.items())
        render.fields(
            [
                ("worlds", kinds or "none"),
                ("work", f"{met['tasks']:,} tasks, {met['ticks']:,} ticks, {met['changes']:,} changes of rows judged"),
                ("troubles", troubles),
                ("on", f"SQLite {sqlite_version}, Python {python_version()}, nextdue {version('nextdue')}"),
                ("digest", f"{proof.digest:08x}, of {self._seeds()}"),
            ]
        )

    def _seeds(self) -> str:
        first, worlds = self.proof.first, self.proof.worlds
        return f"seeds {first} to {first + worlds - 1}" if worlds > 1 else f"seed {first}" if worlds else "nothing"

    def document(self) -> None:
        """For programs."""
        proof = self.proof
        failure: dict[str, Any] | None = None
        if proof.failure is not None:
            failure = {**proof.failure._asdict(), "database": str(proof.failure.database)}
            failure["repeat"] = _repeat(proof.failure)
        render.document(
            {
                "held": proof.failure is None,
                "stopped": self.stopped,
                "first_seed": proof.first,
                "worlds": dict(proof.kinds),
                "seconds": round(self.seconds, 3),
                **{name: proof.met[name] for name in ("tasks", "ticks", "changes", *TROUBLES)},
                "sqlite": sqlite_version,
                "python": python_version(),
                "nextdue": version("nextdue"),
                "digest": f"{proof.digest:08x}",
                "failure": failure,
            }
        )


def _show(failure: Failure) -> None:
    print(f"BROKEN in world {failure.seed}, of {failure.kind}: {render.clean(failure.law)}")
    for line in failure.evidence:
        print(f"  {render.clean(line)}")
    print(f"\nrepeat it:  {_repeat(failure)}")
    print(f"its file:   {failure.database}")
    print(f"look in:    nextdue ls {shlex.quote(str(failure.database))}")
    print("A promise did not hold. Please report it, with this text and the folder of that file.")


def _repeat(failure: Failure) -> str:
    return f"nextdue prove --seed {failure.seed} --seeds 1"


def _folder(keep: str | None) -> Path:
    """Where the worlds are made. Raises BadDefinition if none can be."""
    try:
        folder = Path(tempfile.gettempdir() if keep is None else keep).resolve()
        os.rmdir(tempfile.mkdtemp(prefix="nextdue-prove-", dir=folder))
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        where = "the folder for temporary files" if keep is None else f"--keep {keep}"
        raise BadDefinition(f"{where} must be a folder in which files can be made: {why}") from None
    return folder


@contextlib.contextmanager
def _stop() -> Iterator[list[int]]:
    """Holds the signal that asked for an end, once there was one: the world at hand is finished. A second ends it."""
    asked: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    except KeyboardInterrupt:  # the second one; the report is of what was done before
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Line:
    """How far it is, on stderr: one line rewritten in place on a terminal, else a new one every 10 s."""

    def __init__(self) -> None:
        self._shown = time.monotonic()
        self._live: Any = None

    def __enter__(self) -> "Line":
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console
            from rich.live import Live

            self._live = Live("", console=Console(stderr=True, highlight=False), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        print(text, file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        """The newest, unless another one was shown just before."""
        now = time.monotonic()
        if now - self._shown < (EVERY_S if self._live is None else REFRESH_S):
            return
        self._shown = now
        if self._live is None:
            self.say(f"  {text}")
        else:
            self._live.update(text, refresh=True)
