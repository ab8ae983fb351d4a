"""`signal worker`: first what there is to do, then a line for each attempt, at the end a summary."""

import argparse
import logging
import sys
from collections import Counter
from typing import Any

from nextdue import StoreError
from signal_feeds.app import Signal
from signal_feeds.cli.output import say
from signal_feeds.cli.parsers import command
from signal_feeds.collecting import Line
from signal_feeds.settings import MOST_JOBS, Network, network
from signal_feeds.store.listing import listed
from signal_feeds.texts import Language, local, reason, relative
from signal_feeds.texts import say as words


def worker(signal: Signal, args: argparse.Namespace) -> int:
    """Collect until stopped, or until --once is through."""
    lang, counts = signal.settings.language, Counter[str]()

    def tell(line: Line) -> None:
        counts.update(asked=1, failed=int(line.reason is not None), fresh=line.fresh)
        say(in_line(line, lang))

    _log_to_stderr()
    signal.tell = tell
    signal.work(
        network=args.network,
        once=args.once,
        jobs=args.jobs,
        allow_net=args.allow_net,
        begun=lambda: introduce(signal, network=args.network),
    )
    say(words(lang, "work.end", asked=counts["asked"], failed=counts["failed"], fresh=counts["fresh"]))
    return 0


def introduce(signal: Signal, *, network: bool) -> None:
    """How many sources there are, why some of them aren't asked, when the next one is, and who isn't told who asks."""
    lang, now, found = signal.settings.language, signal.now_ms(), listed(signal.store)
    say(words(lang, "work.begin", folder=signal.folder, count=len(found)))
    offline = [one for one in found if one.source.kind == "http" and not network]
    resting = [one for one in found if one.state != "waiting" and one not in offline]
    if offline:
        say(words(lang, "work.offline", count=len(offline)))
    if resting:
        say(words(lang, "work.resting", count=len(resting)))
    waiting = [one for one in found if one not in offline and one.state == "waiting"]
    dues = [now if one.due_ms is None else one.due_ms for one in waiting]
    overdue = sum(due <= now for due in dues)
    if overdue:
        say(words(lang, "work.due", count=overdue))
    elif dues:
        say(words(lang, "work.next", when=f"{local(min(dues))}, {relative(lang, min(dues), now)}"))
    if network and not signal.settings.contact:
        say(words(lang, "work.contact"))


def in_line(line: Line, lang: Language) -> str:
    """An attempt: id, status and new entries; or id, failed and why."""
    if line.reason is not None:
        status = f" ({line.status})" if line.status else ""
        said = f"{line.source}  {words(lang, 'work.failed')}  {line.reason}{status}: {reason(lang, line.reason)}"
        return f"{said}; {words(lang, 'work.offers', count=line.offers, name=line.source)}" if line.offers else said
    parts = [words(lang, "work.fresh", count=line.fresh)]
    if line.changed:
        parts.append(words(lang, "work.changed", count=line.changed))
    return f"{line.source}  {line.status or words(lang, 'work.file')}  {', '.join(parts)}"


def _log_to_stderr() -> None:
    """What nextdue has to say of its own: a clock that was set, a file that can't be written."""
    log = logging.getLogger("nextdue")
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
        # A folder may have no sources of one kind: then nobody uses their queue.
        handler.addFilter(lambda record: not str(record.msg).startswith("no task uses a queue"))
        handler.addFilter(_without_traceback)
        log.addHandler(handler)


def _without_traceback(record: logging.LogRecord) -> bool:
    """What the file is short of is said in words; where in the program it was noticed helps nobody."""
    if record.exc_info and isinstance(record.exc_info[1], StoreError):
        record.exc_info = None
    return True


def add_commands(commands: Any) -> None:
    """See cli.main.MODULES."""
    more = """It goes on until Ctrl-C or SIGTERM; what is under way then gets 5 s, or is left to the next worker. One
works in a folder: exit code 3 if another one is at work."""
    parser = command(commands, "worker", "collect, each source when it is due", more)
    parser.add_argument("--once", action="store_true", help="what is due now, and end")
    parser.add_argument("--network", action="store_true", help="ask servers too; without it only local files are read")
    parser.add_argument("--jobs", type=_jobs, metavar="N", help="so many sources at once; default: jobs in signal.toml")
    parser.add_argument(
        "--allow-net", type=_network, action="append", default=[], metavar="CIDR",
        help="a network beside the open internet that may be asked; may be given again",
    )  # fmt: skip
    parser.set_defaults(run=worker, locks=True)  # before it makes or opens anything


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_JOBS:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a number from 1 to {MOST_JOBS}")
    return int(text)


def _network(text: str) -> Network:
    try:
        return network(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
