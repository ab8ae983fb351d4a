"""What an answer's headers say of when to ask again. Nonsense says nothing. RFC 9110 and 9111."""

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_tz

MOST_S = 2**31 - 1
"""More seconds than that are so many (RFC 9111, 1.2.2)."""
_DIGITS = re.compile(r"[0-9]+")
_LONGEST_DATE = 64


def fresh_s(cache_control: str, age: str | None, expires: str | None, date: str | None, now_s: int) -> int:
    """How many seconds an answer stays fresh: max-age minus Age, else Expires minus Date; 0 if it doesn't say.

    no-cache and no-store are 0 whatever else is said; s-maxage is for shared caches, which this is none.

    >>> fresh_s("public, max-age=600", "60", None, None, 0)
    540
    """
    if cache_control:
        said = _directives(cache_control)
        if "no-cache" in said or "no-store" in said:
            return 0
        if "max-age" in said:
            return max(0, (seconds(said["max-age"]) or 0) - (seconds(age or "") or 0))
    if expires is None:
        return 0
    until, sent = http_date(expires), http_date(date or "")
    if until is None:
        return 0
    return min(max(0, until - (now_s if sent is None else sent)), MOST_S)


def retry_after_s(value: str | None, date: str | None, now_s: int) -> int | None:
    """Retry-After in seconds from now: a number of them, or an instant, which is measured against the answer's Date.

    >>> [retry_after_s(value, None, 0) for value in ("120", "Thu, 01 Jan 1970 00:01:00 GMT", "-1")]
    [120, 60, None]
    """
    if value is None:
        return None
    after = seconds(value)
    if after is not None:
        return after
    until, sent = http_date(value), http_date(date or "")
    if until is None:
        return None
    after = until - (now_s if sent is None else sent)
    return min(after, MOST_S) if after >= 0 else None


def seconds(text: str) -> int | None:
    """delta-seconds, or None for what is none.

    >>> seconds(" 60 "), seconds("9" * 5000) == MOST_S, seconds("1.5"), seconds("-1"), seconds("")
    (60, True, None, None, None)
    """
    text = text.strip()
    if not _DIGITS.fullmatch(text):
        return None
    return min(int(text), MOST_S) if len(text) <= 10 else MOST_S


def http_date(text: str) -> int | None:
    """An HTTP-date in any of its three forms, as seconds since 1970, or None for what is none.

    >>> http_date("Sun, 06 Nov 1994 08:49:37 GMT") == http_date("Sun Nov  6 08:49:37 1994") == 784111777
    True
    """
    if not text or len(text) > _LONGEST_DATE:
        return None
    try:
        parts = parsedate_tz(text)
        if parts is None:
            return None
        at = datetime(*parts[:6], tzinfo=UTC) - timedelta(seconds=parts[9] or 0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return int(at.timestamp())


def _directives(text: str) -> dict[str, str]:
    """Cache-Control's, by names in lower case; of two with one name the first counts."""
    said: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        said.setdefault(name.strip().lower(), value.strip().strip('"'))
    return said
