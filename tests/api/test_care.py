"""handle.retry() and handle.run_now(), and finding tasks for them."""

import traceback

import pytest

from nextdue import BadDefinition, GiveUp, Nextdue, Retry, service


@pytest.fixture
def nd(tmp_path):
    nd = Nextdue(tmp_path / "shop.db")
    yield nd
    nd.close()


def test_the_dead_of_one_reason_are_found_and_retried(nd):
    calls: list[int] = []
    well: list[bool] = []

    @nd.task
    def mail(n: int) -> None:
        calls.append(n)
        if n < 2 and not well:
            raise GiveUp("not now") if n else ValueError("no")

    tasks = mail.enqueue_many([(0,), (1,), (2,)])
    nd.run(1, once=True)
    assert [task.state for task in tasks] == ["waiting", "dead", "done"]
    well.append(True)
    found = nd.find(state="dead", reason="GiveUp")
    assert [task.id for task in found] == [tasks[1].id]
    assert [task.retry() for task in found] == [True]
    assert tasks[0].retry()  # it failed and waits
    assert (tasks[0].view().attempts, tasks[0].view().reason) == (0, None)
    nd.run(1, once=True)
    assert [task.state for task in tasks] == ["done"] * 3
    assert calls[:3] == [0, 1, 2]
    assert sorted(calls[3:]) == [0, 1]


def test_run_now_puts_the_delay_aside(nd):
    ran = []

    @nd.task
    def mail(n: int) -> None:
        ran.append(n)

    later = mail.using(delay="1h").enqueue(1)
    assert not later.retry()  # it never failed
    assert later.run_now()
    nd.run(1, once=True)
    assert ran == [1]
    assert not later.run_now()
    assert not later.retry()
    assert later.state == "done"


def test_what_runs_or_is_gone_is_left_alone(nd):
    said = []

    @nd.task
    def mail() -> None:
        said.append((here.retry(), here.run_now(), here.state))

    here = mail.enqueue()
    nd.run(1, once=True)
    assert said == [(False, False, "running")]
    other = mail.using(delay="1h").enqueue()
    other.cancel()
    assert not other.retry()


def test_find_by_key_and_reason(nd):
    @nd.task
    def mail(n: int) -> None: ...

    @nd.task
    def export(n: int) -> None: ...

    one = mail.using(key="k", delay="1h").enqueue(1)
    two = export.using(key="k", delay="2h").enqueue(1)
    mail.using(key="K").enqueue(2)
    assert [task.id for task in nd.find(key="k")] == [one.id, two.id]
    assert [task.id for task in nd.find(key="k", name="export")] == [two.id]
    assert nd.find(reason="timeout") == []
    for wrong in ({"key": ""}, {"reason": 5}, {"key": "a\x00"}):
        with pytest.raises(BadDefinition):
            nd.find(**wrong)


def test_find_leaves_nothing_out(nd):
    @nd.task
    def fails(n: int) -> None:
        raise GiveUp

    fails.enqueue_many([(n,) for n in range(250)])
    nd.run(once=True)
    assert len(nd.find(state="dead", limit=100)) == 100
    for task in nd.find(state="dead"):
        assert task.retry()
    assert (len(nd.find(state="dead")), len(nd.find())) == (0, 250)


# the queues of a worker


def test_one_queue_may_be_given_as_a_text(nd):
    seen: list[str] = []

    @nd.task
    def note(word: str) -> None:
        seen.append(word)

    note.using(queue="mail").enqueue("mail")
    note.using(queue="m").enqueue("m")
    nd.run(once=True, queues="mail")
    assert seen == ["mail"]


def test_an_unknown_queue_is_logged_when_a_worker_starts(nd, caplog):
    @nd.task(queue="mail")
    def note() -> None: ...

    note.using(queue="slow").enqueue()
    nd.run(once=True, queues=["mail", "slow"])
    assert caplog.messages == []
    nd.run(once=True, queues=["mail", "nope"])
    assert caplog.messages == [f"no task uses a queue 'nope' so far, neither declared nor in {nd.path}"]


@pytest.mark.parametrize(
    ("queues", "says"), [([], "no queue at all"), ([3], "must be a str"), ([""], "characters"), (3, "list of names")]
)
def test_queues_that_can_not_be_meant_are_refused(nd, queues, says):
    with pytest.raises(BadDefinition, match=says):
        nd.working(queues=queues)
    with pytest.raises(BadDefinition, match=says):
        Nextdue(nd.path, queues=queues)


def test_the_queues_of_the_application_are_served_unless_told_otherwise(nd):
    some = Nextdue(nd.path, queues=["mail", "slow"])
    seen: list[str] = []

    @some.task
    def note(word: str) -> None:
        seen.append(word)

    for queue in ("default", "mail", "slow"):
        note.using(queue=queue).enqueue(queue)
    assert (some.queues, some.working().queues) == (["mail", "slow"], ["mail", "slow"])
    some.run(once=True)
    assert sorted(seen) == ["mail", "slow"]
    some.run(once=True, queues="default")
    assert sorted(seen) == ["default", "mail", "slow"]
    some.close()


# what is said of a failure


def test_the_log_and_the_history_tell_where_a_task_failed(nd, caplog):
    """On one line, with what comes next; below it the traceback, which begins at the task's own function."""

    def deeper() -> None:
        raise ValueError("one\ntwo")

    @nd.task(retry=Retry(base=60, jitter=0))
    def plain() -> None:
        deeper()

    @nd.task(retry=Retry(base=0, jitter=0, limit=1))
    async def last() -> None:
        deeper()

    handle = plain.enqueue()
    last.enqueue()
    nd.run(once=True)
    one, two = sorted(caplog.records, key=lambda record: record.getMessage(), reverse=True)
    place = f"(test_care.py:{deeper.__code__.co_firstlineno + 1} in deeper)"
    assert one.getMessage() == f"plain #1 failed (1 of 12), again in 1 min: ValueError: one\\ntwo {place}"
    assert two.getMessage() == f"last #2 dead: ValueError: one\\ntwo {place}"
    assert handle.runs()[0].message == f"ValueError: one\ntwo {place}"
    for record, name in ((one, "plain"), (two, "last")):
        frames = [frame.name for frame in traceback.extract_tb(record.exc_info[2])]
        assert frames == [name, "deeper"]


def test_a_flood_of_one_failure_is_logged_with_one_traceback(nd, caplog, monkeypatch):
    @nd.task(retry=Retry(limit=1))
    def plain(n: int) -> None:
        if n == 0:
            raise KeyError(n)
        raise ValueError(n)

    plain.enqueue_many([(0,), *[(n,) for n in range(1, 20)]])
    nd.run(1, once=True)
    assert len(caplog.records) == 20
    assert [record.getMessage().split()[1] for record in caplog.records if record.exc_info] == ["#1", "#2"]
    caplog.clear()
    monkeypatch.setattr(service, "TRACEBACK_EVERY_S", 0.0)
    plain.enqueue_many([(1,), (1,)])
    nd.run(1, once=True)
    assert sum(bool(record.exc_info) for record in caplog.records) == 2
