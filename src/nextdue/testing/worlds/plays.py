"""What a task of a world of effects does, act by act, and the world outside in which its effects are seen."""

from collections import defaultdict
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple, Protocol

from nextdue.executors.context import Context
from nextdue.task import GiveUp, Snooze
from nextdue.testing.worlds.executor import Job

EVENTS = ("paid", "shipped", "signed", "opened")
Life = tuple[int, int]
"""A task, and which of its lives."""


class Refused(Exception):
    """An effect says of itself that it did not happen."""


class Trouble(Exception):
    """A task fails, or the answer to an effect that happened is lost."""


class Act(NamedTuple):
    """One act: a step, a sleep, a wait for an event, a word on how far it came, or a wish for more time."""

    what: str
    label: str
    ms: int
    """How long after the last one; so long a step takes on either side of its effect, too."""
    how: str = ""
    """Of a step: repeat, skip, hold, repeatable."""
    trouble: str = ""
    """Of a step, when it is first made: refused; answerless, so that nobody knows; or lost, which looks the same."""
    asynchronous: bool = False
    limit_ms: int | None = None
    """Of a wait: how long at most; of a sleep, how long."""


@dataclass
class Play(Job):
    """A job of several acts; `outcomes` says how each try ends that comes to its end."""

    acts: list[Act] = field(default_factory=list)


class Outside:
    """The world outside: what was done there can't be undone, and survives every crash."""

    def __init__(self) -> None:
        self.effects: defaultdict[tuple[Life, str], list[int]] = defaultdict(list)
        """By life and label, the number of each time that it happened."""
        self.troubled: set[tuple[Life, str]] = set()
        self.labels: defaultdict[Life, set[str]] = defaultdict(set)
        """All labels under which a life may have marks."""
        self.keys: dict[tuple[Life, str], str] = {}
        """The idempotency key of each effect."""
        self.known: dict[str, tuple[Life, str]] = {}
        """And of which effect each key is."""
        self.count = 0

    def happen(self, life: Life, label: str) -> int:
        """An effect is out; answers its number."""
        self.count += 1
        self.effects[life, label].append(self.count)
        return self.count

    def knows(self, life: Life, label: str, key: str) -> bool:
        """Whether this key is the same in every attempt at this effect, and of no other one."""
        return self.keys.setdefault((life, label), key) == key and self.known.setdefault(key, (life, label)) == (
            life,
            label,
        )

    def first(self, life: Life, label: str) -> bool:
        """Whether its trouble is still to come."""
        fresh = (life, label) not in self.troubled
        self.troubled.add((life, label))
        return fresh


class Stage(Protocol):
    """Where a play is given: the world around one attempt."""

    life: Life
    outside: Outside

    def moment(self, ms: int) -> Any:
        """To be awaited: so long it takes."""
        ...

    def about_to(self, verb: str) -> None:
        """The row is changed next, in this way."""
        ...

    def transaction(self) -> AbstractContextManager[Any]:
        """One on a connection of the task's own, or None for one of ours."""
        ...

    def lease_ms(self) -> int:
        """How long its leases are."""
        ...

    def broken(self, what: str) -> None:
        """A law is broken."""
        ...

    def holds(self) -> bool:
        """Whether the attempt's claim still stands."""
        ...

    def timed_out(self, event: str) -> None:
        """An event was said not to have come in time."""
        ...

    def heard(self, event: str, data: Any) -> None:
        """What an event was said to carry."""
        ...


async def perform(ctx: Context, play: Play, stage: Stage) -> int:
    """All acts, then the end. Raises what a task raises."""
    for number, act in enumerate(play.acts):
        await stage.moment(act.ms)
        stage.outside.labels[stage.life].add(act.label)
        if act.what == "step":
            await _step(ctx, act, stage)
        elif act.what == "cursor":
            _go_on(ctx, number, stage)
        elif act.what == "extend":
            stage.about_to("extend")
            ctx.extend(timedelta(milliseconds=stage.lease_ms()))
        else:
            stage.about_to("rest")
            _wait(ctx, act, stage)
    await stage.moment(1)
    return _end(ctx, play, stage)


async def _step(ctx: Context, act: Act, stage: Stage) -> None:
    def effect() -> int:
        if act.trouble == "refused" and stage.outside.first(stage.life, act.label):
            raise Refused
        if act.trouble == "lost" and stage.outside.first(stage.life, act.label):
            raise Trouble("it never arrived")
        number = stage.outside.happen(stage.life, act.label)
        if act.how in ("skip", "hold") and len(stage.outside.effects[stage.life, act.label]) > 1:
            stage.broken(f"task {stage.life[0]}: step {act.label!r}, in_doubt={act.how!r}, was made twice")
        if act.trouble == "answerless" and stage.outside.first(stage.life, act.label):
            raise Trouble("its answer is lost")
        return number

    async def slow_effect() -> int:
        await stage.moment(act.ms)
        number = effect()
        await stage.moment(act.ms)
        return number

    key = ctx.idempotency_key(act.label)
    if not stage.outside.knows(stage.life, act.label, key) and stage.holds():
        stage.broken(f"task {stage.life[0]}: the idempotency key of {act.label!r} is {key}, as of no attempt before")
    how: dict[str, Any] = {"in_doubt": act.how} if act.how != "repeatable" else {"repeatable": True}
    how["not_happened"] = (Refused,)
    answer: Any = ctx.step(act.label, slow_effect if act.asynchronous else effect, **how)
    saved = await answer if act.asynchronous else answer
    made = stage.outside.effects[stage.life, act.label]
    if saved not in made and (saved is not None or act.how in ("repeat", "repeatable")) and stage.holds():
        stage.broken(f"task {stage.life[0]}: step {act.label!r} was passed by with {saved!r}, of {made}")


def _go_on(ctx: Context, number: int, stage: Stage) -> None:
    before = ctx.cursor
    if before is not None and before[0] != stage.life[1] and stage.holds():
        stage.broken(f"task {stage.life[0]}: the cursor of life {before[0]} is seen in life {stage.life[1]}")
    ctx.cursor = [stage.life[1], number]


def _wait(ctx: Context, act: Act, stage: Stage) -> None:
    if act.what == "sleep":
        return ctx.sleep(act.label.removeprefix("@sleep "), timedelta(milliseconds=act.limit_ms or 0))
    event = act.label.removeprefix("@event ")
    try:
        data = ctx.wait_for(event, None if act.limit_ms is None else timedelta(milliseconds=act.limit_ms))
    except TimeoutError:
        return stage.timed_out(event)
    return stage.heard(event, data)


def _end(ctx: Context, play: Play, stage: Stage) -> int:
    outcome = play.outcomes[min(play.tries, len(play.outcomes) - 1)]
    play.tries += 1
    if outcome == "failed":
        raise Trouble("as it was to be")
    if outcome == "gave_up":
        raise GiveUp("as it was to be")
    if outcome == "snoozed":
        raise Snooze(timedelta(milliseconds=3_000 + play.number))
    if outcome == "finished":
        stage.about_to("finish")
        with stage.transaction() as own, ctx.finish(own, result=play.number) as tx:
            tx.execute("INSERT INTO own(task, life) VALUES (?, ?)", stage.life)
    return play.number


def written(random: Random, number: int) -> list[Act]:
    """The acts of a play."""
    acts: list[Act] = []
    for n in range(random.choice((0, 1, 2, 2, 3, 4))):
        what = random.choice(("step",) * 4 + ("sleep", "wait", "cursor", "extend"))
        ms = random.choice((0, 0, 5, 300, 2_000))
        if what == "step":
            how = random.choice(("repeat", "skip", "hold", "repeatable"))
            trouble = random.choice(("", "", "", "", "refused", "answerless", "lost"))
            acts.append(Act(what, f"s{n}", ms, how, trouble, random.random() < 0.6))
        elif what == "sleep":
            acts.append(Act(what, f"@sleep {n}", ms, limit_ms=random.choice((0, 700, 20_000, 90_000))))
        elif what == "wait":
            event = random.choice((*EVENTS, f"e{number}"))
            if all(act.label != f"@event {event}" for act in acts):
                acts.append(Act(what, f"@event {event}", ms, limit_ms=random.choice((None, None, None, 5_000, 60_000))))
        else:
            acts.append(Act(what, f"@{what}", ms))
    return acts
