"""The commands, each with its options."""

import argparse
import importlib
import textwrap
from collections.abc import Callable
from itertools import groupby
from typing import Any

TARGET = "module:attribute (shop:nd), file (shop.py:nd) or database (shop.db); default: NEXTDUE in the environment"
APP = "module:attribute (shop:nd) or file (shop.py:nd), the attribute is nd by default; default: NEXTDUE"
STATES = ("waiting", "running", "done", "dead", "cancelled", "held")
WIDTH = 80
"""Of the help, in columns."""
Command = Callable[[argparse.Namespace], int]


class Help(argparse.RawDescriptionHelpFormatter):
    """The same text in all versions of Python and on all terminals. Lines that begin with a space stay as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24, width=WIDTH)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for kept, block in groupby(text.splitlines(), lambda line: line[:1] in ("", " ")):
            part = list(block)
            lines += part if kept else textwrap.wrap(" ".join(part), width, break_on_hyphens=False)
        return "\n".join(lines)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """`-c, --concurrency N`, where Python before 3.13 writes the N twice."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {action.metavar or action.dest.upper()}"


def _late(module: str, function: str) -> Command:
    """A command whose module is imported when it runs: a worker loads nothing that it doesn't need."""

    def run(args: argparse.Namespace) -> int:
        code: int = getattr(importlib.import_module(f"nextdue.cli.{module}"), function)(args)
        return code

    return run


def _command(
    commands: Any, name: str, module: str, says: str, usage: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        prog=f"nextdue {name}",
        usage=f"nextdue {name} {usage}".rstrip(),
        description=says,
        epilog=epilog,
        allow_abbrev=False,
        formatter_class=Help,
    )
    parser.set_defaults(run=_late(module, name.replace("-", "_")), parser=parser)
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs: one JSON document")


def _target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", nargs="?", help=TARGET)


def _worker(commands: Any, name: str) -> None:
    parser = _command(
        commands,
        name,
        "work",
        "Run the tasks of an application until SIGTERM or Ctrl-C (a second one ends the grace).",
        "[APP] [--once] [-c N] [--loop N] [--processes N]\n"
        "                      [--tasks-per-process N] [-q A,B] [--exclusive]\n"
        "                      [--grace TIME] [--spread TIME]",
        "Exit codes: 0 also if tasks failed, 1 if the worker itself failed, 2 for wrong usage, 3 if\n"
        "another exclusive worker is at work.",
    )
    parser.add_argument("app", metavar="APP", nargs="?", help=APP)
    parser.add_argument("--once", action="store_true", help="run what is due now, wait for it, and end")
    parser.add_argument("-c", "--concurrency", type=int, default=8, metavar="N", help="so many in threads (default 8)")
    parser.add_argument("--loop", type=int, default=100, metavar="N", help="so many coroutines (default 100)")
    parser.add_argument("--processes", type=int, metavar="N", help="so many in processes (default: one for each CPU)")
    parser.add_argument("--tasks-per-process", type=int, metavar="N", help="then it is replaced (default: never)")
    parser.add_argument("-q", "--queues", metavar="A,B", help="only tasks of these queues (default: all)")
    parser.add_argument("--exclusive", action="store_true", help="refuse to work beside another exclusive worker")
    parser.add_argument("--grace", default="20s", metavar="TIME", help="what running tasks get at a stop (default 20s)")
    herd = "what is overdue by over a minute at the start starts spread over so long: 10m, 2h"
    parser.add_argument("--spread", default="0", metavar="TIME", help=herd)


def _demo(commands: Any, name: str) -> None:
    says = "The clock changes of every time zone, as files, by a worker that is killed three times."
    parser = _command(commands, name, "demo", says, "[--directory DIR]")
    parser.add_argument("--directory", metavar="DIR", help="for its files: a new or an empty one (default: a new one)")
    # A smaller demo, for tests.
    parser.add_argument("--zones", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--spread", type=float, help=argparse.SUPPRESS)


def _prove(commands: Any, name: str) -> None:
    says = (
        "The engine on this machine and its SQLite, in simulated worlds: workers that crash at any statement,\n"
        "pauses, clocks that are set, foreign locks, schedules. Each change of each row is judged. It needs\n"
        "no database of yours."
    )
    epilog = (
        "Exit codes: 0 every law held, 1 one is broken (its world can be repeated, and its file is kept),\n"
        "2 wrong usage, 130 after Ctrl-C, which finishes the world at hand and reports."
    )
    usage = "[--seeds N | --minutes M] [--seed FIRST]\n                     [--keep FOLDER] [--json]"
    parser = _command(commands, name, "prove", says, usage, epilog)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seeds", type=int, metavar="N", help="so many worlds (default 200, about a minute)")
    length.add_argument("--minutes", type=float, metavar="M", help="as many as there is time for")
    parser.add_argument("--seed", type=int, default=0, metavar="FIRST", help="the first world (default 0)")
    keep = "where they are made and a failing one is kept (default: where temporary files go)"
    parser.add_argument("--keep", metavar="FOLDER", help=keep)
    _json(parser)


def _add(commands: Any, name: str) -> None:
    parser = _command(
        commands,
        name,
        "add",
        "Put a task. With an application the arguments are checked against its function; with a\n"
        "database the name must be one that the file knows.",
        "[TARGET] NAME [ARGS] [--in TIME | --at TIME [--tz ZONE]]\n"
        "                   [--key KEY] [--queue QUEUE] [--priority N] [--json]",
        "examples:\n"
        "  nextdue add shop:nd receipt '[42]' --in 5m\n"
        "  nextdue add shop.db receipt '{\"order\": 42}' \\\n"
        '      --at "2026-12-01 09:00" --tz Europe/Moscow',
    )
    parser.add_argument("words", metavar="[TARGET] NAME [ARGS]", nargs="+", help="ARGS: a JSON array or object")
    parser.add_argument("--in", dest="delay", metavar="TIME", help="after so long: 90s, 5m, 1h30m, 2d")
    parser.add_argument("--at", metavar="TIME", help='"2026-12-01 09:00+03:00", or without an offset and with --tz')
    parser.add_argument("--tz", metavar="ZONE", help="the zone of --at, like Europe/Moscow")
    parser.add_argument("--key", metavar="KEY", help="store nothing if a task of this name holds this key")
    parser.add_argument("--queue", metavar="QUEUE", help="default: the task's own")
    parser.add_argument("--priority", type=int, metavar="N", help="-100 to 100, higher first; default: the task's own")
    _json(parser)


def _filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", choices=STATES, metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--name", metavar="NAME", help="only tasks of this name")
    parser.add_argument("--queue", metavar="QUEUE", help="only tasks of this queue")
    parser.add_argument("--key", metavar="KEY", help="only with exactly this key")
    parser.add_argument("--reason", metavar="WORD", help="only those that last failed for this reason")
    age = "since it was put or last ran"
    parser.add_argument("--older-than", metavar="TIME", help=f"only if so long passed {age}: 90s, 5m, 2d")
    parser.add_argument("--newer-than", metavar="TIME", help=f"only if less passed {age}")


FILTERS = """[--state STATE] [--name NAME] [--queue QUEUE]
{indent}[--key KEY] [--reason WORD]
{indent}[--older-than TIME] [--newer-than TIME]"""


def _ls(commands: Any, name: str) -> None:
    indent = " " * 18
    usage = f"[TARGET] {FILTERS.format(indent=indent)}\n{indent}[--held] [--sort due|age] [--limit N]\n{indent}[--json]"
    parser = _command(commands, name, "look", "List tasks, nearest due first.", usage)
    _target(parser)
    _filters(parser)
    parser.add_argument("--held", action="store_true", help="what waits for a person, with the reason and since when")
    orders = "due: the nearest first (default); age: the longest untouched first"
    parser.add_argument("--sort", choices=("due", "age"), default="due", metavar="HOW", help=orders)
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many (default 50)")
    _json(parser)


def _one(commands: Any, name: str, module: str, says: str) -> None:
    usage = f"[TARGET] ID [--json]\n       nextdue {name} [TARGET] NAME KEY [--json]"
    parser = _command(commands, name, module, says, usage)
    parser.add_argument("words", metavar="[TARGET] ID", nargs="+", help=f"TARGET: {TARGET}")
    _json(parser)


def _show(commands: Any, name: str) -> None:
    _one(commands, name, "look", "All about one task, with its runs.")


def _why(commands: Any, name: str) -> None:
    _one(commands, name, "why", "Why a task hasn't run yet, isn't running, or won't run.")


def _resolve(commands: Any, name: str) -> None:
    says = (
        "Say whether a step of a task has happened that was begun and whose end isn't known. A task that\n"
        "is held for it goes on at once. `nextdue ls --held` lists what is in doubt."
    )
    indent = " " * 23
    how = f"--happened [--result JSON] | --not-happened\n{indent}[--json]"
    usage = f"[TARGET] ID LABEL\n{indent}{how}\n       nextdue {name} [TARGET] NAME KEY LABEL ..."
    parser = _command(commands, name, "resolve", says, usage)
    parser.add_argument("words", metavar="[TARGET] ID LABEL", nargs="+", help=f"TARGET: {TARGET}")
    parser.add_argument("--happened", action="store_true", help="it did: it isn't repeated")
    parser.add_argument("--not-happened", action="store_true", help="it didn't: it is made when the task runs")
    parser.add_argument("--result", metavar="JSON", help="with --happened: what its function returned (default null)")
    _json(parser)


def _send(commands: Any, name: str) -> None:
    says = (
        "Send an event: tasks that wait for it by ctx.wait_for() go on, with DATA, and those that ask for\n"
        "it later don't wait. Sent again while it is kept it changes nothing, and the exit code is 1."
    )
    epilog = "example:\n  nextdue send shop.db paid:42 '{\"amount\": 1990}'"
    parser = _command(commands, name, "resolve", says, "[TARGET] EVENT [DATA] [--keep TIME] [--json]", epilog)
    parser.add_argument("words", metavar="[TARGET] EVENT [DATA]", nargs="+", help="DATA: JSON (default null)")
    parser.add_argument("--keep", default="7d", metavar="TIME", help="so long it is there for later ones (default 7d)")
    _json(parser)


def _bulk(commands: Any, name: str, says: str, epilog: str | None = None) -> None:
    indent = " " * (len(name) + 16)
    usage = (
        f"[TARGET] ID ... [--json]\n       nextdue {name} [TARGET] NAME KEY [--json]\n"
        f"       nextdue {name} [TARGET] {FILTERS.format(indent=indent)}\n{indent}[--yes] [--json]"
    )
    parser = _command(commands, name, "bulk", f"{says}\n\n{BULK}", usage, epilog)
    parser.add_argument("words", metavar="[TARGET] ID ...", nargs="*", help=f"TARGET: {TARGET}")
    _filters(parser)
    parser.add_argument("--yes", action="store_true", help="with filters: do it")
    _json(parser)


BULK = """\
Named tasks are changed at once; exit code 1 if one of them had to be left alone. With filters
it shows what it would change, and does it only with --yes; the exit code is 2 without."""


def _retry(commands: Any, name: str) -> None:
    _bulk(
        commands,
        name,
        "Start tasks anew: dead, held or cancelled ones, and those that failed and wait. They are due\n"
        "now, with no attempts and crashes counted. A paused task is resumed instead.",
    )


def _run_now(commands: Any, name: str) -> None:
    _bulk(commands, name, "Make waiting tasks due now, whatever their delay.")


def _cancel(commands: Any, name: str) -> None:
    _bulk(commands, name, "Cancel waiting, held and dead tasks. One that runs is asked to stop.")


def _purge(commands: Any, name: str) -> None:
    _bulk(
        commands,
        name,
        "Remove done, dead and cancelled tasks; never one that waits, runs or is held.",
        "With --older-than and without --queue (which the history doesn't know), the lines of the run\n"
        "history that match go too.",
    )


def _explain(commands: Any, name: str) -> None:
    says = (
        "A cron expression in words, the rules in force, when it comes next, and what becomes of it on\n"
        "the next nights on which the clocks are changed. It needs no database."
    )
    parser = _command(
        commands,
        name,
        "explain",
        says,
        "EXPR [--tz ZONE] [--day-and] [--count N]\n                       [--from TIME] [--json]",
        'example:\n  nextdue explain "30 2 * * *" --tz Europe/Berlin --from 2026-10-24',
    )
    parser.add_argument("words", metavar="EXPR", nargs="+", help='five fields, six with seconds, or one like "@daily"')
    parser.add_argument("--tz", default="UTC", metavar="ZONE", help="an IANA name like Europe/Moscow (default UTC)")
    parser.add_argument("--day-and", action="store_true", help="a day must match both day fields")
    parser.add_argument("--count", type=int, default=5, metavar="N", help="so many occurrences (default 5)")
    parser.add_argument("--from", dest="start", metavar="TIME", help="those after this time (default: now)")
    _json(parser)


def _schedules(commands: Any, name: str) -> None:
    says = (
        "List what runs again and again: when it is due next, when it ran last, how often it was missed.\n"
        "With an application also how the file stands to its code: new, changed or gone since the last\n"
        "start of a worker."
    )
    usage = "[TARGET] [--json]\n       nextdue schedules pause|resume|remove [TARGET] NAME [KEY]"
    epilog = (
        "pause: start no occurrence until resume, whose next one comes at its time. remove: forget it;\n"
        "what the code declares comes back with the next start of a worker. KEY: the task's name by\n"
        "default. Exit code 1 if there was nothing to be changed."
    )
    parser = _command(commands, name, "schedules", says, usage, epilog)
    parser.add_argument("words", metavar="[TARGET]", nargs="*", help=f"TARGET: {TARGET}")
    _json(parser)


def _forecast(commands: Any, name: str) -> None:
    says = (
        "What will run: the occurrences of all schedules and the deferred tasks, as a table and drawn over\n"
        "time. A period that counts from the end of each run is foretold as if runs took no time."
    )
    parser = _command(commands, name, "forecast", says, "[TARGET] [--hours N | --until TIME] [--tz ZONE] [--json]")
    _target(parser)
    parser.add_argument("--hours", type=float, metavar="N", help="so far ahead (default 24)")
    parser.add_argument("--until", metavar="TIME", help='"07:00", "2026-12-24 18:00" or with an offset')
    parser.add_argument(
        "--tz", metavar="ZONE", help="whose clocks are shown, like Europe/Moscow (default: this machine's)"
    )
    _json(parser)


def _health(commands: Any, name: str) -> None:
    says = (
        "Is all that is due being run? Exit code 1 if not: no worker lives, or the oldest task that could\n"
        "run is overdue for too long. What is paused, blocked or unknown is named and is no failure."
    )
    parser = _command(commands, name, "health", says, "[TARGET] [--max-late TIME] [--json]")
    _target(parser)
    parser.add_argument("--max-late", default="5m", metavar="TIME", help="overdue for longer is a failure (default 5m)")
    _json(parser)


def _check(commands: Any, name: str) -> None:
    says = "Look for broken rows. Changes nothing; exit code 1 if there are any."
    parser = _command(commands, name, "check", says, "[TARGET] [--json]")
    _target(parser)
    _json(parser)


def _doctor(commands: Any, name: str) -> None:
    says = (
        "Look for trouble around the file: SQLite, disk, clock, workers. Changes nothing; exit code 1\n"
        "if something is bad."
    )
    parser = _command(commands, name, "doctor", says, "[TARGET] [--json]")
    _target(parser)
    _json(parser)


def _pause(commands: Any, name: str) -> None:
    says = (
        "Let no worker start the tasks of a queue, of a name, or single ones, until `nextdue resume`.\n"
        "What runs already goes on. It holds everywhere at once and outlives restarts."
    )
    parser = _command(commands, name, "pause", says, "[TARGET] [ID ...] [--queue QUEUE] [--name NAME]")
    _paused(parser)


def _resume(commands: Any, name: str) -> None:
    says = "End a pause. What is due then starts at once; exit code 1 if it wasn't paused."
    parser = _command(commands, name, "pause", says, "[TARGET] [ID ...] [--queue QUEUE] [--name NAME] [--all]")
    _paused(parser)
    parser.add_argument("--all", action="store_true", help="everything that is paused")


def _paused(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[TARGET] ID", nargs="*", help=f"TARGET: {TARGET}")
    parser.add_argument("--queue", metavar="QUEUE", help="all tasks of this queue")
    parser.add_argument("--name", metavar="NAME", help="all tasks of this name")


def _backup(commands: Any, name: str) -> None:
    says = "Write a copy of the whole file, of one instant and checked, while everybody goes on working."
    parser = _command(commands, name, "saving", says, "[TARGET] PATH [--force]")
    parser.add_argument("words", metavar="[TARGET] PATH", nargs="+", help=f"TARGET: {TARGET}")
    parser.add_argument("--force", action="store_true", help="replace PATH if it is there")


def _restore(commands: Any, name: str) -> None:
    says = (
        "Put a backup in the file's place. All programs that use the file must have ended. Nothing of\n"
        "it starts before `nextdue release`; the file that was there is kept beside it."
    )
    parser = _command(commands, name, "saving", says, "BACKUP [TARGET]")
    parser.add_argument("words", metavar="BACKUP [TARGET]", nargs="+", help=f"TARGET: {TARGET}")


def _release(commands: Any, name: str) -> None:
    says = "Let a restored file work again: its tasks start when they are due, the overdue ones at once."
    parser = _command(commands, name, "saving", says, "[TARGET] [--over TIME] [--dry-run]")
    _target(parser)
    parser.add_argument("--over", metavar="TIME", help="spread the overdue ones over so long: 90s, 10m, 2h")
    parser.add_argument("--dry-run", action="store_true", help="only show what would start")


def _uninstall(commands: Any, name: str) -> None:
    says = "Show what still waits; with --yes drop nextdue's tables and remove its files. Others stay."
    parser = _command(commands, name, "uninstall", says, "[TARGET] [--yes]")
    _target(parser)
    parser.add_argument("--yes", action="store_true", help="do it")


COMMANDS: dict[str, Callable[[Any, str], None]] = {
    "worker": _worker,
    "demo": _demo,
    "prove": _prove,
    "add": _add,
    "ls": _ls,
    "show": _show,
    "why": _why,
    "retry": _retry,
    "resolve": _resolve,
    "send": _send,
    "run-now": _run_now,
    "cancel": _cancel,
    "purge": _purge,
    "explain": _explain,
    "schedules": _schedules,
    "forecast": _forecast,
    "health": _health,
    "check": _check,
    "doctor": _doctor,
    "pause": _pause,
    "resume": _resume,
    "backup": _backup,
    "restore": _restore,
    "release": _release,
    "uninstall": _uninstall,
}
