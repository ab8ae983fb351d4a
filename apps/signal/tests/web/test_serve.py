"""`signal serve` as a user runs it: on this machine only unless told otherwise, and beside a worker."""

import http.client
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.signal.tests.rules.conftest import QUIET
from apps.signal.tests.server import Server

RUN = [sys.executable, "-c", "import sys; from signal_feeds.cli.main import main; sys.exit(main())"]


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """The process, its first line and its port."""
    command = [*RUN, "--folder", str(folder), "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            found = re.search(r":(\d+)/", said)
            assert found, said
            yield process, said, int(found[1])
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def status(port: int, path: str, host: str = "127.0.0.1") -> int:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, "--folder", str(folder), *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_it_serves_a_folder_that_comes_later_and_makes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, said, port):
        assert said == f"Signal's pages: http://127.0.0.1:{port}/  (Ctrl-C ends)\n"
        assert status(port, "/") == 503
        assert list(tmp_path.iterdir()) == []
        assert run(tmp_path, "init").returncode == 0
        assert status(port, "/") == status(port, "/sources") == 200
        worker = run(tmp_path, "worker", "--once")
        assert worker.returncode == 0, worker.stderr
        assert status(port, "/entry/1") == 200
    assert process.returncode == 0
    assert process.stderr is not None


def test_serving_pages_asks_nobody(tmp_path: Path, server: Server) -> None:
    """Rule one owner: serve works beside a worker, and can't collect."""
    (tmp_path / "signal.toml").write_text('allow_net = ["127.0.0.0/8"]\n' + QUIET)
    assert run(tmp_path, "add", server.url("/feed/1"), "--name", "ada").returncode == 0
    with serving(tmp_path) as (_, _, port):
        pages = ("/", "/sources", "/source/1", "/queue", "/search?q=a", "/feed.atom", "/feed.json", "/opml", "/healthz")
        assert [status(port, page) for page in pages] == [200] * len(pages)
    assert server.connections.total() == 0


def test_who_can_read_it_from_elsewhere_is_warned_of(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "0.0.0.0") as (process, _, port):
        assert status(port, "/") == 503
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "whoever can reach 0.0.0.0 can read these pages" in process.stderr.read()


def test_this_machine_is_not_warned_of(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "localhost") as (process, _, port):
        assert status(port, "/", "localhost") == 503
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--port", "99999"], "signal: 99999 is no port: 0 to 65535, where 0 is any that is free\n"),
        (["--host", "192.0.2.1"], "signal: 192.0.2.1 port 8030: Cannot assign requested address"),
        (["--host", "a..b"], "signal: 'a..b' is no address of this machine"),
    ],
    ids=["port", "address of another", "no name"],
)
def test_where_nobody_can_listen(tmp_path: Path, words: list[str], complaint: str) -> None:
    done = run(tmp_path, "serve", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(complaint)
    assert done.stdout == ""


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(tmp_path, "serve", "--port", str(port))
    assert done.returncode == 2
    assert done.stderr == f"signal: 127.0.0.1 port {port}: Address already in use; choose another one with --port\n"
