"""Whether anything collects, for whoever watches: a person, a monitor, a service manager."""

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from signal_feeds.errors import NotAFolder
from signal_feeds.store import pages
from signal_feeds.web.view import Site, log, rows

LATE_S = 300
"""So long something may be overdue while nothing collects."""


def healthz(site: Site, request: Request) -> Response:
    """200: a worker collects, or nothing is overdue by more than 5 minutes. 503: nothing collects though something is,
    or there is no database that can be read.

    With a worker it is 200 however late a source is: one without --network leaves those of the network overdue, and a
    host with thousands of feeds takes its time. `last_attempt_s` tells how long ago anything was asked.
    """
    collecting = is_held(site.lock)
    now = site.now_ms()
    said: dict[str, Any] = {"collecting": collecting}
    try:
        with rows(site.path) as tx:
            overdue, last = pages.most_overdue(tx, now), pages.last_attempt(tx)
    except (NotAFolder, sqlite3.Error) as error:
        log.error("%s", error)
        return JSONResponse(said | {"database": False}, 503, {"Cache-Control": "no-store"})
    late_s = None if overdue is None else (now - overdue.due) // 1000
    said |= {
        "database": True,
        "overdue": None if overdue is None else {"source": overdue.source, "seconds": late_s},
        "last_attempt_s": None if last is None else (now - last) // 1000,
    }
    healthy = collecting or late_s is None or late_s <= LATE_S
    return JSONResponse(said, 200 if healthy else 503, {"Cache-Control": "no-store"})


def is_held(lock: Path) -> bool:
    """Whether a worker holds the lock file, which is neither made nor written nor kept.

    A shared lock is tried for and let go at once. A worker that begins in just those microseconds finds it taken.
    """
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
