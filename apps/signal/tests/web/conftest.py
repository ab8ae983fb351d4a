"""The pages of a sample folder, served by a real uvicorn on a loopback port."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
import uvicorn

from apps.signal.tests.web.building import NOW
from apps.signal.tests.web.sample import sample
from signal_feeds.web import Site, application


class Pages:
    """A server of pages. `now` is its clock."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder, self.now = folder, NOW
        site = Site(folder / "signal.db", folder / "signal.lock", now_ms=lambda: self.now, **options)  # type: ignore[arg-type]
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        app = application(site)
        config = uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_config=None, server_header=False)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        asyncio.run(self.server.serve(sockets=[self.listener]))

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.listener.close()

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
        """The answer and its body; names of headers with _ for -."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def text(self, path: str, **headers: str) -> str:
        answer, body = self.ask(path, **headers)
        assert answer.status == 200, (path, answer.status)
        return body.decode()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    path = tmp_path_factory.mktemp("sample")
    sample(path).close()
    served = Pages(path)
    yield served
    served.close()
