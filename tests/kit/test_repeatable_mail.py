"""assert_repeatable on the example of a mail, against a real SMTP server: it passes by its step alone."""

import importlib
import shutil
import socket
import sys
from contextlib import closing

import pytest
from aiosmtpd.controller import Controller

from nextdue import Context, assert_repeatable
from tests.docs.pages import TOP


class Mailbox:
    """What a real SMTP server has taken."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.address = ("127.0.0.1", free_port())

    async def handle_DATA(self, server, session, envelope) -> str:
        lines = envelope.content.decode().splitlines()
        self.mails.append(next(line for line in lines if line.startswith("Message-ID:")))
        return "250 taken"


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def box():
    made = Mailbox()
    controller = Controller(made, hostname=made.address[0], port=made.address[1])
    controller.start()
    yield made
    controller.stop()


@pytest.fixture
def example(box, tmp_path, nextdue, monkeypatch):
    """The module of the example, in a folder of its own."""
    shutil.copy(TOP / "examples" / "mail_once.py", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("mail_once")
    monkeypatch.setattr(module, "SERVER", box.address)
    nextdue.use(module.nd)
    yield module
    del sys.modules["mail_once"]


def test_the_mail_with_its_step_passes(example, box):
    assert_repeatable(example.receipt, ("ada@example.org", 42), state=lambda: len(box.mails), reset=box.mails.clear)


def test_the_mail_without_a_step_fails(example, box):
    @example.nd.task
    def bare(to: str, order: int) -> None:
        example.send(to, order, "always-the-same")

    with pytest.raises(AssertionError, match="after the task had returned, before its end was written"):
        assert_repeatable(bare, ("ada@example.org", 42), state=lambda: len(box.mails), reset=box.mails.clear)


@pytest.mark.parametrize(
    ("how", "died"),
    [
        ("repeat", "after the effect of a step, before it was marked as done"),
        ("skip", "after a step was marked as begun, before its effect"),
    ],
)
def test_what_is_repeated_or_skipped_in_doubt_is_told(example, box, how, died):
    @example.nd.task
    def mail(ctx: Context, to: str) -> None:
        ctx.step("mail", example.send, to, 42, ctx.idempotency_key("mail"), in_doubt=how)

    with pytest.raises(AssertionError, match=died):
        assert_repeatable(mail, ("ada@example.org",), state=lambda: len(box.mails), reset=box.mails.clear)
    if how == "repeat":  # counted as the receiver does
        assert_repeatable(mail, ("ada@example.org",), state=lambda: len(set(box.mails)), reset=box.mails.clear)
