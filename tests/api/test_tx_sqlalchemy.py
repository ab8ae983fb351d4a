"""using(tx=...) with SQLAlchemy 2: Session and Connection, synchronous and not."""

import asyncio
import contextlib

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from nextdue import BadTransaction, KeyTaken, LeaseLost, StoreBusy


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture
def engine(world, receipt):
    engine = sa.create_engine(f"sqlite:///{world.path}", connect_args={"timeout": 0.05})
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def rings(nd, monkeypatch):
    """How often the idle workers were woken."""
    rung = []
    monkeypatch.setattr(nd.desk.connections, "ring", lambda: rung.append(nd.find(state="waiting")))
    return rung


def test_a_session_s_rows_and_tasks_are_committed_together(world, receipt, engine):
    """Law 2."""
    with Session(engine) as session, session.begin():
        session.add(Order(id=1))
        one = receipt.using(tx=session, key="1").enqueue(1)
        many = receipt.using(tx=session, delay="1h").enqueue_many([(2,), (3,)])
        assert one.state == "gone"
    assert [h.state for h in (one, *many)] == ["waiting"] * 3
    world.work()
    assert (world.seen, world.orders()) == ([1], [1])


def test_a_session_s_rollback_leaves_nothing(world, receipt, engine, rings):
    """Law 2: nothing stored, nobody woken."""
    with Session(engine) as session:
        session.add(Order(id=1))
        receipt.using(tx=session).enqueue(1)
        receipt.using(tx=session).enqueue_many([(2,)])
        session.rollback()
    assert (world.count(), world.orders(), rings) == (0, [], [])


def test_nobody_is_woken_before_the_commit(world, receipt, engine, rings):
    """Law 2: the event of a savepoint isn't one of the transaction."""
    with Session(engine) as session:
        first = receipt.using(tx=session).enqueue(1)
        with session.begin_nested():
            receipt.using(tx=session).enqueue(2)
        assert rings == []
        session.commit()
        assert len(rings) == 1
        assert first.id in [h.id for h in rings[0]], "it is there when they are woken"
        session.add(Order(id=1))
        session.commit()
        assert len(rings) == 1, "what stores no task wakes nobody"
        receipt.using(tx=session).enqueue(3)
        session.commit()
        assert len(rings) == 2


def test_a_savepoint_takes_its_tasks_with_it(world, receipt, engine):
    with Session(engine) as session, session.begin():
        receipt.using(tx=session).enqueue(1)
        with contextlib.suppress(ZeroDivisionError), session.begin_nested():
            receipt.using(tx=session).enqueue(2)
            _ = 1 // 0
    world.work()
    assert world.seen == [1]


def test_keys(receipt, engine):
    with Session(engine) as session, session.begin():
        first = receipt.using(tx=session, key="a").enqueue(1)
        assert receipt.using(tx=session, key="a").enqueue(2).id == first.id
        with pytest.raises(KeyTaken):
            receipt.using(tx=session, key="a", on_conflict="reject").enqueue(2)


def test_a_connection(world, receipt, engine):
    with engine.begin() as connection:
        connection.execute(sa.insert(Order).values(id=1))
        receipt.using(tx=connection).enqueue(1)
    with contextlib.suppress(ZeroDivisionError), engine.begin() as connection:
        connection.execute(sa.insert(Order).values(id=2))
        receipt.using(tx=connection).enqueue(2)
        _ = 1 // 0
    world.work()
    assert (world.seen, world.orders()) == ([1], [1])


def test_a_scoped_session(world, receipt, engine):
    registry = scoped_session(sessionmaker(engine))
    receipt.using(tx=registry).enqueue(1)
    registry.commit()
    registry.remove()
    assert world.work() == {"done": 1}


def test_an_engine_whose_begin_is_immediate(world, receipt, engine):
    """The recipe of SQLAlchemy's own pages for pysqlite."""

    @sa.event.listens_for(engine, "connect")
    def connected(connection, record):
        connection.isolation_level = None

    @sa.event.listens_for(engine, "begin")
    def begun(connection):
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()
    with Session(engine) as session, session.begin():
        session.add(Order(id=1))
        receipt.using(tx=session).enqueue(1)
    with Session(engine) as session:
        session.add(Order(id=2))
        receipt.using(tx=session).enqueue(2)
    world.work()
    assert (world.seen, world.orders()) == ([1], [1])


# misuse


def test_autocommit_is_refused(receipt, engine, refuses):
    auto = engine.execution_options(isolation_level="AUTOCOMMIT")
    with Session(auto) as session, refuses(BadTransaction, "no transaction open"):
        receipt.using(tx=session).enqueue(1)


def test_what_is_no_transaction_is_refused(receipt, engine, refuses):
    for thing in (engine, sessionmaker(engine)):
        with refuses(BadTransaction, "Session"):
            receipt.using(tx=thing).enqueue(1)


def test_another_file_is_refused(receipt, tmp_path, refuses):
    other = sa.create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with Session(other) as session, refuses(BadTransaction, "only one file commits at once"):
        receipt.using(tx=session).enqueue(1)
    other.dispose()


def test_a_closed_connection_is_refused(receipt, engine, refuses):
    connection = engine.connect()
    connection.close()
    with refuses(BadTransaction, "was closed"):
        receipt.using(tx=connection).enqueue(1)


def test_a_transaction_that_was_overtaken_says_so(world, receipt, engine):
    """F053."""

    @sa.event.listens_for(engine, "begin")
    def begun(connection):
        connection.exec_driver_sql("BEGIN")

    with Session(engine) as session:
        session.scalars(sa.select(Order)).all()
        world.sql("INSERT INTO orders VALUES (1)")
        with pytest.raises(StoreBusy, match="Roll back and do it again"):
            receipt.using(tx=session).enqueue(1)
        session.rollback()
        receipt.using(tx=session).enqueue(1)
        session.commit()
    assert world.work() == {"done": 1}


# asynchronous


def in_async_session(world, use):
    async def main():
        engine = create_async_engine(f"sqlite+aiosqlite:///{world.path}")
        try:
            async with async_sessionmaker(engine)() as session:
                return await use(session)
        finally:
            await engine.dispose()

    return asyncio.run(main())


def test_an_async_session(world, receipt, engine, rings):
    """Law 2."""

    async def use(session: AsyncSession):
        session.add(Order(id=1))
        handle = await receipt.using(tx=session, key="1").aenqueue(1)
        await session.run_sync(lambda sync: receipt.using(tx=sync).enqueue_many([(2,), (3,)]))
        assert (handle.created, rings) == (True, [])
        await session.commit()
        assert len(rings) == 1
        session.add(Order(id=4))
        await receipt.using(tx=session).aenqueue(4)
        await session.rollback()

    in_async_session(world, use)
    world.work()
    assert (sorted(world.seen), world.orders()) == ([1, 2, 3], [1])


def test_an_async_connection(world, receipt, engine):
    async def use(session):
        async with session.bind.begin() as connection:
            await connection.execute(sa.insert(Order).values(id=1))
            await receipt.using(tx=connection).aenqueue(1)

    in_async_session(world, use)
    world.work()
    assert (world.seen, world.orders()) == ([1], [1])


def test_async_ones_are_to_be_awaited(world, receipt, engine, refuses):
    async def use(session):
        with refuses(BadTransaction, "aenqueue"):
            receipt.using(tx=session).enqueue(1)

    in_async_session(world, use)


# finish


def test_finish_in_a_session(world, nd, engine):
    """Law 14: the task's rows and its completion are one commit."""

    @nd.task
    def pays(n: int) -> None: ...

    @nd.task
    def paid(ctx, n: int) -> None:
        with Session(engine) as session, session.begin(), ctx.finish(tx=session) as tx:
            assert tx is session
            tx.add(Order(id=n))
            pays.using(tx=tx).enqueue(n)

    handle = paid.enqueue(7)
    assert world.work() == {"done": 2}
    assert (handle.state, world.orders()) == ("done", [7])
    assert [run.outcome for run in handle.runs()] == ["done"]


@pytest.mark.parametrize("catches", [False, True])
def test_a_lost_lease_rolls_the_session_back(catches, world, nd, engine):
    """Law 5: even if the task catches LeaseLost and commits."""
    said = []

    @nd.task
    def paid(ctx, n: int) -> None:
        with Session(engine) as session:
            try:
                with ctx.finish(tx=session):
                    session.add(Order(id=n))
                    session.flush()
                    session.execute(sa.text("UPDATE nextdue_task SET token = token + 1"))
            except LeaseLost:
                said.append("lost")
                if not catches:
                    raise
            session.commit()

    paid.enqueue(7)
    world.work()
    assert said == ["lost"]
    assert world.orders() == []


def test_a_session_that_is_never_committed_is_a_failure(world, nd, engine):
    @nd.task
    def paid(ctx, n: int) -> None:
        with Session(engine) as session, ctx.finish(tx=session):
            session.add(Order(id=n))

    handle = paid.enqueue(7)
    assert world.work() == {"failed": 1}
    assert (handle.view().reason, world.orders()) == ("not_committed", [])


@pytest.mark.parametrize("fails", [False, True])
def test_finish_in_an_async_session(fails, world, nd, engine):
    """Law 14; an exception in the block rolls back, as ever."""

    @nd.task
    def paid(ctx, n: int) -> None:
        async def pay(session):
            async with session.begin(), ctx.finish(tx=session) as tx:
                tx.add(Order(id=n))
                await tx.flush()
                if fails:
                    raise OSError("no")

        in_async_session(world, pay)

    paid.enqueue(1)
    assert world.work() == ({"failed": 1} if fails else {"done": 1})
    assert world.orders() == ([] if fails else [1])
