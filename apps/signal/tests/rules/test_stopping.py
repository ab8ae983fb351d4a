"""SIGTERM in the middle of a fetch: the worker doesn't wait for the server, and the source is as it was."""

import signal as signals
import subprocess
import sys
import time
from pathlib import Path

from apps.signal.tests.rules.conftest import QUIET
from apps.signal.tests.rules.test_kills import COMMAND
from apps.signal.tests.server import Server
from signal_feeds.app import GRACE_S, Signal

DEADLINE_S = 30
"""Of a fetch."""


def test_a_server_that_drips_holds_up_no_stop(tmp_path: Path, server: Server) -> None:
    (tmp_path / "signal.toml").write_text('allow_net = ["127.0.0.0/8"]\n' + QUIET)
    signal = Signal(tmp_path)
    signal.install()
    signal.add(server.url("/drip/body"), "slow")
    task = signal.nd.get("collect", "slow")
    assert task is not None
    assert task.run_now()
    arguments = [sys.executable, "-c", COMMAND, "--folder", str(tmp_path), "worker", "--network"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            end = time.monotonic() + 20
            while not server.seen("/drip/body"):
                assert time.monotonic() < end
                time.sleep(0.01)
            process.send_signal(signals.SIGTERM)
            output, _ = process.communicate(timeout=GRACE_S + (DEADLINE_S - GRACE_S) / 2)
        finally:
            process.kill()
    assert (process.returncode, "Traceback" in output) == (0, False), output
    source, view = signal.store.source("slow"), task.view()
    assert (source.failures, source.faults, source.last_error, source.last_attempt) == (0, 0, None, None)
    assert (view.state, view.crashes, view.attempts) == ("waiting", 0, 0)
    assert task.due is not None
    assert task.due.timestamp() * 1000 <= signal.now_ms()
    signal.close()
