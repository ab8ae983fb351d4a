"""Every error of nextdue, as one tree. Each message says what happened, to which task, and what to do.

NextdueError
├── BadDefinition (ValueError)      a task, an option or a key is declared wrongly
├── BadTime (ValueError)            an instant or a duration that can't be meant
├── BadArguments (TypeError)        arguments that don't fit the task or don't survive JSON
├── BadTransaction (ValueError)     a transaction that can't carry a task, or one used wrongly
├── KeyTaken                        on_conflict="reject" and the key is in use
├── UnknownTask                     no such task in this file
├── NotInDoubt (LookupError)        a step that is to be decided on, and of which nobody doubts
├── TaskFailed                      the task whose result is asked for ended without one
├── ResultNotKept (LookupError)     the task is done, but there is no result to give
├── WouldDeadlock                   a task waits for another one, in whose way it is
├── LeaseLost                       the claim of this attempt is no longer ours
├── OwnerBusy                       an exclusive worker, and another one holds the lock
└── StoreError                      the file could not be used; nothing was acknowledged
    ├── StoreBusy                   somebody held the write lock for longer than we wait
    ├── StoreFull                   the disk or the file is full
    ├── StoreReadOnly               the file or its directory can't be written
    ├── StoreGone                   the file was deleted, moved or replaced under us
    ├── StoreMissing                there is no such file, and only the application makes one
    ├── NotAStore                   not an SQLite file, or one without our tables
    ├── SchemaTooNew                written by a newer nextdue
    └── Unsupported                 this SQLite, file system or platform can't keep the promises
"""


class NextdueError(Exception):
    """The root of everything that nextdue raises on purpose."""


class BadDefinition(NextdueError, ValueError):
    """A task, an option or a key is declared in a way that can't work."""


class BadTime(NextdueError, ValueError):
    """An instant without an offset, out of range, or a duration that can't be meant."""


class BadArguments(NextdueError, TypeError):
    """Arguments that don't fit the task's signature or would come back changed."""


class BadTransaction(NextdueError, ValueError):
    """A transaction that can't carry a task (another file, none open), or one that is used wrongly."""


class KeyTaken(NextdueError):
    """`on_conflict="reject"` was asked for and the key is in use."""


class UnknownTask(NextdueError, LookupError):
    """There is no such task in this file."""


class NotInDoubt(NextdueError, LookupError):
    """There is no step of this label in doubt; it was made, or never begun, or its task runs."""


class TaskFailed(NextdueError):
    """The task whose result is asked for has ended, or stopped, without one."""

    def __init__(self, text: str, *, reason: str = "", message: str = "", state: str = "") -> None:
        super().__init__(text)
        self.reason = reason
        """The short word by which its failure is counted, or how it ended."""
        self.message = message
        """The text of its last failure."""
        self.state = state
        """dead (with the reason "expired" if it was not to be started any more), cancelled, or held."""


class ResultNotKept(NextdueError, LookupError):
    """There is no result to give: it isn't kept, no longer kept, or no longer what the annotation says."""


class WouldDeadlock(NextdueError):
    """A running task would wait for another one, which may need the slot that the first one takes."""


class LeaseLost(NextdueError):
    """This attempt's claim is over: its lease ended or its time limit passed, and others may run the task."""


class OwnerBusy(NextdueError):
    """An exclusive worker was to be started and another one holds its lock; nothing was touched."""


class StoreError(NextdueError):
    """The store could not do what was asked; what raised this was not acknowledged."""


class StoreBusy(StoreError):
    """Another connection held the write lock for longer than we wait (5 s)."""


class StoreFull(StoreError):
    """The disk, the quota or the file's page limit is used up."""


class StoreReadOnly(StoreError):
    """The file, its directory or the medium can't be written."""


class StoreGone(StoreError):
    """The file was deleted, moved or replaced while it was open."""


class StoreMissing(StoreError):
    """There is no file at this path; only the application creates one."""


class NotAStore(StoreError):
    """The file isn't an SQLite database, is damaged, or holds no tables of ours."""


class SchemaTooNew(StoreError):
    """The tables were written by a newer nextdue than this one."""


class Unsupported(StoreError):
    """This SQLite, file system or platform can't keep what nextdue promises."""
