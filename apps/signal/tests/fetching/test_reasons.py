"""One place maps exceptions to reasons: every error of aiohttp that a fetch may meet is there."""

import errno
import sqlite3
import ssl
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from nextdue import StoreError
from signal_feeds.reasons import Failed, Reason, reason_of

KEY: Any = SimpleNamespace(host="h", port=1, ssl=True, is_ssl=True)
INFO: Any = SimpleNamespace(real_url="u", url="u", method="GET", headers={})
NO_HOST = OSError(errno.ENOENT, "no such host")
ERRORS: list[tuple[BaseException, Reason]] = [
    (TimeoutError(), "timeout"),
    (aiohttp.ServerTimeoutError(), "timeout"),
    (aiohttp.ConnectionTimeoutError(), "timeout"),
    (aiohttp.SocketTimeoutError(), "timeout"),
    (aiohttp.ClientConnectorDNSError(KEY, NO_HOST), "dns"),
    (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "no")), "tls"),
    (aiohttp.ClientConnectorCertificateError(KEY, ssl.CertificateError("no")), "tls"),
    (aiohttp.ClientConnectorError(KEY, ConnectionRefusedError()), "connect"),
    (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), "connect"),
    (aiohttp.ClientConnectionResetError(), "connect"),
    (aiohttp.ServerDisconnectedError(), "connect"),
    (aiohttp.ClientPayloadError(), "bad_encoding"),
    (aiohttp.ClientResponseError(INFO, ()), "http_server"),
    (aiohttp.InvalidURL("http://127.1/"), "address_refused"),
    (aiohttp.InvalidUrlClientError("http://127.1/"), "address_refused"),
    (sqlite3.OperationalError("locked"), "store"),
    (StoreError("full"), "store"),
    (Failed("robots"), "robots"),
    (KeyError("x"), "internal"),
    (MemoryError(), "internal"),
    (aiohttp.ClientError(), "internal"),
]


@pytest.mark.parametrize(("error", "reason"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_reason_of(error: BaseException, reason: Reason) -> None:
    """Rule last_error: a code of the fixed dictionary, mapped at one place."""
    assert reason_of(error) == reason
