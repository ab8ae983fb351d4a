"""An order, its receipt and the mark that it was sent: each pair is one commit, whatever is killed and when."""

from pathlib import Path

from nextdue import Context, Nextdue

nd = Nextdue(Path(__file__).with_name("shop.db"))


@nd.task
def receipt(ctx: Context, order: int) -> None:
    print("receipt for order", order)  # may come twice: nothing outside of the file can be in its commit
    with ctx.finish() as tx:
        tx.execute("UPDATE orders SET receipts = receipts + 1 WHERE id = ?", (order,))


def order(id: int, works: bool) -> None:
    with nd.transaction() as tx:
        tx.execute("INSERT INTO orders(id) VALUES (?)", (id,))
        receipt.using(tx=tx).enqueue(id)
        if not works:
            raise ValueError("no such article")


if __name__ == "__main__":
    with nd.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, receipts INTEGER NOT NULL DEFAULT 0)")
    order(1, works=True)
    try:
        order(2, works=False)
    except ValueError as error:
        print("order 2:", error)
    nd.run(once=True)
    with nd.transaction() as tx:
        print("orders and their receipts:", tx.execute("SELECT id, receipts FROM orders").fetchall())
