"""A handle: one stored task as its program sees it."""

from datetime import datetime

from nextdue.clock import from_ms
from nextdue.errors import UnknownTask
from nextdue.records import RunView, State, TaskView
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.pauses import pause_task, resume_task


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

    def view(self) -> TaskView:
        """All that is known of it. Raises UnknownTask if nothing is."""
        with self._caller.use() as store:
            view = store.get(self.id)
        if view is None:
            raise UnknownTask(f"{self!r} is neither in {self._caller.path} nor in its run history")
        return view

    def pause(self) -> bool:
        """Set it aside until resume(): it is held, and its due is kept. False if it runs or has ended.

        Raises UnknownTask if its row is gone.
        """
        with self._caller.use() as store:
            return pause_task(store, self.id)

    def resume(self) -> bool:
        """End its pause: due when it was to be, now if that passed. False if it wasn't paused."""
        with self._caller.use() as store:
            resumed = resume_task(store, self.id)
        self._caller.ring()
        return resumed

    def runs(self) -> list[RunView]:
        """What happened to it so far, newest first."""
        with self._caller.use() as store:
            return store.runs(task=self.id)

    def cancel(self) -> bool:
        """Cancel it if it is waiting, held or dead; False if it runs or is done, then nothing changes."""
        with self._caller.use() as store:
            return store.cancel(self.id) == "cancelled"
