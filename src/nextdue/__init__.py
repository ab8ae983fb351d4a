"""Deferred tasks that survive, in one SQLite file beside the script.

    from pathlib import Path
    from nextdue import Nextdue

    nd = Nextdue(Path(__file__).with_name("shop.db"))

    @nd.task
    def receipt(order: int) -> None:
        print("receipt for order", order)

    receipt.using(delay="5m").enqueue(42)      # on disk when this returns

    nd.run()                                   # or, in a shell: nextdue worker shop:nd

A task is a row, and its `due` says when somebody must look at it next. Tasks may run twice (a worker can die after
the effect and before the mark); make the effect harmless to repeat, as `ctx.replace(path)` does for files.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nextdue.app import Nextdue
from nextdue.calls import Call, Task
from nextdue.errors import (
    BadArguments,
    BadDefinition,
    BadTime,
    BadTransaction,
    KeyTaken,
    LeaseLost,
    NextdueError,
    NotAStore,
    NotInDoubt,
    OwnerBusy,
    ResultNotKept,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreGone,
    StoreMissing,
    StoreReadOnly,
    TaskFailed,
    UnknownTask,
    Unsupported,
    WouldDeadlock,
)
from nextdue.executors.context import Context
from nextdue.executors.steps import Resting
from nextdue.handle import Handle
from nextdue.records import InDoubt, RunView, TaskView
from nextdue.service import Service
from nextdue.sqlite.pauses import Pause
from nextdue.sqlite.tx import Transaction
from nextdue.task import Cancelled, GiveUp, Retry, RetryAfter, Snooze

if TYPE_CHECKING:
    from nextdue.cron import Cron as Cron
    from nextdue.every import Every as Every
    from nextdue.testing import assert_repeatable as assert_repeatable

__all__ = [
    "BadArguments",
    "BadDefinition",
    "BadTime",
    "BadTransaction",
    "Call",
    "Cancelled",
    "Context",
    "Cron",
    "Every",
    "GiveUp",
    "Handle",
    "InDoubt",
    "KeyTaken",
    "LeaseLost",
    "Nextdue",
    "NextdueError",
    "NotAStore",
    "NotInDoubt",
    "OwnerBusy",
    "Pause",
    "Resting",
    "ResultNotKept",
    "Retry",
    "RetryAfter",
    "RunView",
    "SchemaTooNew",
    "Service",
    "Snooze",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreGone",
    "StoreMissing",
    "StoreReadOnly",
    "Task",
    "TaskFailed",
    "TaskView",
    "Transaction",
    "UnknownTask",
    "Unsupported",
    "WouldDeadlock",
]


def __getattr__(name: str) -> Any:
    if name in ("Cron", "Every"):  # whoever has no schedules needs no zones
        return getattr(import_module(f"nextdue.{name.lower()}"), name)
    if name == "assert_repeatable":  # only tests need what it needs
        from nextdue.testing import assert_repeatable

        return assert_repeatable
    if name == "__version__":
        from importlib.metadata import version

        return version("nextdue")
    raise AttributeError(f"module 'nextdue' has no attribute {name!r}")
