import time
from pathlib import Path

import pytest

from apps.signal.tests.desk import Desk

LIST = """<?xml version="1.0" encoding="utf-8"?>
<opml version="2.0"><body><outline text="News">
<outline text="Alpha" xmlUrl="https://a.example/feed"/>
<outline text="Alpha again" xmlUrl="http://a.example/feed/"/>
<outline text="Broken" xmlUrl="nope"/></outline>
<outline text="\u202eBeta" xmlUrl="https://b.example/feed"/>
"""
TAIL = "</body></opml>"


@pytest.fixture
def desk(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capfd)


def wrote(desk: Desk, text: str) -> str:
    path = desk.folder / "list.opml"
    path.write_text(text, "utf-8")
    return str(path)


def names(desk: Desk) -> list[str]:
    return [id for (id,) in desk.ask("SELECT id FROM source WHERE origin = 'opml' ORDER BY id")]


def test_good_ones_come_in_and_the_rest_is_listed(desk: Desk) -> None:
    said = desk("import", wrote(desk, LIST + TAIL))
    assert (said.code, said.err) == (0, "")
    assert said.lines[:2] == ["2 sources added; the first requests are spread over 30 minutes.", "2 left out:"]
    assert said.lines[2] == ("  line 4  Alpha again: http://a.example/feed/ is there already: it is the source 'alpha'")
    assert said.lines[3].startswith("  line 5  Broken: 'nope' isn't a whole URL")
    assert names(desk) == ["alpha", "beta"]


def test_what_comes_before_a_break_comes_in(desk: Desk) -> None:
    said = desk("import", wrote(desk, LIST + '<outline text="cut'))
    assert said.code == 1
    assert "broken XML in line 7: unclosed token" in said.err
    assert names(desk) == ["alpha", "beta"]


@pytest.mark.parametrize(
    "text", ["", "<html/>", "<opml><body/></opml>", "\x7fELF"], ids=["empty", "html", "none", "binary"]
)
def test_a_file_without_feeds_is_a_fault(desk: Desk, text: str) -> None:
    said = desk("import", wrote(desk, text))
    assert (said.code, said.out) == (1, "No new source.\n")
    assert said.err


def test_a_file_that_is_not_there(desk: Desk) -> None:
    said = desk("import", str(desk.folder / "missing.opml"))
    assert said.code == 2
    assert "missing.opml can't be read (No such file or directory)" in said.err


def test_ten_thousand_are_there_in_seconds_and_asked_over_half_an_hour(desk: Desk) -> None:
    """A well-behaved poller, 13: adding 10,000 sources by OPML spreads the first requests over 30 min."""
    lines = (f'<outline text="Feed {n}" xmlUrl="https://h{n % 500}.example/{n}"/>\n' for n in range(10_000))
    begun = time.time()
    assert desk("import", wrote(desk, f"<opml><body>{''.join(lines)}{TAIL}")).code == 0
    ended = time.time()
    assert ended - begun < 30
    dues = [due for (due,) in desk.ask("SELECT next_due FROM sources WHERE id LIKE 'feed-%' ORDER BY next_due")]
    assert len(dues) == 10_000
    assert begun - 1 <= dues[0]
    assert dues[-1] <= ended + 1_801
    ten_minutes = [sum(begun + part * 600 <= due < begun + (part + 1) * 600 for due in dues) for part in range(3)]
    assert min(ten_minutes) > 3_000


def test_a_list_goes_to_another_folder_as_it_is(desk: Desk, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    desk("import", wrote(desk, LIST + TAIL))
    path = desk.folder / "out.opml"
    said = desk("export", str(path))
    assert (said.code, said.out) == (0, f"4 sources written to {path}\n")  # with github-blog and news
    assert desk("export", "-").out == path.read_text()
    (tmp_path / "other").mkdir()
    other = Desk(tmp_path / "other", capfd)
    assert "2 sources added" in other("import", str(path)).out
    assert other("export", "-").out == path.read_text()


def test_export_into_a_folder_that_is_missing(desk: Desk) -> None:
    said = desk("export", str(desk.folder / "no" / "out.opml"))
    assert said.code == 1
    assert "there is no folder" in said.err
    assert not (desk.folder / "no").exists()
