"""A receipt five seconds after the order, whatever happens to this process meanwhile.

Run it, interrupt it, and run it again: what was due meanwhile is done at once.
"""

from pathlib import Path

from nextdue import Nextdue, Retry, Snooze

nd = Nextdue(Path(__file__).with_name("defer.db"))
paid = {42}


@nd.task(retry=Retry(base="5s", limit=3))
def receipt(order: int) -> None:
    if order not in paid:
        raise Snooze("10s")  # look again later; this is no failure
    print("receipt for order", order, flush=True)


if __name__ == "__main__":
    # The key makes it one receipt, however often this line is run within a day.
    handle = receipt.using(delay="5s", key="42").enqueue(42)
    print(f"{handle} is {handle.state}, due {handle.due}", flush=True)
    nd.run()  # until Ctrl-C
