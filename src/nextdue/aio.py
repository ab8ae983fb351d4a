"""From asyncio: what would block goes to a thread."""

from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


async def in_thread(fn: Callable[..., R], *args: Any) -> R:
    """Run a blocking call in a thread. If the waiting coroutine is cancelled, the call still goes on to its end."""
    import asyncio  # a program without coroutines needn't load it

    return await asyncio.shield(asyncio.to_thread(fn, *args))
