"""`signal queue`, `show`, `approve`, `reject`, `search`: the editor's desk."""

import argparse
from shlex import quote
from typing import Any

from signal_feeds import editing, searching
from signal_feeds.app import Signal
from signal_feeds.cli import drawing
from signal_feeds.cli.drawing import line
from signal_feeds.cli.output import complain, pairs, say
from signal_feeds.cli.parsers import command
from signal_feeds.editing import SHORT, Diff, Entry
from signal_feeds.errors import BadFingerprint, Changed
from signal_feeds.texts import Language, local
from signal_feeds.texts import say as words

OK, FAULT = 0, 1
ECHOED = 100
"""So many characters of what was searched for are said again."""
LARGEST = 2**63 - 1
ID = "the number of an entry, as signal queue and signal search show it"
APPROVE = """If the entry has changed since you read it nothing is decided: the difference is shown, and the exit code
is 1. signal publish writes what is approved."""
REJECT = "Also takes back an approval. Without a fingerprint it means the text that the entry has now."


def queue(signal: Signal, args: argparse.Namespace) -> int:
    """Entries that wait for a decision, and what to type."""
    lang, tx = signal.settings.language, signal.store.connection()
    found = editing.queue(tx, changed=args.changed, limit=args.limit)
    for waiting in found:
        state = words(lang, "entry.changed") if waiting.changed else ""
        about = [local(waiting.published), line(waiting.source_title or waiting.source), state]
        say(f"{waiting.id}  {_title(waiting.title, lang)}")
        say(f"    {'  '.join(filter(None, about))}")
        if waiting.link:
            say(f"    {line(waiting.link)}")
        say(f"    {_command(args, 'approve', waiting.id, waiting.fingerprint)}")
    key = "queue.changed" if args.changed else "queue.all"
    say(words(lang, key, count=editing.waiting(tx, changed=args.changed)))
    if found:
        say(words(lang, "queue.how", shown=len(found)))
    return OK


def show(signal: Signal, args: argparse.Namespace) -> int:
    """One entry: what it says, or what has changed of it; its revisions, and what to type."""
    lang = signal.settings.language
    entry = editing.look(signal.store.connection(), args.id)
    current, diff = entry.current, editing.diff(entry) if args.diff else None
    _about(entry, lang)
    say("")
    if args.diff and diff is None:
        say(words(lang, "diff.first"))
        say("")
        drawing.paragraph(current.text)
    elif diff is not None:
        _diff(diff, lang)
    else:
        drawing.paragraph(current.text)
    say("")
    say(words(lang, "entry.revisions"))
    for revision in entry.revisions:
        mark = "*" if revision.id == current.id else " "
        say(f"{mark} {revision.fingerprint[:SHORT]}  {local(revision.seen)}  {_verdict(revision, lang)}")
    say("")
    for verb in ("approve", "reject"):
        say(_command(args, verb, entry.id, current.fingerprint))
    return OK


def approve(signal: Signal, args: argparse.Namespace) -> int:
    """Publish this text of an entry from now on."""
    if args.fingerprint is None:
        raise BadFingerprint("entry.unread", id=args.id)
    return _decide(signal, args, "approve")


def reject(signal: Signal, args: argparse.Namespace) -> int:
    """Don't publish this text of an entry; without a fingerprint the current one, as rejecting publishes nothing."""
    if args.fingerprint is None:
        args.fingerprint = editing.look(signal.store.connection(), args.id).current.fingerprint
    return _decide(signal, args, "reject")


def search(signal: Signal, args: argparse.Namespace) -> int:
    """Entries with these words, best first."""
    lang, asked = signal.settings.language, " ".join(args.words)
    found = searching.search(signal.store.connection(), asked, limit=args.limit)
    for hit in found:
        state = words(lang, f"entry.{hit.verdict or 'waits'}")
        say(f"{hit.id}  {_title(hit.title, lang)}")
        say(f"    {local(hit.published)}  {line(hit.source_title or hit.source)}  {state}")
        drawing.bits(hit.snippet)
    said = "search.found" if found else "search.none"
    say(words(lang, said, count=len(found), asked=line(asked)[:ECHOED]))
    if len(found) == args.limit:
        say(words(lang, "search.more"))
    return OK


def _decide(signal: Signal, args: argparse.Namespace, verb: str) -> int:
    lang, decide = signal.settings.language, editing.approve if verb == "approve" else editing.reject
    try:
        with signal.nd.transaction() as tx:
            entry = decide(tx, args.id, args.fingerprint, signal.now_ms())
    except Changed as changed:
        _refused(signal, args, verb, changed)
        return FAULT
    current = entry.current
    said = words(lang, f"entry.{current.verdict}")
    say(f"{entry.id}  {said}  {current.fingerprint[:SHORT]}  {_title(current.title, lang)}")
    return OK


def _refused(signal: Signal, args: argparse.Namespace, verb: str, changed: Changed) -> None:
    """What has changed since the editor read it, and what to type after reading that."""
    lang = signal.settings.language
    entry = editing.look(signal.store.connection(), args.id)
    diff = editing.diff(entry, changed.seen) if changed.seen is not None else None
    complain(changed.in_words(lang))
    if diff is not None:
        _diff(diff, lang)
        say("")
    say(words(lang, "entry.now", id=entry.id))
    say(_command(args, verb, entry.id, entry.current.fingerprint))


def _about(entry: Entry, lang: Language) -> None:
    current = entry.current
    source = entry.source if entry.source_title is None else f"{entry.source_title} ({entry.source})"
    say(f"{entry.id}  {_title(current.title, lang)}")
    about = (
        ("source", line(source)),
        ("link", line(current.link or "")),
        ("author", line(current.author)),
        ("published", "" if current.published is None else local(current.published)),
        ("seen", local(entry.first_seen)),
        ("key", line(entry.key)),
        ("state", _verdict(current, lang)),
    )
    for row in pairs([(words(lang, f"entry.{name}"), value) for name, value in about if value]):
        say(row)


def _diff(diff: Diff, lang: Language) -> None:
    """The fields that differ."""
    for name, parts in diff._asdict().items():
        if any(part.op != "same" for part in parts):
            say(f"{words(lang, f'entry.{name}')}:")
            drawing.parts(parts, lang)


def _verdict(revision: editing.Revision, lang: Language) -> str:
    if revision.verdict is None or revision.decided is None:
        return words(lang, "entry.waits")
    return f"{words(lang, f'entry.{revision.verdict}')} {local(revision.decided)}"


def _title(title: str, lang: Language) -> str:
    return line(title) or words(lang, "page.untitled")


def _command(args: argparse.Namespace, verb: str, entry: int, fingerprint: str) -> str:
    """What to type to decide on exactly this text, in this folder."""
    folder = "" if args.folder is None else f"--folder {quote(args.folder)} "
    return f"signal {folder}{verb} {entry} --fingerprint {fingerprint[:SHORT]}"


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:20]) <= LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} isn't the number of an entry, which signal queue shows")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:20]) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a number from 1 to 10000")
    return int(text)


def add_commands(commands: Any) -> None:
    """See cli.main.MODULES."""
    more = "Each with the command that approves the text which it has now."
    parser = command(commands, "queue", "the entries that wait for a decision", more)
    parser.add_argument("--changed", action="store_true", help="only those that changed after a decision")
    parser.add_argument("--limit", type=_count, default=editing.PAGE, metavar="N", help="show so many (%(default)s)")
    parser.set_defaults(run=queue)
    parser = command(commands, "show", "an entry, its revisions and the decisions on them")
    parser.add_argument("id", type=_number, metavar="ID", help=ID)
    parser.add_argument("--diff", action="store_true", help="what has changed since the last decision")
    parser.set_defaults(run=show)
    for name, run, says, more in (
        ("approve", approve, "publish this text of an entry", APPROVE),
        ("reject", reject, "don't publish this text of an entry", REJECT),
    ):
        parser = command(commands, name, says, more)
        parser.add_argument("id", type=_number, metavar="ID", help=ID)
        what = f"of the text that you read: {SHORT} digits or more, as signal show ID prints them"
        parser.add_argument("--fingerprint", metavar="HEX12", help=what)
        parser.set_defaults(run=run)
    more = "All of them must be there; the best come first."
    parser = command(commands, "search", "entries with these words", more)
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help='a word, the beginning of one and *, or "some in order"'
    )
    parser.add_argument("--limit", type=_count, default=searching.PAGE, metavar="N", help="show so many (%(default)s)")
    parser.set_defaults(run=search)
