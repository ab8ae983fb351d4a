"""`nextdue demo`: it holds on real input, and it says so when something doesn't hold."""

import argparse
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nextdue.cli import demo, demo_app

DEMO = [sys.executable, "-m", "nextdue", "demo"]
BEGIN = datetime(2010, 11, 30, 12, tzinfo=UTC)
"""In the past, where no law can change the clocks any more."""


def run(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*DEMO, *words],
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    folder = tmp_path_factory.mktemp("demo")
    return folder / "it's here", run("--directory", "it's here", "--zones", "80", "--spread", "2", folder=folder)


def test_a_small_demo_holds(ran):
    folder, done = ran
    assert done.returncode == 0, done.stdout + done.stderr
    assert "80 of 80 files are there and whole" in done.stdout
    assert "killed 3 times in mid-run" in done.stdout
    assert "FAIL" not in done.stdout
    assert len(list((folder / "zones").rglob("*.csv"))) == 80


def test_without_a_terminal_it_says_little(ran):
    lines = [line for line in ran[1].stdout.splitlines() if "exported" in line]
    assert 2 <= len(lines) <= 10
    assert "\x1b" not in ran[1].stdout


def test_its_command_for_sqlite3_can_be_copied(ran):
    line = re.search(r"sqlite3 (.*)", ran[1].stdout)
    said = re.search(r"(\d+) attempts were cut off", ran[1].stdout)
    assert line is not None
    assert said is not None
    path, query = shlex.split(line[1])
    connection = sqlite3.connect(path)
    rows = connection.execute(query).fetchall()
    connection.close()
    outcomes = [row[2] for row in rows]
    assert outcomes.count("crashed") == int(said[1])
    assert outcomes.count("done") == len({row[0] for row in rows})


def test_it_kills_as_often_as_it_says(ran):
    log = (ran[0] / "worker.log").read_text("utf-8")
    assert [int(n) for n in re.findall(r"nextdue worker (\d+) on", log)] == [1, 2, 3, 4]


def test_a_directory_in_use_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").touch()
    done = run("--directory", "mine", folder=tmp_path)
    assert done.returncode == 2
    assert "isn't empty" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["precious"]


def test_a_worker_that_cannot_start_fails_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "COMMAND", [sys.executable, "-c", "raise SystemExit('no such luck')"])
    args = argparse.Namespace(directory=str(tmp_path / "d"), zones=3, spread=0.1)
    assert demo.demo(args) == 1
    out, err = capsys.readouterr()
    assert "no such luck" in err
    assert "FAIL 0 of 3 files" in out


def test_a_damaged_file_fails_it(tmp_path, monkeypatch, capsys):
    """A worker that writes one file badly: the demo must not be satisfied by its mere being there."""
    planted = (
        "import sys; sys.path.insert(0, '.'); import zones; good = zones.table\n"
        "zones.table = lambda zone, begin: good(zone, begin)[:-1 if zone.endswith('Cairo') else None]\n"
        "zones.nd.run()"
    )
    monkeypatch.setattr(demo, "COMMAND", [sys.executable, "-c", planted])
    monkeypatch.setattr(demo, "KILLS", 0)
    args = argparse.Namespace(directory=str(tmp_path / "d"), zones=5, spread=0.1)
    assert demo.demo(args) == 1
    assert "FAIL 4 of 5 files are there and whole: ['Africa/Cairo']" in capsys.readouterr().out


def test_the_default_directory_is_new_and_no_one_elses(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = demo._folder(None), demo._folder(None)
    assert first is not None
    assert second is not None
    assert first != second
    assert first.parent == tmp_path
    assert os.stat(first).st_mode & 0o777 == 0o700


def rows(zone: str) -> list[list[str]]:
    return [line.split(",") for line in demo_app.table(zone, BEGIN).splitlines()]


def test_the_clock_changes_of_a_zone():
    berlin = rows("Europe/Berlin")
    assert berlin[0] == ["utc", "offset_before", "offset_after", "abbreviation"]
    assert berlin[1] == ["2011-03-27T01:00:00Z", "+0100", "+0200", "CEST"]
    assert berlin[2] == ["2011-10-30T01:00:00Z", "+0200", "+0100", "CET"]
    assert berlin[-1] == ["changes", "20", "", ""]
    assert len(berlin) == 22


def test_a_zone_without_changes_and_one_with_many():
    assert rows("UTC")[1:] == [["changes", "0", "", ""]]
    # Summer time with a break for Ramadan: up to four changes a year, some of them five weeks apart.
    assert int(rows("Africa/Casablanca")[-1][1]) > 30


@pytest.mark.parametrize("zone", ["America/New_York", "Africa/Casablanca", "Australia/Lord_Howe", "Asia/Kolkata"])
def test_stepping_by_hours_finds_the_same_changes(zone):
    loaded = demo_app.load(zone)
    end, hour = BEGIN + timedelta(days=800), timedelta(hours=1)
    found, at = [], BEGIN
    while at < end:
        if at.astimezone(loaded).utcoffset() != (at + hour).astimezone(loaded).utcoffset():
            found.append(at + hour)
        at += hour
    near = [at for at in demo_app.changes(loaded, BEGIN, end) if at <= end]
    assert len(near) == len(found)
    assert all(late - hour < exact <= late for exact, late in zip(near, found, strict=True))


def test_all_zones_are_there():
    assert len(demo_app.zones()) > 500
    assert len(set(demo_app.zones())) == len(demo_app.zones())
