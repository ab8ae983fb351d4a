"""ctx.cursor: a long iteration goes on where it was, in the next attempt, and only there."""

import pytest

from nextdue import BadArguments, Context, Retry, Snooze
from nextdue.executors.wire import Ended
from nextdue.sqlite.inspect import check

SOON = Retry(base=1, cap=1, jitter=0)


@pytest.fixture
def sound(world):
    yield
    with world.nd.caller.use() as store:
        assert check(store.database) == []


def marks(world):
    with world.nd.caller.use() as store:
        return store.database.connection.execute("SELECT label, result FROM nextdue_mark").fetchall()


@pytest.fixture
def walk(world, sound):
    """Twenty steps, of which every seventh ends the attempt."""

    @world.nd.task(retry=SOON)
    def walk(ctx: Context, until: int, how: str = "raise") -> None:
        for number in range(ctx.cursor or 0, until):
            world.seen.append(number)
            ctx.cursor = number + 1
            if number % 7 == 6 and how == "raise":
                raise ValueError("tired")
            if number % 7 == 6 and how == "snooze":
                raise Snooze(1)

    return walk


@pytest.mark.parametrize("how", ["raise", "snooze"])
def test_an_iteration_goes_on_where_the_last_attempt_was(world, walk, how):
    handle = walk.enqueue(20, how)
    assert world.run(handle, "1m") == "done"
    assert world.seen == list(range(20))
    assert marks(world) == []


def test_a_cursor_is_saved_while_the_task_runs(world, sound):
    nd = world.nd

    @nd.task
    def long(ctx: Context) -> None:
        world.seen.append(ctx.cursor)
        ctx.cursor = {"page": 3}
        assert ctx.cursor == {"page": 3}
        ctx.progress(3, 10)

    handle = long.enqueue()
    with world._worker(nd) as worker:
        real = worker.executor
        ended: list[object] = []
        worker.executor = _Unending(real, ended)
        worker.tick()
        worker.tick()
        worker.tick()
        assert marks(world) == [("@cursor", '{"page":3}')]
        (progress,) = worker.store.database.connection.execute("SELECT progress FROM nextdue_task").fetchone()
        assert progress == '[3,10,""]'
        worker.running.clear()
    world.advance("10m")
    assert world.seen == [None, {"page": 3}]
    assert handle.state == "done"


class _Unending:
    """Takes away the endings, so that the tasks seem to run on."""

    def __init__(self, real, ended):
        self._real, self._ended, self._said = real, ended, []

    def finished(self):
        for ending in self._real.finished():
            self._ended.append(ending)
            self._said.append((ending.claim, '[[3,10,""],{"page":3}]'))
        return []

    def progress(self):
        said, self._said = self._said, []
        return said

    def __getattr__(self, name):
        return getattr(self._real, name)


def test_another_life_begins_at_the_start(world, walk):
    walk.using(key="a", remember=0).enqueue(7, "finish")
    world.advance("1m")
    walk.using(key="a", remember=0).enqueue(3, "finish")
    world.advance("1m")
    assert world.seen == [*range(7), *range(3)]


def test_a_retry_of_a_dead_task_goes_on(world, sound):
    broken = [True]

    @world.nd.task(retry=Retry(limit=1))
    def imports(ctx: Context) -> None:
        for row in range(ctx.cursor or 0, 4):
            if row == 2 and broken:
                raise ValueError("a bad row")
            world.seen.append(row)
            ctx.cursor = row + 1

    handle = imports.enqueue()
    assert world.run(handle) == "dead"
    broken.clear()
    assert handle.retry()
    assert world.run(handle) == "done"
    assert world.seen == [0, 1, 2, 3]


def test_a_cursor_outlives_a_wait(world, sound):
    @world.nd.task
    def waits(ctx: Context) -> None:
        world.seen.append(ctx.cursor)
        ctx.cursor = (ctx.cursor or 0) + 1
        ctx.sleep("nap", "1h")

    handle = waits.enqueue()
    assert world.run(handle, "2h") == "done"
    assert world.seen == [None, 1]


@pytest.mark.parametrize(
    ("value", "why"), [({1, 2}, "JSON"), ((1, 2), "tuple"), (float("nan"), "nan"), (1 << 70, "64")]
)
def test_what_json_cannot_keep_is_refused_at_once(world, sound, value, why):
    @world.nd.task(retry=Retry(limit=1))
    def bad(ctx: Context) -> None:
        with pytest.raises(BadArguments, match=why):
            ctx.cursor = value
        assert ctx.cursor is None

    assert world.run(bad.enqueue()) == "done"


def test_by_hand_it_is_a_plain_value(world):
    @world.nd.task
    def hand(ctx: Context) -> int:
        assert ctx.cursor is None
        ctx.cursor = 4
        return int(ctx.cursor)

    assert hand() == 4
    assert marks(world) == []


def test_the_last_word_of_a_child_process_is_passed_on():
    from nextdue.records import Claim

    claim = Claim(1, 1, "x", "[]", None, 0, 0, 1, 0, 0)
    ending = Ended(1, 1, "failed", 0, said="[null,7]").ending(claim)
    assert ending.said == "[null,7]"
