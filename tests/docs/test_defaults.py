"""The table of defaults in docs/tasks.md is what the code says; NEXTDUE_WRITE_DOCS=1 writes it anew."""

import inspect
import os

from nextdue import Nextdue, Retry, calls, due
from nextdue.codec import MAX_BYTES
from nextdue.sqlite import alarm, database, store
from nextdue.task import KEEP_RESULT, MAX_MESSAGE, MAX_NAME, PRIORITIES, Options
from tests.docs.pages import TOP

PAGE = TOP / "docs" / "tasks.md"
BEGIN, END = "<!-- defaults -->\n", "<!-- /defaults -->"


def span(ms: float) -> str:
    for unit, size in (("day", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms >= size and ms % size == 0:
            count = int(ms // size)
            return f"{count:,} {unit}{'s' if unit == 'day' and count > 1 else ''}"
    return f"{int(ms)} ms"


def default(function: object, name: str) -> object:
    return inspect.signature(function).parameters[name].default  # type: ignore[arg-type]


def table() -> str:
    options, retry = Options(name="x"), Retry()
    grace = default(Nextdue.working, "grace")
    assert isinstance(grace, int)
    rows = [
        ("`lease`", f"{span(options.lease_ms)}, renewed after a third of it"),
        ("`time_limit`", "none" if options.time_limit_ms is None else span(options.time_limit_ms)),
        ("`retry`: `base`, `cap`", f"{span(retry.base_ms)} doubling, at most {span(retry.cap_ms)}"),
        ("`retry`: `jitter`", f"0 to {span(retry.jitter_ms)}"),
        ("`retry`: `limit`", f"{retry.limit} failures"),
        ("crashes until a task is dead", f"{due.MAX_CRASHES}, the last one alone"),
        ("due again after a crash", f"{span(due.crash_backoff_ms(1))}, doubling"),
        ("`queue`, `priority`", f"`{options.queue!r}`, {options.priority} ({PRIORITIES[0]} to {PRIORITIES[-1]})"),
        ("`keep_result`", f"{options.keep_result}; `True` is {span(KEEP_RESULT.total_seconds() * 1000)}"),
        ("`remember`", span(calls.REMEMBER.total_seconds() * 1000)),
        ("`concurrency`", f"{default(Nextdue.working, 'concurrency')} threads"),
        ("`loop`", f"{default(Nextdue.working, 'loop')} coroutines"),
        ("`processes`", "one for each CPU" if default(Nextdue.working, "processes") is None else "?"),
        ("`grace`", span(grace * 1000)),
        ("claimed at once", f"at most {due.MAX_CLAIMED}"),
        ("run history", f"{store.KEEP_ROWS:,} lines, {span(store.KEEP_MS)}"),
        ("wait for the write lock", span(database.WAIT_S * 1000)),
        ("longest sleep on Linux", span(alarm.LONGEST_S * 1000)),
        ("size of the `-wal` at which it is moved into the database", f"{database.WAL_BYTES >> 20} MB"),
        ("arguments, result", f"at most {MAX_BYTES >> 20} MiB of JSON each"),
        ("a name or a key", f"at most {MAX_NAME} characters"),
        ("a failure's message", f"cut to {MAX_MESSAGE:,} characters"),
    ]
    return "\n".join(["| what | default |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows), ""])


def test_the_table_of_defaults_is_what_the_code_says():
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    shown, after = rest.split(END)
    if os.environ.get("NEXTDUE_WRITE_DOCS"):
        PAGE.write_text(before + BEGIN + table() + END + after, "utf-8")
        return
    assert shown == table(), "run it again with NEXTDUE_WRITE_DOCS=1 and look at the difference"


def test_spans_are_written_as_people_do():
    assert [span(ms) for ms in (250, 1_000, 90_000, 3_600_000, 86_400_000, 30 * 86_400_000)] == [
        "250 ms",
        "1 s",
        "90 s",
        "1 h",
        "1 day",
        "30 days",
    ]
