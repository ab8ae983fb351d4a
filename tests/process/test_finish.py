"""Transactions under kill -9, SIGSTOP and fork: what is committed together stays together."""

import random
import signal
import sys
import time

import pytest

from tests.process.harness import Place, until

ORDERS = """
def make():
    with nd.transaction() as tx:
        tx.execute("CREATE TABLE orders(n INTEGER, pid INTEGER)")
"""

PAID = (
    ORDERS
    + """
def hang_at(stage):
    note(stage, os.getpid())
    while (HERE / "hang").exists() and (HERE / "hang").read_text() == stage:
        time.sleep(0.01)

@nd.task(lease=2)
def paid(ctx, n: int) -> None:
    hang_at("before")
    try:
        with ctx.finish() as tx:
            tx.execute("INSERT INTO orders VALUES (?, ?)", (n, os.getpid()))
            mail.using(tx=tx).enqueue(n)
            hang_at("inside")
        hang_at("after")
    except LeaseLost as exc:
        note("lost", os.getpid())
        raise

@nd.task
def mail(n: int) -> None:
    note("mail", n)
"""
)


def hang(place: Place, stage: str) -> None:
    (place.folder / "hang").write_text(stage)


@pytest.mark.beside
@pytest.mark.parametrize("stage", ["before", "inside", "after"])
def test_killed_at_any_moment_the_rows_are_there_once(stage: str, place: Place) -> None:
    """Law 14, F034, F037, F039: the order, its mail and the completion are one commit, or none of them is."""
    place.script(PAID)
    place.does("import shop; shop.make(); shop.paid.enqueue(7)")
    hang(place, stage)
    first = place.worker()
    place.noted(stage)
    first.kill()
    found = place.rows("SELECT n, pid FROM orders")
    assert found == ([(7, first.pid)] if stage == "after" else [])
    (place.folder / "hang").unlink()
    second = place.worker()
    place.empties()
    assert second.terminate() == 0
    assert place.rows("SELECT n, pid FROM orders") == (found or [(7, second.pid)])
    # One mail was put. It may have been sent twice, if the first worker was at it when it was killed.
    assert place.rows(
        "SELECT outcome, count(DISTINCT task) FROM nextdue_runs WHERE name = 'mail' AND outcome = 'done'"
    ) == [("done", 1)]
    assert 1 <= place.notes().count("mail 7") <= (2 if stage == "after" else 1)
    outcomes = [o for (o,) in place.rows("SELECT outcome FROM nextdue_runs WHERE name = 'paid' ORDER BY ended_ms")]
    assert outcomes == (["done"] if stage == "after" else ["crashed", "done"])
    place.checked()


@pytest.mark.beside
def test_random_kills_neither_lose_nor_double_an_order(place: Place) -> None:
    """F034: for effects in the completion's transaction there are no duplicates at all."""
    seed = random.randrange(10**6)
    sys.stdout.write(f"seed {seed}\n")
    dice = random.Random(seed)
    place.script(PAID)
    place.does("import shop; shop.make(); shop.paid.enqueue_many([(n,) for n in range(150)])")
    for _ in range(2):  # a third kill could be the death of a task that both of these hit
        worker = place.worker("3")
        time.sleep(dice.uniform(0.02, 0.3))
        worker.kill()
    last = place.worker()
    place.empties()
    assert last.terminate() == 0
    assert place.rows("SELECT n, count(*) FROM orders GROUP BY n HAVING count(*) <> 1") == []
    assert place.one("SELECT count(*) FROM orders") == 150
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE name = 'mail' AND outcome = 'done'") == 150
    place.checked()


@pytest.mark.beside
def test_stopped_past_its_lease_it_writes_nothing(place: Place) -> None:
    """Law 5, F027: who was stopped for longer than its lease gets LeaseLost, and none of its rows."""
    place.script(PAID)
    place.does("import shop; shop.make(); shop.paid.enqueue(7)")
    hang(place, "before")
    first = place.worker()
    place.noted("before")
    place.stop_outside_a_commit(first)
    (place.folder / "hang").unlink()
    second = place.worker()
    until(lambda: place.one("SELECT count(*) FROM orders") == 1, 20, place.said)
    first.send(signal.SIGCONT)
    place.noted(f"lost {first.pid}")
    place.empties()
    assert (first.terminate(), second.terminate()) == (0, 0)
    assert place.rows("SELECT n, pid FROM orders") == [(7, second.pid)]
    assert place.notes().count("mail 7") == 1
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE name = 'paid' AND outcome = 'done'") == 1
    place.checked()


def commits(place: Place) -> int:
    """Commits in the WAL: frames that say how big the database is after them (sqlite.org/fileformat, 4.1).

    This process has no connection whose locks it could lose by closing the file.
    """
    wal = place.db.with_name("shop.db-wal").read_bytes()
    size = int.from_bytes(wal[8:12], "big") + 24
    frames = [wal[at : at + 24] for at in range(32, len(wal), size)]
    return sum(frame[4:8] != b"\0" * 4 for frame in frames if frame[8:16] == wal[16:24])


@pytest.mark.beside
def test_finish_adds_no_commit(place: Place) -> None:
    place.script(
        ORDERS
        + """
@nd.task
def plain(ctx) -> None: ...

@nd.task
def finishing(ctx) -> None:
    with ctx.finish() as tx:
        tx.execute("INSERT INTO orders VALUES (1, 1)")
"""
    )
    place.does("import shop; shop.make()")
    worker = place.worker()
    took = []
    for name in ("plain", "finishing", "plain", "finishing"):
        begun = commits(place)
        place.does(f"import shop; shop.{name}.enqueue()")
        place.empties()
        took.append(commits(place) - begun)
    assert took[2] == took[3] == 3, f"one to put, one to claim, one to settle: {took}"
    assert worker.terminate() == 0


@pytest.mark.parametrize("how", ["sqlite3", "sqlalchemy", "ours"])
def test_an_idle_worker_is_woken_by_the_commit_and_not_before(how: str, place: Place) -> None:
    """Law 2, law 12."""
    place.script(
        ORDERS
        + """
@nd.task
def mail(n: int) -> None:
    note("mail", time.monotonic_ns())

def begun(how):
    if how == "ours":
        return nd.transaction()
    if how == "sqlalchemy":
        import sqlalchemy, sqlalchemy.orm
        return sqlalchemy.orm.Session(sqlalchemy.create_engine(f"sqlite:///{nd.path}")).begin()
    import sqlite3
    return sqlite3.connect(nd.path)

def put(how):
    with begun(how) as tx:
        tx = tx if tx is not None and hasattr(tx, "execute") else tx.session
        mail.using(tx=tx).enqueue(1)
        time.sleep(0.3)
        note("commit", time.monotonic_ns())
"""
    )
    place.does("import shop; shop.make()")
    worker = place.worker()
    place.does(f"import shop; shop.put({how!r})")
    place.noted("mail", 1, 5)
    (committing, at), (_, ran) = [line.split() for line in place.notes()]
    assert committing == "commit"
    assert (int(ran) - int(at)) / 1e9 < 1.0
    assert worker.terminate() == 0


def test_a_fork_in_the_midst_of_a_transaction(place: Place) -> None:
    """F054: the child can't use the file, and says so at once; the parent's transaction goes on."""
    place.script(
        ORDERS
        + """
@nd.task
def mail(n: int) -> None: ...

def refused(what, put):
    begun = time.monotonic()
    try:
        put()
        note(what, "was put by the child")
    except NextdueError as exc:
        note(what, type(exc).__name__, time.monotonic() - begun < 1)

def leaves():
    global pid
    with nd.transaction() as tx:
        tx.execute("INSERT INTO orders VALUES (1, 1)")
        pid = os.fork()
        if pid == 0:
            refused("row", lambda: tx.execute("INSERT INTO orders VALUES (2, 2)"))
            refused("mail", lambda: mail.enqueue(2))
        else:
            os.waitpid(pid, 0)
            mail.using(tx=tx).enqueue(1)

def forks():
    try:
        leaves()
    finally:
        if pid == 0:
            refused("again", leaves)
            refused("later", lambda: mail.enqueue(2))
            os._exit(0)
"""
    )
    place.does("import shop; shop.make(); shop.forks()")
    assert place.notes() == [
        "row BadTransaction True",
        "mail BadTransaction True",
        "again StoreGone True",
        "later StoreGone True",
    ]
    assert place.rows("SELECT n FROM orders") == [(1,)]
    assert place.left() == 1
    place.checked()


@pytest.mark.beside
def test_a_fork_after_a_transaction(place: Place) -> None:
    """F054: idle connections are not used across a fork."""
    place.script(
        ORDERS
        + """
def row(n):
    with nd.transaction() as tx:
        tx.execute("INSERT INTO orders VALUES (?, ?)", (n, os.getpid()))

def forks():
    row(1)
    pid = os.fork()
    row(2)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    row(3)
"""
    )
    place.does("import shop; shop.make(); shop.forks()")
    assert place.rows("SELECT n, count(DISTINCT pid) FROM orders GROUP BY n ORDER BY n") == [(1, 1), (2, 2), (3, 1)]
    place.checked()


@pytest.mark.beside
def test_killed_at_each_statement_it_is_all_or_nothing(place: Place) -> None:
    """Law 14, F034: from the check of the claim to the last purge, and the commit at the end."""
    place.script(
        PAID
        + """
from nextdue import tx as wires

fatal = int(os.environ.get("FATAL", "-1"))
execute = wires._Own.execute

def counted(self, sql, params):
    global fatal
    answer = execute(self, sql, params)
    fatal -= 1
    if fatal == -1:
        note("killed", sql.split(maxsplit=1)[0])
        os.kill(os.getpid(), 9)
    return answer

if fatal >= 0:
    wires._Own.execute = counted
"""
    )
    place.does("import shop; shop.make()")
    statements = 0
    while True:
        place.does(f"import shop; shop.paid.enqueue({statements})")
        doomed = place.python("import shop; shop.nd.run(once=True)", FATAL=str(statements))
        code = doomed.ends()
        if code == 0:
            break
        assert code == -signal.SIGKILL, doomed.text
        assert place.rows("SELECT n FROM orders WHERE n = ?", statements) == []
        place.does("import shop; shop.nd.run(once=True)")
        statements += 1
    assert statements >= 8, "held, lane, task, its id, held, the history, the end, two purges"
    place.does("import shop; shop.nd.run(once=True)")
    assert place.rows("SELECT n, count(*) FROM orders GROUP BY n") == [(n, 1) for n in range(statements + 1)]
    assert sorted(line for line in place.notes() if line.startswith("mail")) == [
        f"mail {n}" for n in sorted(map(str, range(statements + 1)))
    ]
    place.checked()


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_task_that_goes_on_after_its_finish_keeps_its_slot(place: Place, kind: str) -> None:
    """Law 7: past a renewal it isn't taken for lost, though it holds nothing any more; nor is its child killed."""
    place.script(f"""
@nd.task(lease=1, run_in={kind!r})
def work(ctx: Context, n: int) -> None:
    note("begin", n)
    with ctx.finish():
        pass
    time.sleep(1.2)
    note("end", n)
""")
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(2)])")
    worker = place.python(
        "import shop; service = shop.nd.working(1, processes=1); service.open(); service.run()\n"
        "print(dict(service.worker.totals))"
    )
    place.noted("end", 2)
    assert worker.terminate() == 0
    assert place.notes() == ["begin 0", "end 0", "begin 1", "end 1"]
    worker.says("{'done': 2}")
    place.checked()
