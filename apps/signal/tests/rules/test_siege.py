"""Hostile feeds among good ones: a real worker asks a real server."""

import asyncio
import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apps.signal.tests.behaviours import MIB, answer, feed, message
from apps.signal.tests.cli.conftest import Folder
from apps.signal.tests.rules.conftest import QUIET
from apps.signal.tests.server import Exchange, Script, Server
from signal_feeds.app import Signal
from tests.process.harness import children, until

GOOD = [f"good{number:02}" for number in range(20)]
RSS, END = b'<rss version="2.0"><channel><title>Hostile</title>', b"</channel></rss>"
HUNDRED = 100 * MIB


def sending(parts: Callable[[], Iterator[bytes]], **headers: str) -> Script:
    """A 200 that is sent part by part; in chunks if no Content-Length is given."""
    chunked = "Content_Length" not in headers
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += ["Transfer-Encoding: chunked"] * chunked

    async def script(exchange: Exchange) -> None:
        await exchange.send("\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode())
        for part in parts():
            await exchange.send(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
        await exchange.send(b"0\r\n\r\n" if chunked else b"")

    return script


def hundred() -> Iterator[bytes]:
    """100 MiB of a feed."""
    yield RSS
    for _ in range(100):
        yield (b"<item><title>%b</title></item>" % (b"x" * 1_000)) * 1_018


def million() -> Iterator[bytes]:
    """A million entries, 28 MB."""
    yield RSS
    for thousand in range(1_000):
        yield b"".join(b"<item><guid>%d</guid></item>" % (thousand * 1_000 + n) for n in range(1_000))
    yield END


PACKED = gzip.compress(bytes(HUNDRED), 1)
"""A hundred MiB in half of one."""
TOO_LARGE: dict[str, Script] = {
    "plain-chunked": sending(hundred),
    "plain-length": sending(hundred, Content_Length=str(HUNDRED)),
    "bomb-chunked": sending(lambda: iter([PACKED]), Content_Encoding="gzip"),
    "bomb-length": lambda exchange: message(200, PACKED, {"Content-Encoding": "gzip"}),
    "bomb-of-bombs": sending(lambda: iter([PACKED] * 200), Content_Encoding="gzip"),
    "million-long": sending(million),
}
WITHIN: dict[str, Script] = {
    "million-rss": answer(RSS + b"<item/>" * 1_000_000 + END),
    "million-json": answer(b'{"version": "https://jsonfeed.org/version/1.1", "items": [' + b"{}," * 999_999 + b"{}]}"),
    "many-tags": answer(RSS + (b"<item><guid>1</guid>" + b"<a>x</a>" * 20 + b"</item>") * 2_000 + END),
    "many-tags-too": answer(RSS + (b"<item><guid>2</guid>" + b"<a>x</a>" * 20 + b"</item>") * 2_000 + END),
}
"""Those are of at most 8 MiB: their first 2,000 entries are read, which here are all the same one."""


def good(name: str) -> Script:
    """A feed that comes when all of WITHIN have come, so that they are before it at the parser."""
    whole = message(200, feed(5, name, f"{name}-"), {"ETag": '"1"'})

    async def script(exchange: Exchange) -> None:
        server = exchange.server
        while not all(any(server.closed[one.address] for one in server.seen(f"/{name}")) for name in WITHIN):
            await asyncio.sleep(0.01)
        await exchange.send(whole)

    return script


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Iterator[Folder]:
    """With the hostile sources and then the good ones, all due, each on a host of its own."""
    folder = Folder(tmp_path)
    folder.settings(QUIET)
    signal = Signal(tmp_path)
    signal.install()
    scripts = WITHIN | TOO_LARGE | {name: good(name) for name in GOOD}
    for number, (name, script) in enumerate(scripts.items(), 1):
        server.put(f"/{name}", script)
        signal.add(server.url(f"/{name}", f"127.0.7.{number}"), name)
        task = signal.nd.get("collect", name)
        assert task is not None
        task.run_now()
    signal.close()
    yield folder
    for program in folder.programs:
        program.clean_up()


def peak_mib(pid: int) -> int:
    """The most of memory that a process has had so far."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory a process has had")
def test_feeds_of_a_hundred_megabytes_and_of_a_million_entries(folder: Folder) -> None:
    """Safety: 8 MiB decoded, 2,000 entries; rule failure. The good ones are collected meanwhile, memory is bounded."""
    worker = folder.start("worker", "--network", "--allow-net", "127.0.0.0/8")
    names = [*TOO_LARGE, *WITHIN, *GOOD]
    until(lambda: {line.partition("  ")[0] for line in worker.lines} >= set(names), 60, lambda: worker.text)
    said = {line.partition("  ")[0]: line.partition("  ")[2] for line in worker.lines}
    for name in TOO_LARGE:
        assert said[name] == "failed  too_large (200): too large"
    assert [said[name] for name in (*WITHIN, *GOOD)] == ["200  1 new entry"] * len(WITHIN) + ["200  5 new entries"] * 20
    order = [line.partition("  ")[0] for line in worker.lines]
    assert max(map(order.index, GOOD)) < sorted(map(order.index, WITHIN))[2]
    parsers = children(worker.pid)
    peaks = {pid: peak_mib(pid) for pid in (worker.pid, *parsers)}
    print(peaks)
    assert peaks[worker.pid] < 250
    assert all(peaks[pid] < 400 for pid in parsers)
    assert sum(peaks[pid] > 120 for pid in parsers) <= 1
    waits = dict(folder.sql("SELECT v.id, next_due - last_attempt / 1000 FROM sources v JOIN source USING (id)"))
    assert all(60 <= waits[name] <= 91 for name in TOO_LARGE)
    assert all(1_799 <= waits[name] <= 1_801 for name in (*WITHIN, *GOOD))
    failures = folder.sql("SELECT id FROM source WHERE failures = 1 AND last_error = 'too_large' AND etag IS NULL")
    assert {id for (id,) in failures} == set(TOO_LARGE)
    assert folder.sql("SELECT count(*), count(DISTINCT source) FROM entry") == [(104, 24)]
    assert worker.terminate() == 0
