import json
from pathlib import Path

import pytest

from apps.signal.tests.desk import Desk


@pytest.fixture
def desk(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Desk:
    desk = Desk(tmp_path, capfd)
    desk.db.says(desk.news, "a", text="One.")
    fingerprint = desk("queue").out.split("--fingerprint ")[1].split()[0]
    assert desk("approve", "1", "--fingerprint", fingerprint).code == 0
    return desk


def texts(out: Path) -> list[str]:
    return [item["content_text"] for item in json.loads((out / "feed.json").read_text())["items"]]


def test_publish_writes_three_files_and_again_changes_none(desk: Desk) -> None:
    out = desk.folder / "out"
    first = desk("publish", str(out), "--url", "https://mine.example/feeds", "--title", "Mine & more")
    assert first.code == 0
    assert sorted(path.name for path in out.iterdir()) == ["atom.xml", "feed.json", "index.html"]
    assert first.out.count("written") == 3
    assert "1 approved entry" in first.out
    assert texts(out) == ["One."]
    assert 'href="https://mine.example/feeds/atom.xml"' in (out / "atom.xml").read_text()
    assert "Mine &amp; more" in (out / "index.html").read_text()
    again = desk("publish", str(out), "--url", "https://mine.example/feeds/", "--title", "Mine & more")
    assert again.out.count("as it was") == 3


@pytest.mark.parametrize(("settings", "kept"), [("", []), ("keep_approved = true\n", ["One."])], ids=["out", "kept"])
def test_a_changed_entry_is_withdrawn_or_kept(desk: Desk, settings: str, kept: list[str]) -> None:
    (desk.folder / "signal.toml").write_text(settings)
    desk.db.says(desk.news, "a", text="Two.")
    assert desk("publish", str(desk.folder / "out")).code == 0
    assert texts(desk.folder / "out") == kept


def test_what_can_not_be_written_is_told_and_nothing_changes(desk: Desk) -> None:
    (desk.folder / "file").write_text("mine")
    for out in (desk.folder / "file", desk.folder / "no" / "where"):
        said = desk("publish", str(out))
        assert (said.code, said.out) == (1, "")
        assert f"signal: {out} can't be written" in said.err
    assert (desk.folder / "file").read_text() == "mine"
    assert not (desk.folder / "no").exists()


def test_a_blank_title_is_refused(desk: Desk) -> None:
    assert "a feed has a title" in desk("publish", str(desk.folder / "out"), "--title", " ").err
    assert not (desk.folder / "out").exists()


def test_a_url_that_is_none_is_refused(desk: Desk) -> None:
    said = desk("publish", str(desk.folder / "out"), "--url", "mine.example")
    assert said.code == 2
    assert not (desk.folder / "out").exists()
