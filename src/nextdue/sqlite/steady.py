"""Whether this process may believe what it sees of other people's leases."""

from collections.abc import Callable

LONG_WAIT_MS = 50
STEP_MS = 1_000


class Steady:
    """For how long neither a long wait for the write lock nor a clock step was seen here.

    After either of them every lease looks expired, though it isn't the owners that are late. `monotonic_ms`
    counts on through both.
    """

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._since = monotonic_ms()
        self._offset: int | None = None

    def ms(self) -> int:
        """How long it has been steady."""
        return self._monotonic_ms() - self._since

    def expected_ms(self) -> int | None:
        """What the wall clock shows now unless it was stepped; None before it was first seen."""
        return None if self._offset is None else self._offset + self._monotonic_ms()

    def waited(self, ms: float) -> None:
        """The write lock was waited for."""
        if ms > LONG_WAIT_MS:
            self._since = self._monotonic_ms()

    def saw(self, wall_ms: int) -> int:
        """The wall clock shows this; answers by how much it was stepped since it was last seen (0: it wasn't)."""
        expected = self.expected_ms()
        if expected is not None and abs(wall_ms - expected) <= STEP_MS:
            return 0
        self._offset = wall_ms - self._monotonic_ms()
        self._since = self._monotonic_ms()
        return 0 if expected is None else wall_ms - expected
