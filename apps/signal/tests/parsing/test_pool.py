"""Parsing in processes of its own: they do the same, die alone, and end with their parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from apps.signal.tests.parsing.feeds import NOW_MS, URL, read, rss
from signal_feeds.parsing.pool import LARGE, Parser
from signal_feeds.reasons import Failed

DOCUMENT = rss("<guid>1</guid><title>one</title>")


def with_parser(work: Callable[[Parser], Awaitable[object]], **options: float) -> None:
    async def run() -> None:
        parser = Parser(children=1, **options)
        try:
            await work(parser)
        finally:
            parser.close()

    asyncio.run(run())


def child_of(parser: Parser) -> int:
    (child,) = parser._all
    return child._process.pid


def test_it_answers_as_parse_does() -> None:
    async def work(parser: Parser) -> None:
        assert await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS) == read(DOCUMENT)
        with pytest.raises(Failed, match="empty"):
            await parser.parse(b"", "", URL, now_ms=NOW_MS)
        page = b'<html><link rel="alternate" type="application/rss+xml" title="T" href="/f.xml"></html>'
        assert [offer.url for offer in await parser.offers(page, "text/html", URL)] == ["https://example.org/f.xml"]

    with_parser(work)


def test_none_is_made_before_it_is_needed() -> None:
    async def work(parser: Parser) -> None:
        assert not parser._all

    with_parser(work)


def test_one_that_dies_is_replaced() -> None:
    """A document that kills its child is Failed('internal'); the next one has a new child."""

    async def work(parser: Parser) -> None:
        await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS)
        first = child_of(parser)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(Failed, match="internal"):
            await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS)
        assert await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS) == read(DOCUMENT)
        assert child_of(parser) != first

    with_parser(work)


def test_one_that_takes_too_long_is_ended() -> None:
    """Failed('parse') at the limit, and the child is gone."""

    async def work(parser: Parser) -> None:
        await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS)
        first = child_of(parser)
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(Failed, match="parse"):
            await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS)
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)

    with_parser(work, limit_s=1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent at once")
def test_they_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, time\n"
        "from signal_feeds.parsing.pool import Parser\n"
        "async def main():\n"
        "    parser = Parser(children=1)\n"
        f"    await parser.parse({DOCUMENT.encode()!r}, '', {URL!r}, now_ms={NOW_MS})\n"
        "    print(next(iter(parser._all))._process.pid, flush=True)\n"
        "    time.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and "State:\tZ" not in Path(f"/proc/{child}/status").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_limit_holds_while_a_document_is_handed_over() -> None:
    """A child that doesn't even read is ended too: a large document doesn't fit into the pipe."""

    async def work(parser: Parser) -> None:
        large = DOCUMENT.encode() + b" " * (1 << 20)
        await parser.parse(large, "", URL, now_ms=NOW_MS)
        os.kill(child_of(parser), signal.SIGSTOP)
        with pytest.raises(Failed, match="parse"):
            await parser.parse(large, "", URL, now_ms=NOW_MS)

    with_parser(work, limit_s=1.0)


def test_small_documents_do_not_wait_for_large_ones() -> None:
    """As many large ones as there may be requests at once keep a parser for as long as it is allowed, one by one."""
    large = rss(f"<guid>1</guid><description>{'x' * LARGE}</description>").encode()

    async def work(parser: Parser) -> None:
        await parser.parse(large, "", URL, now_ms=NOW_MS)
        first = child_of(parser)
        os.kill(first, signal.SIGSTOP)
        waiting = [asyncio.ensure_future(parser.parse(large, "", URL, now_ms=NOW_MS)) for _ in range(16)]
        await asyncio.sleep(0)
        assert await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS) == read(DOCUMENT)
        assert not any(one.done() for one in waiting)
        os.kill(first, signal.SIGCONT)
        for one in waiting:
            assert len((await one).items) == 1

    with_parser(work)


def test_large_documents_and_large_answers_pass() -> None:
    large = rss(*(f"<guid isPermaLink='false'>{n}</guid><description>{'x' * 900}</description>" for n in range(2_000)))

    async def work(parser: Parser) -> None:
        found = await parser.parse(large.encode(), "", URL, now_ms=NOW_MS)
        assert found == read(large)

    with_parser(work)


def test_children_inherit_no_descriptor(tmp_path: Path) -> None:
    """One owner: the descriptor of the lock isn't inherited by children, even where it is inheritable."""
    with open(tmp_path / "lock", "w") as lock:
        os.set_inheritable(lock.fileno(), True)

        async def work(parser: Parser) -> None:
            await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS)
            held = {os.readlink(entry) for entry in Path(f"/proc/{child_of(parser)}/fd").iterdir()}
            assert str(tmp_path / "lock") not in held
            assert held

        if sys.platform == "linux":
            with_parser(work)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "service manager"])
def test_a_signal_to_the_whole_group_is_for_the_parent(number: signal.Signals) -> None:
    async def work(parser: Parser) -> None:
        await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS)
        first = child_of(parser)
        os.kill(first, number)
        await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS)
        assert child_of(parser) == first

    with_parser(work)


def test_closing_ends_what_is_going_on_and_may_be_done_twice() -> None:
    async def run() -> None:
        parser = Parser(children=1)
        await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS)
        child = child_of(parser)
        os.kill(child, signal.SIGSTOP)
        going_on = asyncio.ensure_future(parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS))
        await asyncio.sleep(0)
        await asyncio.to_thread(parser.close)
        with pytest.raises(Failed, match="internal"):
            await going_on
        parser.close()
        with pytest.raises(Failed, match="internal"):
            await parser.parse(DOCUMENT.encode(), "", URL, now_ms=NOW_MS)
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)

    asyncio.run(run())
