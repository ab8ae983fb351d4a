"""What is defined wrongly is refused where it is defined, says what is wrong, and leaves nothing in the file."""

import math
from datetime import date, datetime, timedelta

import pytest

from nextdue import Cron, Every
from nextdue.errors import NextdueError
from tests.schedules.conftest import NOON

NAIVE = datetime(2027, 1, 1)  # noqa: DTZ001


def plain() -> None: ...


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"jitter": -1}, "jitter must not be negative"),
        ({"jitter": math.nan}, "jitter must be finite"),
        ({"jitter": "soon"}, "jitter: can't read 'soon'"),
        ({"missed_window": "-5m"}, "missed_window must not be negative"),
        ({"missed_limit": 0}, "missed_limit must be a whole number from 1"),
        ({"missed": "run"}, 'missed must be "run_once", "skip" or "all"'),
        ({"count": 0}, "count must be a whole number from 1"),
        ({"count": True}, "count must be a whole number from 1"),
        ({"count": 1.5}, "count must be a whole number from 1"),
        ({"starting": NAIVE}, "is naive"),
        ({"ending": NAIVE}, "is naive"),
        ({"ending": date(2027, 1, 1)}, "must be an aware datetime"),
        ({"starting": NOON, "ending": NOON - timedelta(seconds=1)}, "before it starts"),
        ({"key": ""}, "a schedule's key must have 1 to 200 characters"),
        ({"key": 5}, "a schedule's key must be a str"),
        ({"args": "x"}, "args is a tuple of arguments, not 'x'"),
        ({"args": (1, 2)}, "2 arguments given"),
        ({"kwargs": [1]}, "kwargs is a dict of arguments"),
        ({"kwargs": {"b": 1}}, "unexpected keyword argument 'b'"),
    ],
)
def test_options_of_a_schedule(app, options, says):
    nd = app()

    @nd.task
    def work(a: int = 1) -> None: ...

    with pytest.raises(NextdueError, match=says):
        nd.schedules.put(work, Cron("0 0 * * *"), **options)
    with pytest.raises(NextdueError, match=says):
        nd.cron("0 0 * * *", **options)(work)
    assert nd.schedules.list() == []
    assert nd.schedules.declared() == []


@pytest.mark.parametrize("task", [plain, None, 5, Every])
def test_what_is_no_task(app, task):
    nd = app()
    for do in (
        lambda: nd.schedules.put(task, Every("1h")),
        lambda: nd.schedules.pause(task),
        lambda: nd.schedules.resume(task),
        lambda: nd.schedules.remove(task),
    ):
        with pytest.raises(NextdueError, match="only a task can have schedules"):
            do()


@pytest.mark.parametrize(
    ("expr", "field", "part"),
    [
        ("60 * * * *", "minute", "'60'"),
        ("* 24 * * *", "hour", "'24'"),
        ("* * 0 * *", "day-of-month", "'0'"),
        ("* * * 13 *", "month", "'13'"),
        ("* * * * 8", "day-of-week", "'8'"),
        ("60 * * * * *", "second", "'60'"),
        ("*/0 * * * *", "minute", "a step of 0"),
        ("* 5-3 * * *", "hour", "ends before it begins"),
        ("0 0 31 2 *", "day-of-month", "never"),
    ],
)
def test_a_wrong_expression_names_the_field_and_what_is_wrong(app, expr, field, part):
    nd = app()
    with pytest.raises(ValueError, match=part) as refused:
        nd.cron(expr)
    assert f" {field}" in str(refused.value)
