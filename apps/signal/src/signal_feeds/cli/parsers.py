"""Commands of `signal --help`, each with what its own --help tells more."""

import argparse
from typing import Any


def command(commands: Any, name: str, says: str, more: str = "") -> argparse.ArgumentParser:
    """A command: `says` is its line in the list, `more` follows it in its own help."""
    about = f"{says[0].upper()}{says[1:]}. {more}".strip()
    parser: argparse.ArgumentParser = commands.add_parser(name, help=says, description=about)
    return parser
