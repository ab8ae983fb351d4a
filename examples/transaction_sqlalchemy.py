"""An order and its receipt in one commit of SQLAlchemy's session, and the mark that it was sent in another."""

from pathlib import Path

from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from nextdue import Context, Nextdue

nd = Nextdue(Path(__file__).with_name("alchemy.db"))
engine = create_engine(f"sqlite:///{nd.path}")


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    receipts: Mapped[int] = mapped_column(default=0)


@nd.task
def receipt(ctx: Context, order: int) -> None:
    print("receipt for order", order)
    with Session(engine) as session, session.begin(), ctx.finish(tx=session):
        session.get_one(Order, order).receipts += 1


if __name__ == "__main__":
    nd.find()  # makes its tables, which is not done inside of your transaction
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Order(id=1))
        receipt.using(tx=session).enqueue(1)
    nd.run(once=True)
    with Session(engine) as session:
        print("orders and their receipts:", [(o.id, o.receipts) for o in session.scalars(select(Order))])
