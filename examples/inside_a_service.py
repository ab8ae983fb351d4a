"""A service that does its own deferred work: no second process, and still nothing is lost at a restart."""

import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from nextdue import Nextdue

nd = Nextdue(Path(__file__).with_name("inside_a_service.db"))


@nd.task
def log_visit(path: str, at: float) -> None:
    print(f"visit to {path}, written {time.time() - at:.3f} s later", flush=True)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        log_visit.using(delay=0.2).enqueue(self.path, time.time())
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Page)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    with nd.working(concurrency=2), server, suppress(KeyboardInterrupt):
        server.serve_forever()
