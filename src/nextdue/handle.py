"""A handle: one stored task as its program sees it."""

from datetime import datetime

from nextdue.clock import from_ms
from nextdue.errors import UnknownTask
from nextdue.records import RunView, State, TaskView
from nextdue.sqlite import care
from nextdue.sqlite.caller import Caller


class Handle:
    """A stored task. `created` says whether this enqueue made it, or found its key in use."""

    __slots__ = ("_caller", "created", "id", "key", "name")

    def __init__(self, caller: Caller, id: int, name: str, key: str | None, *, created: bool) -> None:
        self._caller, self.id, self.name, self.key, self.created = caller, id, name, key, created

    def __repr__(self) -> str:
        key = "" if self.key is None else f" key={self.key!r}"
        return f"<{self.name} #{self.id}{key}>"

    @property
    def state(self) -> State:
        """waiting, running, done, dead, cancelled or held; gone if neither a row nor its history is left."""
        with self._caller.use() as store:
            view = store.get(self.id)
        return view.state if view else "gone"

    @property
    def due(self) -> datetime | None:
        """When it is looked at next (aware, UTC): to be started, or, while it runs, the end of its lease."""
        with self._caller.use() as store:
            view = store.get(self.id)
        return from_ms(view.due) if view and view.due is not None else None

    def retry(self) -> bool:
        """Start it anew if it is dead, held, cancelled, or failed and waiting: due now, nothing counted against it.

        False if it is in any other state, or paused (resume() is for that); then nothing changes.
        """
        with self._caller.use() as store:
            return care.apply(store, "retry", [self.id]) == 1

    def run_now(self) -> bool:
        """Make it due now if it is waiting, whatever its delay; False if it isn't, then nothing changes."""
        with self._caller.use() as store:
            return care.apply(store, "run_now", [self.id]) == 1

    def view(self) -> TaskView:
        """All that is known of it. Raises UnknownTask if nothing is."""
        with self._caller.use() as store:
            view = store.get(self.id)
        if view is None:
            raise UnknownTask(f"{self!r} is neither in {self._caller.path} nor in its run history")
        return view

    def runs(self) -> list[RunView]:
        """What happened to it so far, newest first."""
        with self._caller.use() as store:
            return store.runs(task=self.id)

    def cancel(self) -> bool:
        """Cancel it if it is waiting, held or dead: True. False if it is done, or runs: then it is asked to stop.

        A running task sees that at its next ctx.progress() or, in a coroutine, await; look at `state`.
        """
        return self._caller.cancel(self.id) == "cancelled"
