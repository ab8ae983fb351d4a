"""Whatever the documents show works, and whatever they point at is there."""

import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from nextdue import Nextdue
from nextdue.cli.parser import make_parser
from tests.docs.pages import PAGES, READMES, TOP, anchors, blocks, headings, links, prose, shell_lines, where

RUNNER = Path(__file__).with_name("run_page.py")
WITH_CODE = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]
COMMANDS = [(where(page), line) for page in PAGES for line in shell_lines(page) if line.startswith("nextdue ")]
QUERIES = [(where(page), line) for page in PAGES for line in shell_lines(page) if line.startswith("sqlite3 ")]


def run_page(page: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", RUNNER, page],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize("page", WITH_CODE, ids=where)
def test_the_code_of_a_page_runs(page, tmp_path):
    done = run_page(page, tmp_path)
    assert done.returncode == 0, done.stderr


def test_code_that_fails_is_found_at_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```python\nx = 1\n```\n\n```python\nassert x == 1\nassert x == 2\n```\n")
    done = run_page(page, tmp_path)
    assert done.returncode == 1
    assert 'page.md", line 9' in done.stderr


def test_the_pages_with_code_are_found():
    assert {"README.md", "README.ru.md", "docs/tasks.md", "docs/sql.md"} <= {where(page) for page in WITH_CODE}


def accepted(words: list[str]) -> bool:
    try:
        return make_parser().parse_args(words).run is not None
    except SystemExit:
        return False


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_in_a_block_is_one(page, line):
    words = shlex.split(re.sub(r"\s*(&|\||>|&&).*$", "", line))
    assert accepted(words[1:]), f"{page} shows: {line}"


def test_a_command_that_is_none_is_refused():
    assert COMMANDS
    assert not accepted(["worker", "shop:nd", "--forever"])
    assert not accepted(["sing"])


@pytest.mark.parametrize("page", PAGES, ids=where)
def test_a_command_in_the_text_is_known(page):
    for command in re.findall(r"`nextdue ([a-z]+)[ `]", prose(page)):
        assert accepted([command, "1"]) or accepted([command]), f"{where(page)} speaks of nextdue {command}"


@pytest.mark.parametrize(("page", "line"), QUERIES)
def test_a_query_for_sqlite3_runs(page, line, tmp_path):
    nd = Nextdue(tmp_path / "shop.db")
    nd.task(name="receipt")(lambda: None).enqueue()
    words = shlex.split(line)
    assert words[:2] == ["sqlite3", "shop.db"], f"{page} shows: {line}"
    query = words[2].replace("'backup.db'", f"'{tmp_path / 'backup.db'}'")
    connection = sqlite3.connect(nd.path, isolation_level=None)
    connection.execute(query).fetchall()
    connection.close()
    nd.close()


@pytest.mark.parametrize("page", PAGES, ids=where)
def test_a_link_leads_somewhere(page):
    for link in links(page):
        path, _, fragment = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{where(page)} links to {link}"
        if fragment:
            assert fragment in anchors(target), f"{where(page)} links to {link}"


def test_both_readmes_have_the_same_shape():
    english, russian = READMES
    assert len(headings(english)) == len(headings(russian)) > 5
    assert [b.language for b in blocks(english)] == [b.language for b in blocks(russian)]
    assert [link.partition("#")[0] for link in links(english)] == [link.partition("#")[0] for link in links(russian)]
    assert shell_lines(english) == shell_lines(russian)


def test_every_page_is_linked_from_somewhere():
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page)}
    folders = {path for path in linked if path.is_dir()}
    for page in (TOP / "docs").rglob("*.md"):
        assert page in linked or page.parent in folders, f"nothing links to {where(page)}"
