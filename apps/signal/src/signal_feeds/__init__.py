"""Signal: a feed aggregator with a durable, polite schedule and an editorial queue, an application of nextdue.

`signal_feeds:nd` is the application of one folder: the one that SIGNAL_FOLDER names, else the current one. So
`nextdue worker signal_feeds:nd` and all other commands of nextdue work on it.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nextdue import Nextdue

    nd: Nextdue


def __getattr__(name: str) -> Any:
    if name == "nd":
        return _signal().nd
    raise AttributeError(f"module 'signal_feeds' has no attribute {name!r}")


@cache
def _signal() -> Any:
    from signal_feeds.app import Signal
    from signal_feeds.settings import here

    return Signal(here())
