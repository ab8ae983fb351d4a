"""`signal publish`, `import`, `export`: files that others read or wrote."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from signal_feeds import opml, publishing, urls
from signal_feeds.app import Signal
from signal_feeds.cli.drawing import clean
from signal_feeds.errors import Unreadable, Unwritable
from signal_feeds.publishing.files import place
from signal_feeds.texts import say

OK, FAULT = 0, 1
Commands = Any
"""What argparse's add_subparsers() answers: its type has no public name."""


def add_commands(commands: Commands) -> None:
    """Their words on the command line. Each sets `run(signal, args)`, which answers the exit code."""
    parser = commands.add_parser("publish", help="write what is approved as a feed and a page")
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder, made if only it is missing")
    parser.add_argument("--url", help="where these files will be found on the web, for the links of a feed to itself")
    parser.add_argument("--title", default="Signal", help="of the feed (%(default)s)")
    parser.set_defaults(run=publish)
    parser = commands.add_parser("import", help="add the sources of an OPML file")
    parser.add_argument("file", metavar="FILE.opml")
    parser.set_defaults(run=import_)
    parser = commands.add_parser("export", help="write the sources to an OPML file")
    parser.add_argument("file", metavar="FILE.opml", help="- is the standard output")
    parser.set_defaults(run=export)


def publish(signal: Signal, args: Namespace) -> int:
    """Write what is approved into a folder, as atom.xml, feed.json and index.html."""
    settings, lang = signal.settings, signal.settings.language
    url = None if args.url is None else f"{urls.checked(args.url).rstrip('/')}/"
    tx = signal.store.connection()
    feed = publishing.feed_of(tx, settings.keep_approved, language=lang, title=args.title, url=url)
    for file in publishing.publish(args.out, feed):
        print(f"{file.path}  {say(lang, 'cli.publish.new' if file.changed else 'cli.publish.same')}")
    print(say(lang, "page.about", count=len(feed.entries)) if feed.entries else say(lang, "page.none"))
    if len(feed.entries) == publishing.MOST:
        print(say(lang, "cli.publish.cut", count=publishing.MOST))
    return OK


def import_(signal: Signal, args: Namespace) -> int:
    """Add the sources of a list; 1 if it is broken or has no feed in it, however much could be added."""
    lang = signal.settings.language
    signal.store.connection()  # where there is no database none is made
    listed = opml.read(_read(args.file))
    done = opml.add_all(
        signal.nd.transaction, lambda tx, url, name: signal.add_in(tx, url, name, "opml"), listed.outlines
    )
    print(say(lang, "cli.import.added", count=len(done.added)))
    if done.left:
        print(say(lang, "cli.import.left", count=len(done.left)))
    for outline, reason in done.left:
        print(f"  {say(lang, 'cli.import.line', line=outline.line)}  {clean(outline.title)}: {clean(reason)}")
    if listed.broken:
        print(say(lang, "cli.import.broken", why=listed.broken))
    elif not listed.outlines:
        print(say(lang, "cli.import.none"))
    return FAULT if listed.broken or not listed.outlines else OK


def export(signal: Signal, args: Namespace) -> int:
    """Write the list of sources; '-' is the standard output."""
    data = opml.write(signal.store.sources())
    if args.file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return OK
    path = Path(args.file).absolute()
    if not path.parent.is_dir():
        raise Unwritable(f"{path} can't be written: there is no folder {path.parent}")
    place(path.parent, {path.name: data})
    print(say(signal.settings.language, "cli.export", count=data.count(b"<outline "), path=path))
    return OK


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(opml.LARGEST + 1)
    except OSError as error:
        raise Unreadable(f"{path} can't be read ({error.strerror})") from None
