"""Whether a site's robots.txt lets us ask for a URL. RFC 9309; only used if the settings say so."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit
from urllib.robotparser import RobotFileParser

from signal_feeds.reasons import Failed
from signal_feeds.records import Answer

NAME = "Signal"
"""By what a robots.txt calls us."""
DAY_S = 86_400
MOST_SITES = 1_000
"""What they say is kept for so many; 10,000 sources are asked again sooner than memory is spent on them."""
MOST_BYTES = 500 << 10
"""More of a robots.txt isn't read (RFC 9309, 2.5)."""


class Robots:
    """What sites say, kept for a day. `get` fetches a URL; `now_s` is the time."""

    def __init__(self, get: Callable[[str], Awaitable[Answer]], now_s: Callable[[], float]) -> None:
        self._get, self._now_s = get, now_s
        self._said: dict[str, tuple[float, RobotFileParser | None]] = {}

    async def check(self, url: str) -> None:
        """Raises Failed('robots') if it is forbidden, or why robots.txt can't be had, when nobody knows."""
        parts = urlsplit(url)
        rules = await self._rules(f"{parts.scheme}://{parts.netloc}")
        if rules is not None and not rules.can_fetch(NAME, url):
            raise Failed("robots")

    async def _rules(self, site: str) -> RobotFileParser | None:
        """Its rules; None: it has none."""
        until, rules = self._said.pop(site, (0.0, None))
        if until <= self._now_s():
            until, rules = self._now_s() + DAY_S, await self._ask(site)
        self._said[site] = until, rules
        if len(self._said) > MOST_SITES:
            del self._said[next(iter(self._said))]
        return rules

    async def _ask(self, site: str) -> RobotFileParser | None:
        try:
            answer = await self._get(f"{site}/robots.txt")
        except Failed as failed:
            # No such file, or not for us: nothing is forbidden. "Not now" and a fault mean that it isn't known.
            if failed.status is not None and 400 <= failed.status < 500 and failed.status != 429:
                return None
            raise
        rules = RobotFileParser()
        rules.parse(answer.body[:MOST_BYTES].decode("utf-8", "replace").splitlines())
        return rules
