"""The examples of effects against real servers, with the worker killed after the effect and before its mark."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller

from tests.docs.pages import TOP

WORKER = ("-m", "nextdue", "worker")


class Killer:
    """Kills the worker in the middle of its first request: the effect is out, and nobody has marked it."""

    def __init__(self) -> None:
        self.pid: int | None = None

    def strike(self) -> None:
        pid, self.pid = self.pid, None
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


class Mailbox:
    """What a real SMTP server has taken."""

    def __init__(self, killer: Killer) -> None:
        self.killer = killer
        self.ids: list[str] = []
        self.subjects: list[str] = []

    async def handle_DATA(self, server, session, envelope) -> str:
        mail = message_from_bytes(envelope.content)
        self.ids.append(mail["Message-ID"])
        self.subjects.append(mail["Subject"])
        self.killer.strike()
        return "250 taken"


class Example:
    """One example in a directory of its own."""

    def __init__(self, folder: Path, name: str, change: Callable[[str], str]) -> None:
        self.folder, self.name = folder, name
        shutil.copy(TOP / "examples" / f"{name}.py", folder)
        script = folder / f"{name}.py"
        code = script.read_text("utf-8")
        script.write_text(change(code), "utf-8")

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=self.folder, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def work(self, *, code: int = 0) -> str:
        return self.run(*WORKER, f"{self.name}:nd", "--once", code=code)

    def killed_in_its_effect(self, killer: Killer) -> None:
        """Put the task, and let the first worker die in it; then another one has given it back and it is due."""
        self.run(f"{self.name}.py")
        worker = subprocess.Popen(
            [sys.executable, *WORKER, f"{self.name}:nd"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        killer.pid = worker.pid
        try:
            assert worker.wait(20) == -signal.SIGKILL
        finally:
            worker.kill()
            worker.communicate()
        self.give_back()

    def give_back(self) -> None:
        """Another worker has given the task of the dead one back, and it is due."""
        app = f"{self.name}:nd"
        self.run("-m", "nextdue", "pause", app, "--queue", "default")
        self.work()
        self.run("-m", "nextdue", "resume", app, "--all")
        self.run("-m", "nextdue", "run-now", app, "1")


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def killer() -> Killer:
    return Killer()


@pytest.fixture
def mailbox(killer) -> Iterator[tuple[Mailbox, int]]:
    box, port = Mailbox(killer), free_port()
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    yield box, port
    controller.stop()


def mail_example(folder: Path, port: int, how: str) -> Example:
    def change(code: str) -> str:
        changed = code.replace('("localhost", 8025)', f'("127.0.0.1", {port})')
        assert changed != code
        return changed.replace('in_doubt="hold"', f'in_doubt="{how}"')

    return Example(folder, "mail_once", change)


@pytest.mark.timeout(60)
def test_held_in_doubt_the_mail_is_not_sent_twice(tmp_path, mailbox, killer):
    """Killed after the mail and before its mark, it waits for a person."""
    box, port = mailbox
    example = mail_example(tmp_path, port, "hold")
    example.killed_in_its_effect(killer)
    assert "1 held" in example.work()
    assert box.subjects == ["Receipt for order 42"]
    assert "in doubt: mail" in example.run("-m", "nextdue", "ls", "mail.db", "--held")
    said = example.run("-m", "nextdue", "why", "mail.db", "1")
    command = re.search(r"`nextdue (resolve [^`]*--happened)`", said)
    assert command is not None
    example.run("-m", "nextdue", *shlex.split(command[1]))
    assert "1 done" in example.work()
    assert len(box.ids) == 1


@pytest.mark.timeout(60)
def test_repeated_in_doubt_the_second_mail_has_the_same_message_id(tmp_path, mailbox, killer):
    box, port = mailbox
    example = mail_example(tmp_path, port, "repeat")
    example.killed_in_its_effect(killer)
    assert "1 done" in example.work()
    assert len(box.ids) == 2
    assert re.fullmatch(r"<[0-9a-f]{32}@example.org>", box.ids[0])
    assert box.ids[1] == box.ids[0]


@pytest.mark.timeout(60)
def test_a_refused_connection_leaves_no_doubt(tmp_path):
    example = mail_example(tmp_path, free_port(), "hold")
    example.run("mail_once.py")
    assert "1 failed" in example.work()
    assert "in doubt" not in example.run("-m", "nextdue", "ls", "mail.db")
    assert "waiting" in example.run("-m", "nextdue", "ls", "mail.db")


@contextmanager
def payments(killer: Killer) -> Iterator[tuple[list[tuple[str, object]], int]]:
    """A service that takes each Idempotency-Key once, and answers the same to its repetition."""
    asked: list[tuple[str, object]] = []
    known: dict[str, int] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            key = self.headers["Idempotency-Key"]
            asked.append((key, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            body = json.dumps({"id": known.setdefault(key, len(known) + 1)}).encode()
            killer.strike()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None: ...  # whoever asked was killed

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield asked, server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.timeout(60)
def test_a_webhook_called_twice_counts_once(tmp_path, killer):
    with payments(killer) as (asked, port):
        example = Example(tmp_path, "webhook", lambda code: code.replace("localhost:8080", f"127.0.0.1:{port}"))
        example.killed_in_its_effect(killer)
        assert "order 42 is payment 1\n" in example.work()
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert asked[0][1] == {"order": 42, "amount": 1990}


@pytest.mark.parametrize("died", ["downloaded", "loaded"])
def test_an_import_goes_on_where_it_was(tmp_path, died):
    """Killed in the second or the third step: what was made before is not made again."""
    death = "__import__('os').kill(__import__('os').getpid(), 9)"
    where = {"downloaded": 'print("loaded"', "loaded": 'ctx.step("tell"'}[died]
    example = Example(tmp_path, "import_in_steps", lambda code: code)
    script = tmp_path / "import_in_steps.py"
    whole = script.read_text("utf-8")
    script.write_text(whole.replace(f"    {where}", f"    {death}\n    {where}"), "utf-8")
    example.run("import_in_steps.py", code=-9)
    script.write_text(whole, "utf-8")
    example.give_back()
    said = example.work()
    assert "imported 100 orders\n" in said
    assert "downloaded" not in said
    assert ("loaded 100" in said) == (died == "downloaded")
    with closing(sqlite3.connect(tmp_path / "import.db")) as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (100,)


def test_a_chain(tmp_path):
    assert Example(tmp_path, "chain", lambda code: code).run("chain.py") == "imported 4 orders\ndone\n"


def test_waiting_for_a_payment(tmp_path):
    example = Example(tmp_path, "wait_for_payment", lambda code: code)
    assert example.run("wait_for_payment.py").splitlines() == ["reserved 42", "shipped 42 for 1990"]


def test_a_payment_from_a_shell_and_one_that_never_comes(tmp_path):
    def change(code: str) -> str:
        return code.replace('    nd.send("paid', '    raise SystemExit\n    nd.send("paid').replace('"7d"', '"1ms"')

    example = Example(tmp_path, "wait_for_payment", change)
    assert example.run("wait_for_payment.py") == "reserved 42\n"
    said = example.work()
    assert "cancelled 42" in said
    assert "reserved" not in said
    example.run("-m", "nextdue", "send", "payment.db", "paid:42", "1990")
