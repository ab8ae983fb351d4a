"""Each case of docs/twice.md happens by the commands that the page shows, and as often as it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import TOP, blocks

PAGE = TOP / "docs" / "twice.md"
CASE = re.compile(r"^### (.*?)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"(?:^    \S.*\n)+", re.MULTILINE)
CASES = [
    (heading, commands)
    for heading, text in CASE.findall(PAGE.read_text("utf-8"))
    for commands in COMMANDS.findall(text)
]


def test_every_case_has_commands():
    assert {heading for heading, _ in CASES} == set(re.findall(r"^### (.*)$", PAGE.read_text("utf-8"), re.MULTILINE))


@pytest.mark.timeout(90)
@pytest.mark.parametrize(("heading", "commands"), CASES, ids=[heading for heading, _ in CASES])
def test_it_happens_as_the_page_says(heading, commands, tmp_path):
    (tmp_path / "twice.py").write_text(blocks(PAGE)[0].code, "utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash"],
        input=commands,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        # Unbuffered, one print of two processes would be several writes to one pipe.
        env=os.environ | {"PATH": path, "PYTHONUNBUFFERED": ""},
    )
    word = re.search(r"effect of (\w+)", commands)
    assert word is not None
    assert done.stdout.count(f"effect of {word[1]}\n") == (1 if '"hold"' in commands else 2), done.stdout + done.stderr
    assert ("in doubt: pay" in done.stdout) == ('"hold"' in commands)
