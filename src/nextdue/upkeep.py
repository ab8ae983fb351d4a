"""What an application does to its whole file: pause and resume, back up. The part of Nextdue that declares no tasks."""

import os
from pathlib import Path

from nextdue.errors import BadDefinition
from nextdue.sqlite import backup, pauses
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.pauses import Kind, Pause
from nextdue.task import checked_name


class Upkeep:
    """The verbs of Nextdue that speak of queues, names and the file rather than of one task."""

    path: Path
    caller: Caller

    def __repr__(self) -> str:
        return f"<Nextdue {self.path}>"

    def pause(self, *, queue: str | None = None, name: str | None = None) -> bool:
        """Let no worker start tasks of this queue, or of this name, until resume(); False if it was paused before.

        It holds everywhere at once and outlives restarts. What runs already goes on, and tasks can be put as ever.
        A queue or name that nobody uses yet may be paused too. For one task there is Handle.pause().
        """
        kind, word = _which("pause", queue, name)
        with self.caller.change() as store:
            return pauses.pause(store, kind, word)

    def resume(self, *, queue: str | None = None, name: str | None = None) -> bool:
        """End the pause of this queue, or of this name; False if there was none. What is due then starts at once."""
        kind, word = _which("resume", queue, name)
        with self.caller.change() as store:
            changed = pauses.resume(store, kind, word)
        self.caller.ring()
        return changed

    def paused(self) -> list[Pause]:
        """The paused queues and names, each as (kind, word, since in UTC ms). Not the tasks paused one by one."""
        with self.caller.use() as store:
            return pauses.paused(store.database)

    def backup(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write a verified copy of the whole file while everybody goes on working; answers its absolute path.

        The copy holds everything that was acknowledged before the call. It appears under its name only when it is
        complete, checked and on disk; an existing file is replaced only if `overwrite`. Blocks for as long as that
        takes, some 6 s per 100 MB: from a coroutine use asyncio.to_thread.

        Raises BadDefinition for a path that can't be meant, StoreError if the copy can't be made or isn't sound.
        """
        return backup.backup(self.path, path, overwrite=overwrite)


def _which(verb: str, queue: str | None, name: str | None) -> tuple[Kind, str]:
    if (queue is None) == (name is None):
        raise BadDefinition(f'{verb}() takes a queue or a name, like {verb}(queue="mail"); a task: its handle.{verb}()')
    if queue is not None:
        return "queue", checked_name(queue, "a queue's name")
    return "name", checked_name(name, "a task's name")
