"""A stop under a clock that is set back takes its grace and not the hours of the step."""

from nextdue.records import Put
from nextdue.sqlite.store import SqliteStore
from nextdue.testing import FakeClock
from nextdue.testing.worlds.crew import options
from nextdue.testing.worlds.executor import Job, SimExecutor
from nextdue.worker import Worker
from tests.contract.places import listed

HOUR_MS = 3_600_000


def test_a_clock_set_back_makes_no_grace_longer(tmp_path):
    clock = FakeClock()
    store = SqliteStore(tmp_path / "stop.db", now=clock.now, monotonic_ms=clock.monotonic_ms)
    store.put([Put("mail", "default", 0, "[0]")])
    jobs = {0: Job(0, "mail", "default", ["done"], HOUR_MS)}
    executor = SimExecutor(jobs, {"thread": 1}, clock.monotonic_ms, lambda what: None)
    worker = Worker(store, executor, options(("mail",)), slots={"thread": 1}, random=lambda: 0.0)
    worker.tick()
    assert worker.running
    worker.stop(2_000)
    assert worker.tick() == 2_000
    clock.advance(1_000)
    clock.step(-3 * HOUR_MS)
    limit = worker.tick()
    assert limit is not None
    assert limit <= 2_000
    clock.advance(limit)
    worker.tick()
    worker.tick()
    assert worker.ended()
    assert [(task.state, task.attempts, task.crashes) for task in listed(store)] == [("waiting", 0, 0)]
    worker.close()
