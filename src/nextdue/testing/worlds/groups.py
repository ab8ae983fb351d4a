"""The tasks of the worlds; and what runs of each group, and its rate, counted once more by the judge."""

from collections import defaultdict
from typing import Protocol

from nextdue.task import RunIn

NAMES = {"mail": 60_000, "export": 120_000, "feed": 300_000, "shard": 60_000, "rated": 60_000}
"""The names that workers know, with their leases."""
KINDS: dict[str, RunIn] = {**dict.fromkeys(NAMES, "thread"), "feed": "loop"}
"""By which kind of executor they are run."""
LIMITS = {"shard": 2, "rated": 3}
"""How many of a group may run at once."""
RATES = {"rated": 1_500}
"""The time between two starts of a group."""
SPECIAL = {"rated": {"b": 4_000}}
"""The same of single groups."""

Group = tuple[str, str]


def rate_of(name: str, grp: str | None) -> int:
    """The time between two starts of this group; 0: none."""
    return SPECIAL.get(name, {}).get(grp or "", RATES.get(name, 0))


class Row(Protocol):
    """What is to be known of a row."""

    @property
    def token(self) -> int | None: ...
    @property
    def due(self) -> int | None: ...
    @property
    def grp(self) -> str | None: ...


class Groups:
    """Kept up to date with each change of a row, in their order."""

    def __init__(self) -> None:
        self.running: defaultdict[Group, set[int]] = defaultdict(set)
        self.slots: defaultdict[Group, dict[int, int]] = defaultdict(dict)
        """The slots that wait for their time."""
        self._free: dict[Group, int] = {}

    def note(self, id: int, name: str, old: Row, new: Row) -> None:
        """This row was changed."""
        if name not in LIMITS:
            return
        group = name, (new.grp or "") if old.grp is None else old.grp
        if new.token is None:
            self.running[group].discard(id)
        else:
            self.running[group].add(id)
        if new.due != self.slots[group].get(id) or new.grp != group[1]:
            self.slots[group].pop(id, None)

    def full(self, name: str, grp: str | None) -> bool:
        """Whether the group runs as many as it may."""
        return len(self.running[name, grp or ""]) >= LIMITS[name]

    def too_early(self, name: str, grp: str | None, now: int) -> bool:
        """Whether the next slot of the group is still to come. A slot that can't be was left by another clock."""
        free = self._free.get((name, grp or ""))
        return free is not None and now < free <= now + rate_of(name, grp)

    def started(self, name: str, grp: str | None, now: int) -> None:
        """The next slot is one distance after this one, or after the start if that was later than that."""
        rate = rate_of(name, grp)
        if rate:
            late = now - self._free.get((name, grp or ""), 0)
            self._free[name, grp or ""] = now + rate - (late if 0 <= late < rate else 0)

    def given(self, id: int, name: str, grp: str | None, slot: int) -> bool:
        """A slot was given to this row; answers whether it is one of its own."""
        slots = self.slots[name, grp or ""]
        own = all(abs(slot - other) >= rate_of(name, grp) for of, other in slots.items() if of != id)
        slots[id] = slot
        return own

    def clock_was_set(self) -> None:
        """Slots of before and after needn't fit each other."""
        self.slots.clear()
