"""An order that waits for its payment, for days if need be, without a slot and through any restart."""

from pathlib import Path

from nextdue import Context, Nextdue

nd = Nextdue(Path(__file__).with_name("payment.db"))


@nd.task
def order(ctx: Context, id: int) -> None:
    # The function is called anew when the payment is there: what comes before the wait is a step.
    ctx.step("reserve", print, "reserved", id, in_doubt="skip")
    try:
        amount = ctx.wait_for(f"paid:{id}", timeout="7d")
    except TimeoutError:
        print("cancelled", id)
        return
    print("shipped", id, "for", amount)


if __name__ == "__main__":
    order.using(key="42").enqueue(42)
    nd.run(once=True)  # reserves, and rests
    nd.send("paid:42", 1990)  # from anywhere: a web server, or `nextdue send payment.db paid:42 1990`
    nd.run(once=True)
