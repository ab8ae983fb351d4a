"""For testing tasks: the real engine on a file of its own, under a clock that moves only when told to.

With pytest, the fixture `nextdue` is a Sandbox. docs/testing.md shows how to use it.
"""

from nextdue import points
from nextdue.testing.clock import FakeClock
from nextdue.testing.crashes import NeverEnds
from nextdue.testing.repeatable import assert_repeatable
from nextdue.testing.sandbox import Sandbox

__all__ = ["FakeClock", "NeverEnds", "Sandbox", "assert_repeatable", "points"]
