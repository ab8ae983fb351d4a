"""`signal queue`, `show`, `approve`, `reject`, `search`: the editor's desk."""

from argparse import ArgumentTypeError, Namespace
from shlex import quote
from typing import Any

from signal_feeds import editing, searching
from signal_feeds.app import Signal
from signal_feeds.cli import drawing
from signal_feeds.cli.drawing import clean, moment
from signal_feeds.editing import SHORT, Diff, Entry
from signal_feeds.errors import Changed
from signal_feeds.texts import Language, say

OK, REFUSED = 0, 1
Commands = Any
"""What argparse's add_subparsers() answers: its type has no public name."""


def add_commands(commands: Commands) -> None:
    """Their words on the command line. Each sets `run(signal, args)`, which answers the exit code."""
    parser = commands.add_parser("queue", help="entries that wait for a decision")
    parser.add_argument("--changed", action="store_true", help="only those that changed after a decision")
    parser.add_argument("--limit", type=_count, default=editing.PAGE, metavar="N", help="show so many (%(default)s)")
    parser.set_defaults(run=queue)
    parser = commands.add_parser("show", help="an entry, its revisions and the decisions on them")
    parser.add_argument("id", type=int, metavar="ID")
    parser.add_argument("--diff", action="store_true", help="what has changed since the last decision")
    parser.set_defaults(run=show)
    for name, run, what in (("approve", approve, "publish"), ("reject", reject, "don't publish")):
        parser = commands.add_parser(name, help=f"{what} this text of an entry")
        parser.add_argument("id", type=int, metavar="ID")
        said = "of the text that you read: 12 digits or more, as show prints them"
        parser.add_argument("--fingerprint", required=name == "approve", metavar="HEX12", help=said)
        parser.set_defaults(run=run)
    parser = commands.add_parser("search", help="entries with these words")
    parser.add_argument("words", nargs="*", metavar="WORD", help='a word, its beginning and a *, or "a few in order"')
    parser.add_argument("--limit", type=_count, default=searching.PAGE, metavar="N", help="show so many (%(default)s)")
    parser.set_defaults(run=search)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise ArgumentTypeError(f"{text!r} isn't a number from 1 to 10000")
    return int(text)


def queue(signal: Signal, args: Namespace) -> int:
    """Entries that wait for a decision, and what to type."""
    lang, tx = signal.settings.language, signal.store.connection()
    found = editing.queue(tx, changed=args.changed, limit=args.limit)
    for waiting in found:
        state = say(lang, "cli.changed") if waiting.changed else ""
        about = [moment(waiting.published), clean(waiting.source_title or waiting.source), state]
        print(f"{waiting.id}  {_title(waiting.title, lang)}")
        print(f"    {'  '.join(filter(None, about))}")
        if waiting.link:
            print(f"    {clean(waiting.link)}")
        print(f"    {_command(args, 'approve', waiting.id, waiting.fingerprint)}")
    count = editing.waiting(tx, changed=args.changed)
    key = "cli.queue.changed" if args.changed else "cli.queue"
    print(say(lang, key, count=count))
    if found:
        print(say(lang, "cli.queue.how", shown=len(found)))
    return OK


def show(signal: Signal, args: Namespace) -> int:
    """One entry: what it says, or what has changed of it; its revisions, and what to type."""
    lang = signal.settings.language
    entry = editing.look(signal.store.connection(), args.id)
    current = entry.current
    _about(entry, lang)
    print()
    diff = editing.diff(entry) if args.diff else None
    if args.diff and diff is None:
        print(say(lang, "cli.diff.first"))
    elif diff is not None:
        _diff(diff, lang)
    else:
        drawing.paragraph(clean(current.text, lines=True))
    print()
    print(say(lang, "cli.revisions"))
    for revision in entry.revisions:
        mark = "*" if revision.id == current.id else " "
        print(f"{mark} {revision.fingerprint[:SHORT]}  {moment(revision.seen)}  {_verdict(revision, lang)}")
    print()
    for verb in ("approve", "reject"):
        print(_command(args, verb, entry.id, current.fingerprint))
    return OK


def approve(signal: Signal, args: Namespace) -> int:
    """Publish this text of an entry from now on."""
    return _decide(signal, args, "approve")


def reject(signal: Signal, args: Namespace) -> int:
    """Don't publish this text of an entry; without a fingerprint the current one, as rejecting publishes nothing."""
    if args.fingerprint is None:
        args.fingerprint = editing.look(signal.store.connection(), args.id).current.fingerprint
    return _decide(signal, args, "reject")


def search(signal: Signal, args: Namespace) -> int:
    """Entries with these words, best first."""
    lang, asked = signal.settings.language, " ".join(args.words)
    found = searching.search(signal.store.connection(), asked, limit=args.limit)
    for hit in found:
        state = say(lang, f"cli.{hit.verdict or 'waits'}")
        print(f"{hit.id}  {_title(hit.title, lang)}")
        print(f"    {moment(hit.published)}  {clean(hit.source_title or hit.source)}  {state}")
        drawing.bits(hit.snippet)
    print(say(lang, "cli.search", count=len(found), asked=clean(asked)[:100]) if found else _nothing(asked, lang))
    return OK


def _nothing(asked: str, lang: Language) -> str:
    return say(lang, "cli.search.none", asked=clean(asked)[:100])


def _decide(signal: Signal, args: Namespace, verb: str) -> int:
    lang = signal.settings.language
    signal.store.connection()  # where there is no database none is made
    decide = editing.approve if verb == "approve" else editing.reject
    try:
        with signal.nd.transaction() as tx:
            entry = decide(tx, args.id, args.fingerprint, signal.now_ms())
    except Changed as changed:
        entry = editing.look(signal.store.connection(), args.id)
        print(changed)
        diff = editing.diff(entry, changed.seen) if changed.seen is not None else None
        if diff is not None:
            print()
            _diff(diff, lang)
        print()
        print(say(lang, "cli.decide.now"))
        print(_command(args, verb, entry.id, entry.current.fingerprint))
        return REFUSED
    said = say(lang, f"cli.{entry.current.verdict}")
    print(f"{entry.id}  {said}  {entry.current.fingerprint[:SHORT]}  {_title(entry.current.title, lang)}")
    return OK


def _about(entry: Entry, lang: Language) -> None:
    current = entry.current
    source = entry.source if entry.source_title is None else f"{entry.source_title} ({entry.source})"
    print(f"{entry.id}  {_title(current.title, lang)}")
    drawing.fields(
        [
            (say(lang, "cli.source"), clean(source)),
            (say(lang, "cli.link"), clean(current.link or "")),
            (say(lang, "cli.author"), clean(current.author)),
            (say(lang, "cli.published"), moment(current.published) if current.published else ""),
            (say(lang, "cli.seen"), moment(entry.first_seen)),
            (say(lang, "cli.key"), clean(entry.key)),
            (say(lang, "cli.state"), _verdict(current, lang)),
        ]
    )


def _diff(diff: Diff, lang: Language) -> None:
    for name, parts in diff._asdict().items():
        if all(part.op == "same" for part in parts):
            continue
        print(f"{say(lang, f'cli.{name}')}:")
        drawing.parts(parts, lang)


def _verdict(revision: editing.Revision, lang: Language) -> str:
    if revision.verdict is None:
        return say(lang, "cli.waits")
    return f"{say(lang, f'cli.{revision.verdict}')} {moment(revision.decided)}"


def _title(title: str, lang: Language) -> str:
    return clean(title) or say(lang, "page.untitled")


def _command(args: Namespace, verb: str, entry: int, fingerprint: str) -> str:
    """What to type to decide on exactly this text, in this folder."""
    folder = f"--folder {quote(str(args.folder))} " if args.folder is not None else ""
    return f"signal {folder}{verb} {entry} --fingerprint {fingerprint[:SHORT]}"
