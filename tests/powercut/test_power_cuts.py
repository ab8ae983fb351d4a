"""A power cut at any point loses nothing that was acknowledged, and the test that says so can see a loss.

Programs of ours run under strace. From what they wrote and synced the files are rebuilt as a power cut may have left
them at each point, nextdue opens them, and looks for everything that it had acknowledged until then.
NEXTDUE_POWERCUT_SECONDS gives it more time, NEXTDUE_POWERCUT_SEED other states.
"""

import re
import sys

import pytest

from tests.powercut import facts, weaknesses
from tests.powercut.judge import NEW, cuts
from tests.powercut.runs import SECONDS, SHOP, Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="strace is Linux's")
PARTS = {"working": 1.0, "restoring": 0.2, "adopting": 0.05}
"""The runs, and the part of the time that each gets."""
CAUGHT = [
    ("NORMAL", "working", {"put", "together", "ended", "ordered"}),
    ("OFF", "working", {"put", "ended", "ordered", "result", "failed", "fired"}),
    ("careless puts", "working", {"put"}),
    ("careless begins", "working", {"doubted"}),
    ("careless marks", "working", {"marked"}),
    ("careless ticks", "working", {"ended"}),
    ("unsynced files", "working", {"replaced", "saved", "broken"}),
    ("unsynced names", "working", {"replaced"}),
    ("unsynced names", "restoring", {"held", "kept"}),
]
"""What is lost by each weakness, in which run."""


@pytest.fixture(scope="module", params=PARTS)
def run(request, tmp_path_factory):
    return recorded(request.param, tmp_path_factory.mktemp("powercut") / request.param)


def recorded(part, folder, weakness="", start=NEW):
    try:
        return Run(part, folder, weakness, start)
    except AssertionError as exc:
        pytest.fail(str(exc), pytrace=False)


def test_the_recording_is_complete(run):
    """What it says, done again without a power cut, gives the very files that the program left."""
    *_, (_, disk, said) = cuts(run.steps)
    assert disk.image(disk.all()) == run.left()
    assert {kind for kind, _ in facts.facts(said)} <= set(facts.KINDS)


@pytest.mark.timeout(SECONDS + 120)
def test_nothing_acknowledged_is_lost(run, record_property):
    """F058: not by a power cut at any point of the run; and what must hold always does."""
    found = run.cut(PARTS[run.part] * SECONDS)
    record_property("states", found.states)
    assert not found.failures(), "\n".join(found.failures())


def test_a_second_power_cut_loses_nothing_either(run, tmp_path):
    """After the restart the program goes on from what was left, until the next one."""
    for number, state in enumerate(run.states(4) if run.part == "working" else ()):
        found = recorded("again", tmp_path / str(number), start=state).cut(SECONDS / 20)
        assert not found.failures(), "\n".join(found.failures())


def test_what_is_not_promised_is_lost_in_fact(run):
    """docs/power-cuts.md: that an attempt had begun. If that were kept, the page would be wrong."""
    if run.part == "working":
        assert "began" in run.cut(30, until={"began"}).first


def test_every_kind_of_fact_is_said_by_some_run(tmp_path):
    said = set(re.findall(r'say\("(\w+)"', SHOP.read_text("utf-8")))
    assert said - {"not"} == set(facts.KINDS)


@pytest.mark.parametrize(("weakness", "part", "kinds"), CAUGHT, ids=lambda value: value if type(value) is str else "")
def test_a_loss_is_seen(weakness, part, kinds, tmp_path):
    found = recorded(part, tmp_path / "run", weakness).cut(60, until=kinds)
    assert kinds <= found.first.keys(), f"only these were lost: {sorted(found.first)}"


def test_each_weakness_is_tried():
    assert {weakness for weakness, _, _ in CAUGHT} == set(weaknesses.KNOWN)
