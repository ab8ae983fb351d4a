"""Roles: what a process of its own does in a measurement.

A role is a generator: it prepares, yields, is resumed when the bench says go, and returns its answer.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

Playing = Generator[None, None, dict[str, Any]]
