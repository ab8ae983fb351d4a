"""The test server itself: what others measure with must be right."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from apps.signal.tests.behaviours import answer, conditional, in_turn
from apps.signal.tests.server import Server

ROOT = Path(__file__).parents[4]


def get(url: str, **headers: str) -> tuple[int, bytes]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with opener.open(request, timeout=30) as got:
            return got.status, got.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_addresses_are_told_apart(server: Server) -> None:
    server.put("/x", answer(b"all"))
    server.put("/x", answer(b"seven"), "127.0.0.7")
    assert [get(server.url("/x", address))[1] for address in ("127.0.0.1", "127.9.9.9", "127.0.0.7")] == [
        b"all", b"all", b"seven",
    ]  # fmt: skip
    assert server.connections == {"127.0.0.1": 1, "127.9.9.9": 1, "127.0.0.7": 1}
    assert [request.address for request in server.seen("/x")] == ["127.0.0.1", "127.9.9.9", "127.0.0.7"]


def test_conditional_requests_get_304(server: Server) -> None:
    server.put("/x", conditional(b"body", etag='"1"', last_modified="Tue, 01 Dec 2026 00:00:00 GMT"))
    assert get(server.url("/x")) == (200, b"body")
    assert get(server.url("/x"), If_None_Match='"1"') == (304, b"")
    assert get(server.url("/x"), If_None_Match='"2"') == (200, b"body")
    assert get(server.url("/x"), If_Modified_Since="Tue, 01 Dec 2026 00:00:00 GMT") == (304, b"")


def test_scripts_in_turn(server: Server) -> None:
    server.put("/x", in_turn(answer(b"", 503, retry_after="60"), answer(b"", 410), answer(b"ok")))
    assert [get(server.url("/x"))[0] for _ in range(4)] == [503, 410, 200, 200]


def test_as_a_process() -> None:
    command = [sys.executable, "-m", "apps.signal.tests.server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ports = json.loads(process.stdout.readline())
        Path(ports["trust"]).unlink()
        assert get(f"http://127.0.0.5:{ports['port']}/feed/3")[1].count(b"<item>") == 3
        log = json.loads(get(ports["log"])[1])
        assert [(seen["address"], seen["path"]) for seen in log["requests"]] == [("127.0.0.5", "/feed/3")]
        process.communicate("")
        assert process.returncode == 0
