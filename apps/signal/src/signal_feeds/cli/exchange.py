"""`signal publish`, `import`, `export`: files that others read or wrote."""

import argparse
import sys
from pathlib import Path
from typing import Any

from signal_feeds.app import Signal
from signal_feeds.cli.drawing import line
from signal_feeds.cli.output import complain, say
from signal_feeds.cli.parsers import command
from signal_feeds.errors import Unreadable, Unwritable
from signal_feeds.texts import say as words

OK, FAULT = 0, 1
PUBLISH = """They are atom.xml, feed.json and index.html; one that would be the same is left alone. Publish again after
decisions: nothing does that by itself."""
EXPORT = "Those without a URL, and those that signal.toml no longer names, are left out."
IMPORT = """What can be added is, the rest is listed with reasons; folders of the file aren't kept. Exit code 0 if the
whole file was read, 1 if it is broken (what comes before that is added) or lists no feed."""


def publish(signal: Signal, args: argparse.Namespace) -> int:
    """Write what is approved into a folder, as atom.xml, feed.json and index.html."""
    from signal_feeds import publishing, urls

    settings, lang = signal.settings, signal.settings.language
    url = None if args.url is None else f"{urls.checked(args.url).rstrip('/')}/"
    tx = signal.store.connection()
    feed = publishing.feed_of(tx, settings.keep_approved, language=lang, title=args.title, url=url)
    for file in publishing.publish(args.out, feed):
        say(f"{file.path}  {words(lang, 'publish.new' if file.changed else 'publish.same')}")
    say(words(lang, "page.about", count=len(feed.entries)) if feed.entries else words(lang, "page.none"))
    if len(feed.entries) == publishing.MOST:
        say(words(lang, "publish.cut", count=publishing.MOST))
    return OK


def import_(signal: Signal, args: argparse.Namespace) -> int:
    """Add the sources of a list; 1 if it is broken or has no feed in it, however much could be added."""
    from signal_feeds import opml

    lang = signal.settings.language
    listed = opml.read(_read(args.file, opml.LARGEST))
    done = opml.add_all(
        signal.nd.transaction, lambda tx, url, name: signal.add_in(tx, url, name, "opml"), listed.outlines
    )
    say(words(lang, "import.added" if done.added else "import.nothing", count=len(done.added)))
    if done.left:
        say(words(lang, "import.left", count=len(done.left)))
    for outline, reason in done.left:
        say(f"  {words(lang, 'import.line', line=outline.line)}  {line(outline.title)}: {reason.in_words(lang)}")
    if listed.broken:
        complain(words(lang, "import.broken", why=listed.broken))
    elif not listed.outlines:
        complain(words(lang, "import.none"))
    return FAULT if listed.broken or not listed.outlines else OK


def export(signal: Signal, args: argparse.Namespace) -> int:
    """Write the list of sources; '-' is the standard output."""
    from signal_feeds import opml
    from signal_feeds.publishing.files import place

    data = opml.write(signal.store.sources())
    if args.file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return OK
    path = Path(args.file).absolute()
    if not path.parent.is_dir():
        raise Unwritable("file.nowhere", path=path, folder=path.parent)
    place(path.parent, {path.name: data})
    say(words(signal.settings.language, "export.done", count=data.count(b"<outline "), path=path))
    return OK


def _title(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("a feed has a title; it can't be blank")
    return text.strip()


def _read(path: str, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise Unreadable("file.unreadable", path=path, why=error.strerror) from None


def add_commands(commands: Any) -> None:
    """See cli.main.MODULES."""
    parser = command(commands, "publish", "write what is approved as a feed and a page", PUBLISH)
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder, made if only it is missing")
    parser.add_argument("--url", help="where these files will be found on the web, for a feed's links to itself")
    parser.add_argument("--title", type=_title, default="Signal", help="of the feed (%(default)s)")
    parser.set_defaults(run=publish)
    parser = command(commands, "import", "add the sources of an OPML file", IMPORT)
    parser.add_argument("file", metavar="FILE.opml")
    parser.set_defaults(run=import_)
    parser = command(commands, "export", "write the sources to an OPML file", EXPORT)
    parser.add_argument("file", metavar="FILE.opml", help="- is the standard output")
    parser.set_defaults(run=export)
