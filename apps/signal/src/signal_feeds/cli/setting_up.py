"""`signal init`: the files of a folder."""

import argparse
from typing import Any

from signal_feeds.app import Signal
from signal_feeds.cli.output import say
from signal_feeds.cli.parsers import command
from signal_feeds.settings import FILE, TEMPLATE
from signal_feeds.texts import say as words


def init(signal: Signal, args: argparse.Namespace) -> int:
    """Make signal.toml and signal.db; what is there stays as it is."""
    lang = signal.settings.language
    signal.folder.mkdir(parents=True, exist_ok=True)
    try:
        with (signal.folder / FILE).open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
        say(words(lang, "cli.made", path=signal.folder / FILE))
    except FileExistsError:
        say(words(lang, "cli.kept", path=signal.folder / FILE))
    there = signal.path.exists()
    signal.install()
    say(words(lang, "cli.kept" if there else "cli.made", path=signal.path))
    names = [source.id for source in signal.store.sources()]
    if not names:
        say(words(lang, "cli.nothing"))
        return 0
    say(words(lang, "cli.sources", count=len(names), names=", ".join(names[:10]) + (", ..." if names[10:] else "")))
    say(words(lang, "cli.next"))
    return 0


def add_commands(commands: Any) -> None:
    """See cli.main.MODULES."""
    more = "What is there stays as it is. The folder is the current one, or that of signal --folder DIR init."
    parser = command(commands, "init", "make signal.toml and signal.db in the folder", more)
    parser.set_defaults(run=init, makes=True)
