"""Nothing waits for ever behind a flood: not a low priority, not a task that must be tried alone."""

import pytest

from nextdue import due
from nextdue.records import Put
from nextdue.testing.worlds.crew import Role
from nextdue.testing.worlds.executor import Job
from nextdue.testing.worlds.world import Weather, World

FLOOD_MS = 150_000
EVERY_MS = 125


class Flood(World):
    """More tasks of priority 10 than its one worker can do, and from the 5th second on one of priority 0."""

    def __init__(self, folder, *, poison):
        weather = Weather(poisons=int(poison), puts=0, storm_ms=FLOOD_MS, restarts_ms=(1,))
        super().__init__(1, folder, weather=weather, roles=[Role(("mail",), None, 4), Role(("feed",), None, 1)])
        self.poison = poison
        for at in range(0, FLOOD_MS, EVERY_MS):
            self.at(at, "more")
        self.at(5_000, "one")

    def _store_job(self, priority, poison):
        # Of different lengths, or all slots would be free at one moment by chance.
        number = len(self.jobs)
        job = Job(number, "mail", "default", ["done"], 400 + number * 137 % 300, poison)
        self.jobs[job.number] = job
        (stored,), ring = self.callers.put([Put("mail", "default", priority, f"[{job.number}]")])
        self.acknowledged[job.number] = stored.id
        self.judge.observe("put")
        if ring:
            self._ring()
        return stored.id

    def _on_more(self, who):
        self._store_job(10, False)

    def _on_one(self, who):
        self.one = self._store_job(0, self.poison)

    def ended_ms(self):
        """When the one row ended, since the world began."""
        query = "SELECT max(ended) FROM nextdue_run WHERE task = ? AND outcome IN ('done', 'dead')"
        (at,) = self.judge.connection.execute(query, (self.one,)).fetchone()
        return at - self.clock.START


def live(folder, *, poison):
    world = Flood(folder, poison=poison)
    try:
        world.run()
        return world.ended_ms()
    finally:
        world.close()


def test_a_low_priority_is_served_in_a_flood(tmp_path):
    assert live(tmp_path, poison=False) < 12_000


def test_a_task_to_be_tried_alone_is_served_in_a_flood(tmp_path):
    assert live(tmp_path, poison=True) < FLOOD_MS - 10_000


@pytest.mark.parametrize(
    ("rule", "value", "poison"),
    [("FAIR_EVERY", 1 << 60, False), ("holds_for_alone", lambda overdue_ms: False, True)],
)
def test_without_its_rule_it_would_wait_until_the_flood_ends(rule, value, poison, tmp_path, monkeypatch):
    monkeypatch.setattr(due, rule, value)
    assert live(tmp_path, poison=poison) > FLOOD_MS
