"""What a process used, read from /proc: context switches, CPU, memory. Linux only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    switches: int
    cpu_ns: int

    def since(self, before: Usage) -> Usage:
        return Usage(self.switches - before.switches, self.cpu_ns - before.cpu_ns)


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for thread in _threads(pid):
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            found += tree(int(child))
    return found


def usage(pid: int) -> Usage:
    """Switches (given up and taken away) and CPU of every thread of the process's tree since their starts."""
    switches = cpu_ns = 0
    for member in tree(pid):
        for thread in _threads(member):
            try:
                switches += _switches(thread)
                cpu_ns += _cpu_ns(thread)
            except OSError:
                continue  # a thread that ended between the listing and the reading
    return Usage(switches, cpu_ns)


def pss_mb(pid: int) -> float:
    """Proportional set size of the tree: memory shared with other processes is divided among them."""
    kilobytes = 0
    for member in tree(pid):
        for line in Path(f"/proc/{member}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                kilobytes += int(line.split()[1])
    return kilobytes / 1024


def rss_mb(pid: int) -> float:
    """Resident set size of one process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return []


def _switches(thread: Path) -> int:
    lines = (thread / "status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def _cpu_ns(thread: Path) -> int:
    try:
        return int((thread / "schedstat").read_text().split()[0])
    except OSError:
        # Kernels without schedstats count only in ticks of 10 ms.
        fields = (thread / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
