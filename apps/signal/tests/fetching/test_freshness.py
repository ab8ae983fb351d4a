"""Never sooner than max-age (minus Age) or Expires says; Retry-After in both forms; nonsense says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.signal.tests.behaviours import DAY, answer
from apps.signal.tests.fetching.conftest import Fetch
from apps.signal.tests.server import Server
from signal_feeds.fetching.freshness import MOST_S, fresh_s, http_date, retry_after_s, seconds

LATER = "Tue, 01 Dec 2026 01:00:00 GMT"
CASES: list[tuple[int, dict[str, str]]] = [
    (0, {}),
    (600, {"cache_control": "max-age=600"}),
    (600, {"cache_control": "public, MAX-AGE = 600 , must-revalidate"}),
    (600, {"cache_control": 'max-age="600"'}),
    (600, {"cache_control": "s-maxage=9999, max-age=600"}),
    (0, {"cache_control": "s-maxage=9999"}),
    (540, {"cache_control": "max-age=600", "age": "60"}),
    (0, {"cache_control": "max-age=600", "age": "9999"}),
    (600, {"cache_control": "max-age=600", "age": "-60"}),
    (600, {"cache_control": "max-age=600", "age": "old"}),
    (0, {"cache_control": "no-cache, max-age=600"}),
    (0, {"cache_control": "no-store, max-age=600", "expires": LATER}),
    (0, {"cache_control": 'no-cache="set-cookie", max-age=600'}),
    (0, {"cache_control": "max-age=soon"}),
    (0, {"cache_control": "max-age=-600"}),
    (0, {"cache_control": "max-age"}),
    (0, {"cache_control": "max-age=0", "expires": LATER}),
    (0, {"cache_control": "max-age=soon", "expires": LATER}),
    (MOST_S, {"cache_control": "max-age=" + "9" * 5000}),
    (3600, {"expires": LATER, "date": DAY}),
    (3600, {"expires": LATER, "date": DAY, "cache_control": "public"}),
    (3600, {"expires": "Tuesday, 01-Dec-26 01:00:00 GMT", "date": "Tue Dec  1 00:00:00 2026"}),
    (0, {"expires": DAY, "date": LATER}),
    (0, {"expires": "0", "date": DAY}),
    (0, {"expires": "-1"}),
    (0, {"expires": "never"}),
    (0, {"expires": "Tue, 99 Dec 2026 99:00:00 GMT"}),
]


@pytest.mark.parametrize(("expected", "headers"), CASES, ids=lambda value: value if isinstance(value, int) else "")
@pytest.mark.parametrize("status", [200, 304])
def test_hints_of_an_answer(status: int, expected: int, headers: dict[str, str], server: Server, fetch: Fetch) -> None:
    server.put("/x", answer(b"body", status, **headers))
    assert fetch(server.url("/x")).fresh_s == expected


def test_several_lines_of_cache_control_are_one(server: Server, fetch: Fetch) -> None:
    server.put("/x", answer(b"body", cache_control="public\r\nCache-Control: max-age=60"))
    assert fetch(server.url("/x")).fresh_s == 60


def test_expires_without_date_is_measured_by_our_clock() -> None:
    now = http_date(DAY)
    assert now is not None
    assert fresh_s("", None, LATER, None, now) == fresh_s("", None, LATER, "yesterday", now) == 3600


@pytest.mark.parametrize(
    "text",
    ["Tue, 01 Dec 2026 00:00:00 GMT", "Tuesday, 01-Dec-26 00:00:00 GMT", "Tue Dec  1 00:00:00 2026",
     "Tue, 01 Dec 2026 00:00:00 UTC", "Tue, 1 Dec 2026 03:00:00 +0300", "tue, 01 dec 2026 00:00:00 gmt"],
)  # fmt: skip
def test_dates(text: str) -> None:
    assert http_date(text) == 1_796_083_200


@pytest.mark.parametrize(
    "text",
    ["", "0", "now", "Tue, 32 Dec 2026 00:00:00 GMT", "Tue, 01 Dec 99999 00:00:00 GMT", "Tue, 01 Dec 2026 25:00:00 GMT",
     "Tue, 01 Dec 2026 00:00:00 +9999999999", "1796083200", "\u0661", "x" * 100_000],
)  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    assert http_date(text) is None


@given(st.text(max_size=60))
def test_anything_may_stand_there(text: str) -> None:
    for found in (http_date(text), seconds(text), retry_after_s(text, text, 0)):
        assert found is None or isinstance(found, int)
    assert 0 <= fresh_s(text, text, text, text, 0) <= MOST_S
    assert 0 <= (retry_after_s(text, None, 0) or 0) <= MOST_S
