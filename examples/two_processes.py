"""One process puts tasks, as a web server does; another works. They share nothing but the file.

In two terminals, in this directory:

    nextdue worker two_processes:nd
    python two_processes.py
"""

import time
from pathlib import Path

from nextdue import Nextdue

nd = Nextdue(Path(__file__).with_name("two_processes.db"))


@nd.task
def mail(address: str) -> None:
    print("mail to", address, flush=True)


def handle_request(address: str) -> str:
    """What the web server does: when this returns, the mail can't be forgotten any more."""
    return f"202 Accepted, task {mail.enqueue(address).id}"


if __name__ == "__main__":
    for name in ("ada", "bob", "eve"):
        print(handle_request(f"{name}@example.org"), flush=True)
    while nd.find(name="mail"):
        time.sleep(0.05)
    print("all sent", flush=True)
