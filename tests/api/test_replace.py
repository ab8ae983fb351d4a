"""ctx.replace: a file that is there whole or not at all."""

import os
import stat

import pytest

from nextdue import Context, LeaseLost
from nextdue.records import Claim


@pytest.fixture
def ctx() -> Context:
    return Context(Claim(7, 1, "export", "[]", None, 0, 0, 1, 0, 0))


@pytest.fixture
def target(tmp_path):
    return tmp_path / "out.csv"


def leftovers(target) -> list[str]:
    return sorted(set(os.listdir(target.parent)) - {target.name})


def test_a_file_appears_whole(ctx, target):
    with ctx.replace(target) as file:
        file.write("größe\n")
        file.flush()
        assert not target.exists()
    assert target.read_bytes() == "größe\n".encode()
    assert leftovers(target) == []


def test_the_old_file_stays_until_the_new_one_is_complete(ctx, target):
    target.write_text("old")
    with ctx.replace(str(target)) as file:
        file.write("new")
        file.flush()
        assert target.read_text() == "old"
    assert target.read_text() == "new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("old", ["old", None])
def test_an_error_leaves_the_old_file_and_nothing_else(ctx, target, error, old):
    if old:
        target.write_text(old)
        target.chmod(0o640)
    with pytest.raises(error), ctx.replace(target) as file:  # noqa: PT012
        file.write("half of it")
        raise error
    assert leftovers(target) == []
    assert (target.read_text() if target.exists() else None) == old
    assert not old or stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444])
def test_an_existing_file_keeps_its_permissions(ctx, target, mode):
    target.write_text("old")
    target.chmod(mode)
    with ctx.replace(target) as file:
        file.write("new")
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_a_new_file_has_the_permissions_of_any_new_file(ctx, target, tmp_path):
    (tmp_path / "plain").touch()
    with ctx.replace(target) as file:
        file.write("new")
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_bytes(ctx, target):
    with ctx.replace(target, "wb") as file:
        file.write(b"\xff\x00")
    assert target.read_bytes() == b"\xff\x00"


def test_encoding_and_ends_of_lines_are_the_callers(ctx, target):
    with ctx.replace(target, encoding="latin-1", newline="\r\n") as file:
        file.write("é\n")
    assert target.read_bytes() == b"\xe9\r\n"


@pytest.mark.parametrize("mode", ["a", "r", "w+", "x", "rb", ""])
def test_other_modes_are_refused(ctx, target, mode):
    target.write_text("old")
    with (
        pytest.raises(ValueError, match='replace\\(\\) writes whole files: mode must be "w" or "wb"'),
        ctx.replace(target, mode),
    ):
        pass
    assert target.read_text() == "old"
    assert leftovers(target) == []


@pytest.mark.parametrize("old", ["old", None])
def test_a_lost_lease_refuses_to_replace(ctx, target, old):
    if old:
        target.write_text(old)
    words = "export #7: its lease is lost, so the file was not replaced"
    with pytest.raises(LeaseLost, match=words), ctx.replace(target) as file:  # noqa: PT012
        file.write("late")
        ctx.mark_lost()
        assert ctx.lost()
    assert (target.read_text() if target.exists() else None) == old
    assert leftovers(target) == []


def test_a_link_stays_a_link_and_its_target_is_replaced(ctx, target, tmp_path):
    real = tmp_path / "elsewhere"
    real.mkdir()
    real = real / "real.csv"
    real.write_text("old")
    target.symlink_to(real)
    with ctx.replace(target) as file:
        file.write("new")
    assert target.is_symlink()
    assert real.read_text() == "new"
    assert os.listdir(real.parent) == ["real.csv"]


def test_a_missing_directory_is_an_error_before_anything_is_written(ctx, tmp_path):
    with pytest.raises(FileNotFoundError), ctx.replace(tmp_path / "missing" / "out.csv"):
        raise AssertionError("the block must not begin")
    assert os.listdir(tmp_path) == []


def test_a_directory_is_not_replaced(ctx, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(OSError, match="directory"), ctx.replace(tmp_path / "out") as file:
        file.write("x")
    assert os.listdir(tmp_path) == ["out"]


def test_the_block_may_close_the_file_itself(ctx, target):
    """As csv writers and archive libraries do."""
    with ctx.replace(target) as file:
        file.write("all")
        file.close()
    assert target.read_text() == "all"


def test_a_long_name_has_room_for_the_temporary_one(ctx, tmp_path):
    target = tmp_path / ("n" * 250 + ".csv")
    with ctx.replace(target) as file:
        file.write("x")
    assert target.read_text() == "x"


def test_a_task_that_fails_leaves_the_old_file_and_its_next_attempt_replaces_it(world, nd, target):
    target.write_text("old")
    seen = []

    @nd.task
    def export(ctx: Context) -> None:
        with ctx.replace(target) as file:
            file.write("new")
            seen.append(target.read_text())
            if ctx.attempt == 1:
                raise ValueError

    handle = export.enqueue()
    assert world.run(handle) == "waiting"
    assert target.read_text() == "old"
    assert world.run(handle, "5m") == "done"
    assert (target.read_text(), seen) == ("new", ["old", "old"])
