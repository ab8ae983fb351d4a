"""`import nextdue` costs a program only what it needs at once."""

import subprocess
import sys

HEAVY = {"argparse", "asyncio", "importlib.metadata", "rich", "tzdata", "unittest", "zoneinfo"}


def heavy_modules(statement: str, folder: str = "") -> set[str]:
    """Heavy modules a fresh interpreter loads for the statement, without those its start alone loads."""
    script = (
        f"import sys; sys.path.insert(0, {folder!r}); before = set(sys.modules)\n"
        f"{statement}\n"
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return HEAVY & set(done.stdout.split())


def test_importing_nextdue_is_light():
    assert heavy_modules("import nextdue") == set()


def test_a_heavy_import_is_found(tmp_path):
    tmp_path.joinpath("planted.py").write_text("import asyncio, importlib.metadata\n")
    assert {"asyncio", "importlib.metadata"} <= heavy_modules("import planted", str(tmp_path))


def test_every_heavy_module_is_one_that_can_be_imported():
    assert heavy_modules(f"import {', '.join(HEAVY)}") == HEAVY
