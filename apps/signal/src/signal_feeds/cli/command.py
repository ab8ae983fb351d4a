"""What a command is, and how the ones of a module are told to `signal`: as a list COMMANDS, which main puts together."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from signal_feeds.app import Signal

OK, FAULT, BAD_USAGE, BUSY, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes; FAULT also where a command was refused and changed nothing."""


class Command(NamedTuple):
    """`fill` gives its parser the arguments; `run` does it and answers the exit code.

    What a person did wrong is raised, as SignalError, and shown by main. Modules are imported at every start: whatever
    is heavy is imported in `run`.
    """

    name: str
    says: str
    """A line for `signal --help`, without a full stop."""
    fill: Callable[[argparse.ArgumentParser], object]
    run: "Callable[[Signal, argparse.Namespace], int]"
    makes: bool = False
    """It makes the folder's files; all others refuse a folder that has none."""
