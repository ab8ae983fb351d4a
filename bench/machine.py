"""What the figures were measured on; a figure without it says nothing."""

from __future__ import annotations

import os
import platform
import sqlite3
from datetime import datetime
from importlib import metadata
from pathlib import Path

from bench.rooms import file_system, fsync_cost_ms


def describe(folder: Path) -> dict[str, str]:
    """In the order in which it is printed."""
    return {
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z"),
        "cores": f"{len(os.sched_getaffinity(0))} ({_processor()})",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "system": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": sqlite3.sqlite_version,
        "file system": file_system(folder),
        "fsync": f"{fsync_cost_ms(folder):.2f} ms (4 KiB, median of 50)",
        "nextdue": _version("nextdue"),
        "huey": _version("huey"),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
