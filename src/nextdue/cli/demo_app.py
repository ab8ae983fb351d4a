"""The application of `nextdue demo`: one deferred export per time zone.

The demo puts a copy of this file beside its database, where a worker serves it: `nextdue worker zones:nd`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

from nextdue import Context, Nextdue

HERE = Path(__file__).parent
YEARS = timedelta(days=3_653)
DAY = timedelta(days=1)
"""No zone changes its clocks twice within a day."""

nd = Nextdue(HERE / "demo.db")


@nd.task(keep_result=True)
def export(ctx: Context, zone: str, begin: datetime) -> str:
    """Write the zone's clock changes of the ten years after `begin` to a CSV."""
    path, text = csv_path(zone), table(zone, begin)
    path.parent.mkdir(parents=True, exist_ok=True)
    with ctx.replace(path) as file:
        file.write(text)
    return f"{zone}: {len(text.splitlines()) - 2} changes"


def csv_path(zone: str) -> Path:
    """Where a zone's table lies: its name holds slashes, so there are folders."""
    return HERE / "zones" / f"{zone}.csv"


def table(zone: str, begin: datetime) -> str:
    """The whole file: a header, one line for each change, and a last line that counts them."""
    found = load(zone)
    lines = ["utc,offset_before,offset_after,abbreviation"]
    for at in changes(found, begin, begin + YEARS):
        before, after = (at - timedelta(seconds=1)).astimezone(found), at.astimezone(found)
        lines.append(f"{at:%Y-%m-%dT%H:%M:%SZ},{before:%z},{after:%z},{after.tzname()}")
    return "\n".join([*lines, f"changes,{len(lines) - 1},,", ""])


def changes(zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """The instants (UTC, whole seconds) at which the offset or its abbreviation changes."""

    def clock(at: datetime) -> tuple[timedelta | None, str | None]:
        local = at.astimezone(zone)
        return local.utcoffset(), local.tzname()

    before = clock(begin)
    while begin < end:
        after = clock(begin + DAY)
        if after != before:
            low, high = begin, begin + DAY
            while high - low > timedelta(seconds=1):
                middle = (low + (high - low) / 2).replace(microsecond=0)
                low, high = (middle, high) if clock(middle) == before else (low, middle)
            yield high
        begin, before = begin + DAY, after


def load(zone: str) -> ZoneInfo:
    """A zone of the tzdata package, whatever the system's own data says."""
    with resources.files("tzdata").joinpath("zoneinfo", zone).open("rb") as file:
        return ZoneInfo.from_file(file, key=zone)


def zones() -> list[str]:
    """The names of all zones."""
    return resources.files("tzdata").joinpath("zones").read_text("utf-8").split()


def now() -> datetime:
    """The instant that all tables begin with, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)
