"""Why an attempt failed: a fixed dictionary. The database keeps the code and nothing else of an error."""

import sqlite3
from typing import Literal, NamedTuple, get_args

Reason = Literal[
    "dns", "connect", "tls", "timeout", "address_refused", "redirect_refused", "too_large", "bad_encoding",
    "http_auth", "http_missing", "http_gone", "http_throttled", "http_client", "http_server", "bad_304", "empty",
    "not_a_feed", "parse", "robots", "store", "internal",
]  # fmt: skip
Kind = Literal["transient", "publisher", "policy", "local"]
"""Passes by itself; the publisher must mend it; a rule of ours forbade it; our own fault."""


class Words(NamedTuple):
    """What a reason means."""

    kind: Kind
    en: str
    ru: str


WORDS: dict[Reason, Words] = {
    "dns": Words("transient", "the host's name leads nowhere", "имя сервера не найдено"),
    "connect": Words("transient", "no connection", "нет соединения"),
    "tls": Words("publisher", "the certificate or the encryption is no good", "ошибка сертификата или шифрования"),
    "timeout": Words("transient", "too slow", "слишком медленно"),
    "address_refused": Words(
        "policy",
        "the address isn't on the open internet (see allow_net)",
        "адрес не из открытого интернета (см. allow_net)",
    ),
    "redirect_refused": Words("policy", "a redirect that isn't followed", "переадресация, по которой мы не идём"),
    "too_large": Words("publisher", "too large", "слишком большой ответ"),
    "bad_encoding": Words("publisher", "broken or cut off in transit", "ответ повреждён или оборван"),
    "http_auth": Words("publisher", "asks for a password", "требует пароль"),
    "http_missing": Words("publisher", "not found", "не найдено"),
    "http_gone": Words("publisher", "gone for good", "удалено навсегда"),
    "http_throttled": Words("transient", "asks for fewer requests", "просит обращаться реже"),
    "http_client": Words("publisher", "refuses the request", "сервер отклонил запрос"),
    "http_server": Words("transient", "the server has a fault", "ошибка сервера"),
    "bad_304": Words(
        "publisher", "says 'not modified' of what we don't have", "отвечает «не изменилось» на то, чего у нас нет"
    ),
    "empty": Words("publisher", "an empty answer", "пустой ответ"),
    "not_a_feed": Words("publisher", "not a feed", "это не лента"),
    "parse": Words("publisher", "a feed that can't be read", "ленту не удалось прочитать"),
    "robots": Words("policy", "robots.txt forbids it", "запрещено robots.txt"),
    "store": Words("local", "our own file couldn't be written", "не удалось записать в нашу базу"),
    "internal": Words("local", "a fault of our own", "наша внутренняя ошибка"),
}
assert set(WORDS) == set(get_args(Reason))


def kind_of(reason: str) -> Kind:
    """Who can mend it. An unknown code is of an older or newer Signal."""
    return next((words.kind for code, words in WORDS.items() if code == reason), "local")


class Failed(Exception):
    """An attempt failed, for this reason. `status`: of the HTTP answer; `retry_after_s`: what it asked for."""

    def __init__(self, reason: Reason, *, status: int | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.status, self.retry_after_s = reason, status, retry_after_s


def reason_of(error: BaseException) -> Reason:
    """The one place where an exception becomes a reason; one that nobody knows is `internal`.

    >>> reason_of(TimeoutError()), reason_of(KeyError("x"))
    ('timeout', 'internal')
    """
    import aiohttp

    from nextdue import StoreError

    if isinstance(error, Failed):
        return error.reason
    kinds: tuple[tuple[type[BaseException], Reason], ...] = (
        (TimeoutError, "timeout"),
        (aiohttp.ClientConnectorDNSError, "dns"),
        (aiohttp.ClientSSLError, "tls"),
        (aiohttp.ClientConnectionError, "connect"),
        (aiohttp.ClientPayloadError, "bad_encoding"),
        (aiohttp.ClientResponseError, "http_server"),
        # An address in a spelling such as 127.1 or 2130706433, which a resolver would take for one.
        (aiohttp.InvalidURL, "address_refused"),
        (sqlite3.Error, "store"),
        (StoreError, "store"),
    )
    return next((reason for kind, reason in kinds if isinstance(error, kind)), "internal")
