"""From asyncio: what would block goes to a thread."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


async def in_thread(fn: Callable[..., R], *args: Any) -> R:
    """Run a blocking call in a thread. If the waiting coroutine is cancelled, the call still goes on to its end."""
    return await asyncio.shield(asyncio.to_thread(fn, *args))
