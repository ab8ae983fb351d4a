"""Adopts a hand-made table of tasks: zadachi(id, kogda, telo, vzyato, gotovo), kogda in seconds since 1970.

Stop the old program first. One transaction takes over all that isn't done, so a crash leaves all or nothing; run again,
it finds what came in since, and a key of each id keeps one from being taken over twice.
"""

from datetime import UTC, datetime
from pathlib import Path

from nextdue import Nextdue

nd = Nextdue(Path(__file__).with_name("adopted.db"))  # the file with the table
OPEN = "coalesce(gotovo, 0) = 0 AND vzyato IS NOT 'nextdue'"


@nd.task
def zadacha(telo: str) -> None:
    print("done", telo, flush=True)


def adopt() -> int:
    with nd.transaction() as tx:
        rows = tx.execute(f"SELECT id, kogda, telo FROM zadachi WHERE {OPEN} ORDER BY kogda").fetchall()
        for id, kogda, telo in rows:
            due = datetime.fromtimestamp(kogda, UTC)
            zadacha.using(tx=tx, key=id, due=due, remember="365d").enqueue(telo)
        tx.execute(f"UPDATE zadachi SET vzyato = 'nextdue' WHERE {OPEN}")
    return len(rows)


if __name__ == "__main__":
    print("adopted", adopt(), flush=True)
    nd.run(spread="10m")  # what is long overdue doesn't start all at once
