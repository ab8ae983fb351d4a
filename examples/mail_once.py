"""A mail that nobody gets twice without a person's word: marked before and after, and held where that leaves a doubt.

`nextdue ls mail.db --held` lists it then, and `nextdue resolve` decides. With in_doubt="repeat" it would be sent again,
under the same Message-ID, by which many mail servers and programs know a mail that they have.
"""

import smtplib
from email.message import EmailMessage
from pathlib import Path

from nextdue import Context, Nextdue

SERVER = ("localhost", 8025)
nd = Nextdue(Path(__file__).with_name("mail.db"))


def send(to: str, order: int, key: str) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "shop@example.org", to, f"Receipt for order {order}"
    mail["Message-ID"] = f"<{key}@example.org>"
    mail.set_content("Thank you!")
    with smtplib.SMTP(*SERVER, timeout=10) as server:
        server.send_message(mail)


@nd.task
def receipt(ctx: Context, to: str, order: int) -> None:
    key = ctx.idempotency_key("mail")
    # A server that refuses the connection has sent nothing: no doubt, the task is tried again.
    ctx.step("mail", send, to, order, key, in_doubt="hold", not_happened=(ConnectionRefusedError,))


if __name__ == "__main__":
    print(receipt.enqueue("ada@example.org", 42))
