"""Roles of Signal, an application of nextdue, and of `reader`, the library beside it: both collect from one server."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench import records
from bench.roles import Playing

SETTINGS = """
allow_net = ["127.0.0.0/8"]
[builtin]
fixture-rss = false
fixture-atom = false
fixture-json = false
github-blog = false
"""
A_DAY_MS = 86_400_000


def addresses(count: int, port: int, path: str) -> Iterator[str]:
    """URLs of as many hosts: neither side may ask one of them for many feeds at once."""
    for number in range(count):
        yield f"http://127.{1 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}:{port}{path}"


def collect(side: str, count: int, port: int, path: str, stored: bool = False) -> Playing:
    """Collect `count` sources once. `stored`: they have a representation, so that a 304 is an answer."""
    urls = addresses(count, port, path)
    return (yield from _signal(urls, count, stored) if side == "nextdue" else _reader(urls, count))


def _signal(urls: Iterator[str], count: int, stored: bool) -> Playing:
    from signal_feeds.app import Signal

    folder = Path(records.database()).with_name("signal")
    put_sources(folder, urls, stored)
    lines: list[object] = []
    signal = Signal(folder, tell=lines.append)
    yield
    begun = time.perf_counter()
    signal.work(network=True, once=True)
    took = time.perf_counter() - begun
    failed = [line for line in lines if getattr(line, "reason", None) is not None]
    if len(lines) != count or failed:
        raise RuntimeError(f"{len(lines)} of {count} were asked, {len(failed)} failed")
    return {"rate": count / took, "memory_mb": _peak_mb()}


def put_sources(folder: Path, urls: Iterator[str], stored: bool, due_ms: int = 0) -> None:
    """A folder with these sources, all due `due_ms` from now."""
    from signal_feeds.app import HTTP, Signal
    from signal_feeds.store import SQL
    from signal_feeds.urls import address_of

    folder.mkdir(parents=True)
    (folder / "signal.toml").write_text(SETTINGS)
    signal = Signal(folder)
    signal.install()
    now = signal.now_ms()
    with signal.nd.transaction() as tx:
        for number, url in enumerate(urls):
            row = {"id": f"s{number:05}", "url": url, "address": address_of(url), "kind": "http", "origin": "added"}
            tx.execute(SQL["add_source"], {**row, "now": now})
            group = signal.settings.group_of(row["id"], url)
            signal.collect.using(tx=tx, key=row["id"], queue=HTTP, group=group, delay=due_ms / 1000).enqueue(row["id"])
        if stored:
            tx.execute("UPDATE source SET etag = '\"1\"', digest = 'stored'")
    signal.close()


def sources_ahead(side: str, count: int) -> Playing:
    """A folder with `count` sources that are due tomorrow, for a worker that is started beside this."""
    put_sources(Path(records.database()).with_name("signal"), addresses(count, 9, "/"), True, A_DAY_MS)
    yield
    return {}


def _reader(urls: Iterator[str], count: int) -> Playing:
    import feedparser_sgmllib

    # Its own copy of feedparser wants the old name of this, which Python 3 no longer has.
    sys.modules["sgmllib"] = feedparser_sgmllib
    from reader import make_reader

    reader = make_reader(str(records.database()))
    for url in urls:
        reader.add_feed(url)
    yield
    begun = time.perf_counter()
    failed = sum(isinstance(found.value, Exception) for found in reader.update_feeds_iter(workers=1))
    took = time.perf_counter() - begun
    if failed:
        raise RuntimeError(f"reader failed at {failed} of {count}")
    return {"rate": count / took, "memory_mb": _peak_mb()}


def _peak_mb() -> float:
    """Of this process and of the largest of its children."""
    sizes = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(sizes) / 1024
