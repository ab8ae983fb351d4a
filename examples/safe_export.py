"""An export that is there whole or not at all, though its worker may be killed at any line of it.

`ctx.replace` writes beside the target and renames at the end, so a repeat overwrites and never appends.
"""

import csv
from pathlib import Path

from nextdue import Context, Nextdue

HERE = Path(__file__).parent
nd = Nextdue(HERE / "safe_export.db")


@nd.task(keep_result=True)
def export(ctx: Context, day: str) -> int:
    orders = [(number, number * 9.99) for number in range(1, 1001)]
    with ctx.replace(HERE / f"orders-{day}.csv", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["order", "total"])
        writer.writerows(orders)
    return len(orders)


if __name__ == "__main__":
    handle = export.enqueue("2026-12-01")
    nd.run(once=True)  # what is due now, then the end
    print(handle.state, handle.runs()[0].result, "orders")
