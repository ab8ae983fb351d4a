"""using(tx=django.db.connection) inside of atomic(). Each test is a program of its own."""

import subprocess
import sys
import textwrap

import pytest

SETUP = """
import logging
from pathlib import Path

import django
from django.conf import settings
from django.db import connection, connections, models, transaction

from nextdue import BadTransaction, LeaseLost, Nextdue, StoreBusy

logging.basicConfig()
settings.configure(
    INSTALLED_APPS=[],
    USE_TZ=True,
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db", "OPTIONS": {"timeout": 5}},
        "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": "other.db"},
    },
)
django.setup()


class Order(models.Model):
    class Meta:
        app_label = "shop"


nd = Nextdue("shop.db")
seen = []
rings = []


@nd.task
def receipt(n: int) -> None:
    seen.append(n)


@nd.task
def paid(ctx, n: int) -> None:
    with transaction.atomic(), ctx.finish(tx=connection) as tx:
        assert tx is connection
        Order.objects.create()
        receipt.using(tx=tx).enqueue(n)
        if n < 0:
            raise ValueError("negative")


def work():
    nd.run(once=True)
    return sorted(seen)


def raises(error, words, call):
    try:
        call()
    except error as exc:
        assert words in str(exc), exc
    else:
        raise AssertionError(f"{error} was not raised")


nd.find()
with connection.schema_editor() as editor:
    editor.create_model(Order)
ring, nd.desk.connections.ring = nd.desk.connections.ring, lambda: rings.append(len(nd.find(state="waiting")))
"""


@pytest.fixture
def does(tmp_path):
    def does(code: str) -> None:
        program = SETUP + textwrap.dedent(code)
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr

    return does


def test_rows_and_tasks_are_committed_together(does):
    """Law 2: a rollback leaves nothing, and nobody is woken before the commit."""
    does("""
    with transaction.atomic():
        Order.objects.create()
        one = receipt.using(tx=connection, key="1").enqueue(1)
        many = receipt.using(tx=connections["default"], delay="1h").enqueue_many([(2,), (3,)])
        assert (one.created, one.state, rings) == (True, "gone", [])
    assert (one.state, rings) == ("waiting", [3, 3])
    try:
        with transaction.atomic():
            Order.objects.create()
            receipt.using(tx=connection).enqueue(4)
            1 / 0
    except ZeroDivisionError:
        pass
    assert (Order.objects.count(), len(nd.find()), len(rings)) == (1, 3, 2)
    assert work() == [1]
    """)


def test_an_inner_block_takes_its_tasks_with_it(does):
    does("""
    with transaction.atomic():
        receipt.using(tx=connection).enqueue(1)
        try:
            with transaction.atomic():
                receipt.using(tx=connection).enqueue(2)
                1 / 0
        except ZeroDivisionError:
            pass
    assert work() == [1]
    """)


def test_misuse_is_said(does):
    does("""
    from django.db.transaction import TransactionManagementError

    put = receipt.using(tx=connection).enqueue
    raises(BadTransaction, "no transaction open", lambda: put(1))
    with transaction.atomic("other"), transaction.atomic():
        raises(BadTransaction, "only one file", lambda: receipt.using(tx=connections["other"]).enqueue(1))
    raises(BadTransaction, "tx must be a transaction", lambda: receipt.using(tx=transaction).enqueue(1))
    raises(BadTransaction, "tx must be a transaction", lambda: receipt.using(tx="default").enqueue(1))
    with transaction.atomic():
        transaction.set_rollback(True)
        raises(TransactionManagementError, "atomic", lambda: put(1))
    assert nd.find() == []
    """)


def test_a_transaction_that_was_overtaken_says_so(does):
    """F053."""
    does("""
    import sqlite3

    with transaction.atomic():
        Order.objects.count()
        other = sqlite3.connect("shop.db")
        with other:
            other.execute("INSERT INTO shop_order DEFAULT VALUES")
        other.close()
        raises(StoreBusy, "Roll back and do it again", lambda: receipt.using(tx=connection).enqueue(1))
    """)


def test_finish_in_an_atomic_block(does):
    """Law 14; a failing block leaves neither rows nor tasks, and is the attempt's failure."""
    does("""
    good, bad = paid.enqueue(1), paid.enqueue(-1)
    work()
    assert (good.state, bad.state, bad.view().attempts) == ("done", "waiting", 1)
    assert Order.objects.count() == 1
    assert work() == [1]
    """)


def test_finish_beside_many_others(does):
    """F053: each takes the write lock before it reads, so that nobody is overtaken."""
    does("""
    connection.close()
    settings.DATABASES["default"]["OPTIONS"]["timeout"] = 20

    @nd.task(name="many")
    def many(ctx, n: int) -> None:
        try:
            with transaction.atomic(), ctx.finish(tx=connection):
                assert Order.objects.count() >= 0
                Order.objects.create()
        finally:
            connection.close()

    many.enqueue_many([(n,) for n in range(200)])
    work()
    assert [task.view().message for task in nd.find()] == []
    assert Order.objects.count() == 200
    """)


def test_a_lost_lease_rolls_the_block_back(does):
    """Law 5: even where it is caught."""
    does("""
    @nd.task
    def late(ctx) -> None:
        try:
            with transaction.atomic():
                try:
                    with ctx.finish(tx=connection):
                        Order.objects.create()
                        connection.cursor().execute("UPDATE nextdue_task SET token = token + 1")
                except LeaseLost:
                    seen.append("lost")
        finally:
            connection.close()

    late.enqueue()
    nd.start()
    import time
    end = time.monotonic() + 10
    while not seen:
        assert time.monotonic() < end
        time.sleep(0.01)
    nd.stop()
    assert seen == ["lost"]
    assert Order.objects.count() == 0
    """)
