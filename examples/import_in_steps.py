"""An import of three steps that goes on where it was, whatever kills its worker between them."""

import csv
from pathlib import Path

from nextdue import Context, Nextdue

HERE = Path(__file__).parent
nd = Nextdue(HERE / "import.db")


def download(day: str) -> str:
    file = HERE / f"{day}.csv"
    file.write_text("".join(f"{number},{number * 10}\n" for number in range(1, 101)))
    print("downloaded")
    return file.name


def load(name: str) -> int:
    rows = list(csv.reader((HERE / name).open()))
    with nd.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, total INTEGER)")
        tx.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?)", rows)  # may be repeated
    print("loaded", len(rows))
    return len(rows)


@nd.task
def nightly(ctx: Context, day: str) -> None:
    name = ctx.step("download", download, day, repeatable=True)
    count = ctx.step("load", load, name, repeatable=True)
    ctx.step("tell", print, f"imported {count} orders", in_doubt="skip")


if __name__ == "__main__":
    nightly.enqueue("2026-12-01")
    nd.run(once=True)
