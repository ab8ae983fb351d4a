"""A webhook that may be called twice and counts once: every attempt sends the same Idempotency-Key."""

import json
import urllib.request
from pathlib import Path

from nextdue import Context, Nextdue

URL = "http://localhost:8080/payments"
nd = Nextdue(Path(__file__).with_name("webhook.db"))


def post(payload: dict[str, int], key: str) -> int:
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    request = urllib.request.Request(URL, json.dumps(payload).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["id"]


@nd.task(keep_result=True)
def pay(ctx: Context, order: int, amount: int) -> int:
    payload = {"order": order, "amount": amount}
    # In doubt it is repeated, which the key makes harmless; once its answer is stored, it isn't called again.
    payment = ctx.step("pay", post, payload, ctx.idempotency_key("pay"))
    print("order", order, "is payment", payment)
    return payment


if __name__ == "__main__":
    print(pay.enqueue(42, 1990))
