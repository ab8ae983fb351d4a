"""Thousands of increments a second are counted in memory, with one write for each counter and interval.
A crash loses what was counted since the last write, up to an interval; nothing is counted twice."""

import threading
from collections import Counter
from pathlib import Path

from nextdue import Context, Nextdue, Retry

nd = Nextdue(Path(__file__).with_name("counter.db"))
counts, lock = Counter[str](), threading.Lock()  # of this process, so the worker must be in it, too


@nd.on_demand("10s", retry=Retry(base="1s", limit=None))
def write(ctx: Context, name: str) -> None:
    count = counts[name]
    with ctx.finish() as tx:  # the sum and the completion are one commit; if it fails, the next try writes more
        tx.execute("INSERT INTO hit VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", (name, count))
    with lock:
        counts[name] -= count
    if counts[name]:
        write.enqueue(name)


def hit(name: str) -> None:
    with lock:
        counts[name] += 1
        first = counts[name] == 1
    if first:
        write.enqueue(name)  # for the end of this interval


if __name__ == "__main__":
    with nd.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS hit(name TEXT PRIMARY KEY, n INTEGER NOT NULL)")
    with nd.working():
        for number in range(200_000):
            hit("home" if number % 4 else "about")
        while any(counts.values()):
            threading.Event().wait(0.1)
