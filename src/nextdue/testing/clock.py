"""A clock for tests: the real store under a time that only moves when told to."""


class FakeClock:
    """Wall and monotonic time in ms; pass `now` and `monotonic_ms` to a store. The wall clock begins at `start`.

    >>> clock = FakeClock()
    >>> clock.advance(1500); clock.step(-1000); clock.now() - FakeClock.START
    500
    """

    START = 1_800_000_000_000

    def __init__(self, start: int = START) -> None:
        self._wall = start
        self._monotonic = 0

    def now(self) -> int:
        """The wall clock, UTC ms."""
        return self._wall

    def monotonic_ms(self) -> int:
        """The clock that nobody sets."""
        return self._monotonic

    def advance(self, ms: int) -> None:
        """Time passes."""
        self._wall += ms
        self._monotonic += ms

    def step(self, ms: int) -> None:
        """Somebody sets the wall clock, forwards or backwards."""
        self._wall += ms
