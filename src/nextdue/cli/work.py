"""`nextdue worker`: first what there is to do, then progress that a person can read, at the end a summary."""

import argparse
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from nextdue.app import Nextdue
from nextdue.cli import pause, target
from nextdue.cli.logs import say, to_stderr
from nextdue.cli.progress import make_progress
from nextdue.cli.render import clean
from nextdue.cli.times import relative, shown
from nextdue.clock import span
from nextdue.errors import BadDefinition
from nextdue.service import Service
from nextdue.sqlite import inspect
from nextdue.worker import Worker


def worker(args: argparse.Namespace) -> int:
    """Run an application's tasks until stopped, or until --once is through."""
    app = target.find_app(args.app)
    to_stderr()
    queues = None if args.queues is None else _queues(args.queues)
    progress = make_progress()
    service = app.working(
        args.concurrency,
        loop=args.loop,
        processes=args.processes,
        tasks_per_process=args.tasks_per_process,
        queues=queues,
        grace=_seconds(args.grace),
        spread=_seconds(args.spread),
        once=args.once,
        exclusive=args.exclusive,
        hook=progress.settled,
    )
    begun = time.monotonic()
    with _noted_signals(service) as noted:
        service.lock()  # of an exclusive worker: before anybody touches the database
        if queues is not None:
            _refuse_unknown(app, queues)
        work = service.open()
        try:
            _introduce(app, work, service)
            progress.begin(work)
            if noted:
                service.ask_to_stop()
            service.run()
        finally:
            progress.end()
            say(f"worked {span(int((time.monotonic() - begun) * 1000))}: {summary(work.totals)}")
    return 0


def summary(totals: Mapping[str, int]) -> str:
    """The counts of a worker, in words.

    >>> summary({"done": 3, "lost": 1})
    '3 done, 0 failed, 0 dead, 0 released, 1 lost'
    """
    always = [f"{totals.get(word, 0)} {word}" for word in ("done", "failed", "dead", "released")]
    sometimes = ("snoozed", "held", "cancelled", "expired", "lost")
    also = [f"{totals[word]} {word}" for word in sometimes if totals.get(word)]
    return ", ".join(always + also)


def _seconds(text: str) -> float | str:
    """`--grace 20` means seconds, like everywhere else."""
    try:
        return float(text)
    except ValueError:
        return text


def _queues(text: str) -> list[str]:
    queues = [queue.strip() for queue in text.split(",") if queue.strip()]
    if not queues:
        raise BadDefinition(f"-q {text!r} names no queue; write -q mail,default")
    return queues


def _refuse_unknown(app: Nextdue, queues: list[str]) -> None:
    known = {task.options.queue for task in app.tasks.values()}
    if app.path.exists() and not known.issuperset(queues):
        store = app.open_store()
        try:
            known |= inspect.queues(store.database)
        finally:
            store.close()
    for queue in queues:
        target.known_queue(queue, known, app.path)


@contextmanager
def _noted_signals(service: Service) -> Iterator[list[int]]:
    """Before and after the time in which the service has its own handlers, a signal is noted and nothing is cut off."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        service.ask_to_stop()

    previous = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield noted
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _introduce(app: Nextdue, work: Worker, service: Service) -> None:
    """What a person wants to know before the first task starts."""
    database = service.store.database
    everything = inspect.backlog(database)
    log = inspect.backlog(database, now=everything.now, names=work.options, queues=service.queues)
    strangers = {name: count for name, count in sorted(everything.waiting.items()) if name not in work.options}
    say(f"nextdue worker {work.id} on {app.path}")
    say(f"  serves     {', '.join(sorted(work.options)) or 'nothing: no task is declared'}{_of_queues(service.queues)}")
    rest = f", {sum(log.resting.values())} of them for other tasks or events" if log.resting else ""
    say(f"  waiting    {sum(log.waiting.values())}{rest}")
    if log.overdue and log.oldest is not None:
        say(f"  overdue    {log.overdue}, since {shown(log.oldest)}, {relative(log.oldest, log.now)}")
    if log.running:
        say(f"  running    {sum(log.running.values())} in other workers")
    if work.recovered:
        say(f"  recovered  {len(work.recovered)} from a dead worker")
    if service.spread:
        say(f"  spread     {service.spread} that were overdue for over a minute")
    if strangers:
        counts = ", ".join(f"{clean(name)} ({count})" for name, count in strangers.items())
        say(f"  unknown    {counts}: kept until a worker that knows them comes")
    for line in pause.lines(database):
        say(f"  paused     {line}")
    say(f"  next due   {'nothing' if log.next is None else f'{shown(log.next)}, {relative(log.next, log.now)}'}")


def _of_queues(queues: list[str] | None) -> str:
    return "" if queues is None else f" (queues: {', '.join(queues)})"
