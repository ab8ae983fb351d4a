"""Parsing in processes of its own: what a document does to them is done to them alone."""

import asyncio
import os
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec

from signal_feeds.parsing import MOST
from signal_feeds.parsing.child import Answered, Asked, framed, read_frame
from signal_feeds.reasons import Failed
from signal_feeds.records import Offer, Parsed

MOST_CHILDREN = 4
LIMIT_S = 60.0
LARGE = 1 << 18
"""Bytes from which a document goes to the child for such ones: what it costs, no small one waits for it."""
_MAIN = "import sys; sys.path[:] = sys.argv[2:]; from signal_feeds.parsing.child import main; main(int(sys.argv[1]))"


class Parser:
    """`parse` and `offers` in child processes: made when they are needed, at most as many as there are cores, or 4, and
    one more for large documents.

    A document that takes longer than `limit_s` is Failed('parse'), a child that dies over it Failed('internal'); the
    next document gets a new one. They end with this process, however it ends (at once on Linux, elsewhere after the
    document they are at), and inherit no descriptor.
    """

    def __init__(self, *, limit_s: float = LIMIT_S, children: int | None = None) -> None:
        self._limit_s = limit_s
        # A thread for each child: the kernel kills a child with the thread that made it.
        self._threads = ThreadPoolExecutor(children or min(os.cpu_count() or 1, MOST_CHILDREN), "signal-parser")
        self._large = ThreadPoolExecutor(1, "signal-parser-large")
        self._here = threading.local()
        self._all: set[_Child] = set()
        self._lock = threading.Lock()
        self._closed = False

    async def parse(self, body: bytes, content_type: str, url: str, *, now_ms: int, most: int = MOST) -> Parsed:
        """As parsing.parse."""
        answer = await self._ask(Asked(body, content_type, url, now_ms, most))
        if answer.parsed is None:
            raise Failed("internal")
        return answer.parsed

    async def offers(self, body: bytes, content_type: str, url: str) -> tuple[Offer, ...]:
        """As parsing.offers."""
        return (await self._ask(Asked(body, content_type, url))).offers

    def close(self) -> None:
        """End the children; what they are at is Failed('internal'). From any thread, and more than once."""
        with self._lock:
            self._closed = True
            children = list(self._all)
        for child in children:
            child.kill()
        for threads in (self._threads, self._large):
            threads.shutdown(wait=True)  # those that wait for a child get none: see _new
        for child in children:
            child.end()

    async def _ask(self, asked: Asked) -> Answered:
        if self._closed:
            raise Failed("internal")
        threads = self._large if len(asked.body) >= LARGE else self._threads
        answer = await asyncio.get_running_loop().run_in_executor(threads, self._serve, asked)
        if answer.failed is not None:
            raise Failed(answer.failed)
        return answer

    def _serve(self, asked: Asked) -> Answered:
        """In a thread: one document to a child. One that fails to answer is ended and not used again."""
        child: _Child | None = getattr(self._here, "child", None)
        if child is None or self._closed:
            child = self._here.child = self._new()
        try:
            return child.ask(asked, self._limit_s)
        except BaseException:
            self._here.child = None
            self._drop(child)
            raise

    def _new(self) -> "_Child":
        with self._lock:
            if self._closed:
                raise Failed("internal")
            child = _Child()
            self._all.add(child)
            return child

    def _drop(self, child: "_Child") -> None:
        with self._lock:
            self._all.discard(child)
        child.end()


class _Child:
    """A process that parses one document at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _MAIN, str(os.getpid()), *sys.path]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        os.set_blocking(self._to.fileno(), False)
        self._taking, self._given = select.poll(), select.poll()
        self._taking.register(self._to, select.POLLOUT)
        self._given.register(self._from, select.POLLIN)

    def ask(self, asked: Asked, limit_s: float) -> Answered:
        """Its answer. Raises Failed: parse after `limit_s`, internal if it died."""
        end = time.monotonic() + limit_s
        rest = memoryview(framed(msgspec.msgpack.encode(asked)))
        try:
            while rest:
                _await(self._taking, end)
                rest = rest[os.write(self._to.fileno(), rest) :]
            _await(self._given, end)
            payload = read_frame(self._from)  # it sends an answer once it has all of it
        except OSError:
            payload = None
        if payload is None:
            raise Failed("internal")
        return msgspec.msgpack.decode(payload, type=Answered)

    def kill(self) -> None:
        """End it at once, from any thread: whoever waits for its answer hears the end of the pipe."""
        self._process.kill()

    def end(self) -> None:
        """End it, and let go of its pipes."""
        self._process.kill()
        self._process.wait()
        self._from.close()
        self._to.close()


def _await(what: select.poll, end: float) -> None:
    """Until it is ready or dead. Raises Failed: parse at `end`, a monotonic time in s."""
    if not what.poll(max(0, end - time.monotonic()) * 1000):
        raise Failed("parse")
