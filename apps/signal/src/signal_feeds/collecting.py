"""One attempt of one source: may it be asked, ask, read, write down. The only place from which anybody dials."""

import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.resources import files
from typing import NamedTuple, Protocol

from nextdue import Context, LeaseLost, StoreError
from signal_feeds import politeness, refreshing
from signal_feeds.politeness import Next
from signal_feeds.reasons import Failed, Reason, reason_of
from signal_feeds.recording import Recorder
from signal_feeds.records import Answer, Offer, Parsed, Source
from signal_feeds.store import SQL, Store, Tx
from signal_feeds.store.attempts import Counts, Times, digest_of, save_failure, save_success

CRASHES = 2
"""A source whose workers died so often in a row waits as after a failure of ours, and isn't asked now."""


class Fetch(Protocol):
    """fetching.client.Client.fetch."""

    def __call__(self, url: str, *, etag: str | None, last_modified: str | None) -> Awaitable[Answer]: ...


class Parse(Protocol):
    """parsing.pool.Parser.parse."""

    def __call__(self, body: bytes, content_type: str, url: str, *, now_ms: int) -> Awaitable[Parsed]: ...


FindOffers = Callable[[bytes, str, str], Awaitable[tuple[Offer, ...]]]
"""parsing.pool.Parser.offers: feeds that a page advertises."""


class Line(NamedTuple):
    """What the worker says of an attempt: `status` of HTTP (0: a fixture), or why it failed.

    `offers`: so many feeds the page advertises that came instead of one.
    """

    source: str
    status: int | None
    fresh: int = 0
    changed: int = 0
    reason: Reason | None = None
    offers: int = 0


class Collector:
    """Collects sources. `interval_s` answers how often one is asked, `moved` is told in the commit of a new URL."""

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        *,
        fetch: Fetch,
        parse: Parse,
        offers: FindOffers,
        now_ms: Callable[[], int],
        interval_s: Callable[[Source], int],
        moved: Callable[[Tx, str, int], None],
        tell: Callable[[Line], None] = lambda line: None,
    ) -> None:
        self.store, self.recorder, self.tell = store, recorder, tell
        self._fetch, self._parse, self._offers = fetch, parse, offers
        self._now_ms, self._interval_s, self._moved = now_ms, interval_s, moved
        self._out_of_turn = 0
        """So many requests out of turn are being made."""

    async def collect(self, ctx: Context, name: str) -> None:
        """The task: ask the source of this name, and set its next due."""
        source = self.store.source(name)
        begun = self._now_ms()
        interval_s = self._interval_s(source)
        permit = refreshing.permit(self.store.connection(), source, begun, interval_s, self._out_of_turn)
        if permit.until is not None:
            await self.recorder.record(ctx, _at(permit.until), lambda tx: None)
            return
        forced = permit.asked_by is not None
        self._out_of_turn += forced
        try:
            line = await self._attempt(ctx, source, begun, permit.asked_by)
        except StoreError:
            self.tell(Line(source.id, None, reason="store"))
            raise
        finally:
            self._out_of_turn -= forced
        self.tell(line)

    async def _attempt(self, ctx: Context, source: Source, begun: int, asked_by: str | None) -> Line:
        try:
            if ctx.crashes >= CRASHES:
                raise Failed("internal")
            answer, parsed = await self._ask(source, begun)
            return await self._succeed(ctx, source, answer, parsed, begun, asked_by)
        except LeaseLost:
            raise  # another worker has it: nothing of this attempt is to be written
        except Exception as error:
            return await self._fail(ctx, source, error, begun, asked_by)

    async def _ask(self, source: Source, begun: int) -> tuple[Answer, Parsed | None]:
        """The answer, and what it says unless that is stored already."""
        if source.kind == "fixture":
            body = files("signal_feeds.fixtures").joinpath(source.url.partition(":")[2]).read_bytes()
            answer = Answer(200, source.url, body)
        else:
            conditional = source.digest is not None
            answer = await self._fetch(
                source.url,
                etag=source.etag if conditional else None,
                last_modified=source.last_modified if conditional else None,
            )
        if answer.status == 304:
            if source.digest is None:
                raise Failed("bad_304", status=304)
            return answer, None
        if digest_of(answer.body) == source.digest:
            return answer, None
        try:
            return answer, await self._parse(answer.body, answer.content_type, answer.url, now_ms=begun)
        except Failed as failed:
            if failed.reason == "not_a_feed":
                raise _Page(answer, await self._offers(answer.body, answer.content_type, answer.url)) from None
            raise Failed(failed.reason, status=answer.status) from None

    async def _succeed(
        self, ctx: Context, source: Source, answer: Answer, parsed: Parsed | None, begun: int, asked_by: str | None
    ) -> Line:
        ended = self._now_ms()
        hints = parsed.hints if parsed else source.hints
        interval_s = self._interval_s(source)
        then = politeness.after_success(ended, interval_s=interval_s, fresh_s=answer.fresh_s, hints=hints)

        def write(tx: Tx) -> Counts:
            _forget_wish(tx, source)
            counts = save_success(tx, source, answer, parsed, Times(begun, ended, asked_by), then)
            if counts.moved:
                self._moved(tx, source.id, then.due_ms)
            return counts

        counts = await self.recorder.record(ctx, _at(then.due_ms), write)
        status = 0 if source.kind == "fixture" else answer.status
        return Line(source.id, status, counts.fresh, counts.changed)

    async def _fail(self, ctx: Context, source: Source, error: Exception, begun: int, asked_by: str | None) -> Line:
        """Write down why. Raises what the store raises, for then nobody can: the task's own retry comes."""
        reason = reason_of(error)
        status = getattr(error, "status", None) if isinstance(error, Failed) else None
        ended = self._now_ms()
        then = self._after(source, reason, error, ended)
        offers = error.offers if isinstance(error, _Page) else ()

        def write(tx: Tx) -> None:
            _forget_wish(tx, source)
            save_failure(tx, source, reason, status, Times(begun, ended, asked_by), then, offers)

        await self.recorder.record(ctx, _at(then.due_ms), write)
        return Line(source.id, status, reason=reason, offers=len(offers))

    def _after(self, source: Source, reason: Reason, error: Exception, ended: int) -> Next:
        local, times = politeness.is_local(reason), source.gone_times + (reason == "http_gone")
        first = source.gone_first if source.gone_first is not None else ended
        gone = reason == "http_gone" and politeness.is_gone(times, first, ended)
        return politeness.after_failure(
            ended,
            failures=min(politeness.MOST_FAILURES, (source.faults if local else source.failures) + 1),
            retry_after_s=error.retry_after_s if isinstance(error, Failed) else None,
            gone=gone,
            jitter_s=random.randint(0, politeness.JITTER_S),
        )


class _Page(Failed):
    """A page where a feed was expected, and the feeds that it advertises."""

    def __init__(self, answer: Answer, offers: tuple[Offer, ...]) -> None:
        super().__init__("not_a_feed", status=answer.status)
        self.offers = offers


def _forget_wish(tx: Tx, source: Source) -> None:
    tx.execute(SQL["granted"], {"number": source.number})


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
