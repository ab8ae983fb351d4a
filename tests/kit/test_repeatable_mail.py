"""assert_repeatable on the example of a mail, against a real SMTP server: it passes by its step alone."""

import importlib.util
import socket
from contextlib import closing

import pytest
from aiosmtpd.controller import Controller

from nextdue import Context, assert_repeatable
from tests.docs.pages import TOP


class Mailbox:
    def __init__(self):
        self.mails = []

    async def handle_DATA(self, server, session, envelope):
        lines = envelope.content.decode().splitlines()
        self.mails.append(next(line for line in lines if line.startswith("Message-ID:")))
        return "250 taken"


@pytest.fixture
def box(monkeypatch):
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Mailbox()
    controller = Controller(made, hostname="127.0.0.1", port=port)
    controller.start()
    made.address = ("127.0.0.1", port)
    yield made
    controller.stop()


@pytest.fixture
def example(box, tmp_path, nextdue):
    """The module of the example, in a folder of its own."""
    path = tmp_path / "mail_once.py"
    path.write_text((TOP / "examples" / "mail_once.py").read_text("utf-8"), "utf-8")
    spec = importlib.util.spec_from_file_location("mail_once", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SERVER = box.address
    nextdue.use(module.nd)
    return module


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
