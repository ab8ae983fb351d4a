"""Entries that nobody touched for a day are removed, and the table is looked at only when one can have got so old.

Run it: an entry is touched, and a day later it is gone.
"""

import time
from pathlib import Path

from nextdue import Nextdue

nd = Nextdue(Path(__file__).with_name("untouched.db"))
KEPT_S = 86_400


@nd.on_demand("1m")
def forget() -> None:
    with nd.transaction() as tx:
        old = time.time() - KEPT_S
        gone = tx.execute("DELETE FROM entry WHERE touched <= ? RETURNING name", (old,)).fetchall()
    print("forgot", sorted(name for (name,) in gone), flush=True)


def touch(name: str) -> None:
    """The entry and the wish to look at it in a day are one commit; a minute's wishes are one run."""
    with nd.transaction() as tx:
        tx.execute("INSERT OR REPLACE INTO entry(name, touched) VALUES (?, ?)", (name, time.time()))
        forget.using(delay=KEPT_S, tx=tx).enqueue()


if __name__ == "__main__":
    with nd.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS entry(name TEXT PRIMARY KEY, touched REAL NOT NULL)")
    for name in ("ada", "bob", "ada"):
        touch(name)
    nd.run()  # until Ctrl-C
