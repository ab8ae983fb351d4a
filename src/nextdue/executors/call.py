"""Calling one task's function: arguments in, ending out. Whatever it raises is an ending, never an escape."""

import time
from types import CoroutineType
from typing import Any

import msgspec

from nextdue.errors import BadArguments, BadDefinition
from nextdue.executors import blame
from nextdue.executors.context import Context, Definition, running_in_worker
from nextdue.records import Claim, Ending
from nextdue.task import Cancelled, GiveUp, RetryAfter, Snooze, failure_message


def call(definition: Definition, claim: Claim, context: Context) -> Ending:
    """Run one claim to its ending; never raises."""
    begun = time.monotonic_ns()
    inside = running_in_worker.set(claim)
    try:
        context.begin(definition)
        ending = context.concluded(_call(definition, claim, context))
    except BaseException:  # whatever asks this exception what it is fails too; its slot must live all the same
        ending = indescribable(claim)
    finally:
        running_in_worker.reset(inside)
    return timed(ending, begun)


def indescribable(claim: Claim) -> Ending:
    """The ending of a task whose exception can't even be looked at."""
    return Ending(claim, "failed", ran_ms=0, reason="unknown", message="its exception can't be described")


def timed(ending: Ending, begun_ns: int) -> Ending:
    """This ending with the time since `begun_ns` (monotonic) as its run time."""
    ran_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
    return msgspec.structs.replace(ending, ran_ms=ran_ms) if ran_ms else ending


def _call(definition: Definition, claim: Claim, context: Context) -> Ending:
    try:
        result = invoke(definition, claim, context)
    except Unfit as exc:
        return exc.ending
    except BaseException as exc:  # SystemExit and CancelledError too: they are the task's failures, not ours
        return raised(definition, claim, exc)
    if type(result) is CoroutineType:
        result.close()
        return _unawaited(claim)
    return returned(definition, claim, result)


class Unfit(Exception):
    """The stored arguments don't fit the function."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


def invoke(definition: Definition, claim: Claim, context: Context) -> Any:
    """What the function answers, a coroutine for one written with async def. Raises Unfit and what it raises."""
    try:
        args, kwargs = definition.signature.decode(claim.args)
    except (BadArguments, BadDefinition) as exc:
        raise Unfit(Ending(claim, "held", ran_ms=0, reason="arguments", message=failure_message(exc))) from None
    return definition.fn(context, *args, **kwargs) if definition.wants_context else definition.fn(*args, **kwargs)


def raised(definition: Definition, claim: Claim, exc: BaseException) -> Ending:
    """The ending of a task that raised this."""
    if isinstance(exc, Snooze):
        return Ending(claim, "snoozed", ran_ms=0, delay_ms=exc.delay_ms)
    if isinstance(exc, Cancelled):
        return Ending(claim, "cancelled", ran_ms=0, message=failure_message(exc))
    retry = definition.options.retry
    message, place = failure_message(exc), blame.place(definition.fn, exc)
    return Ending(
        claim,
        "gave_up" if isinstance(exc, (GiveUp, *retry.give_up)) else "failed",
        ran_ms=0,
        delay_ms=exc.delay_ms if isinstance(exc, RetryAfter) else None,
        reason=retry.reason(exc),
        message=message if place is None else f"{message} ({place})",
        error=blame.without_ours(exc, message),
    )


def _unawaited(claim: Claim) -> Ending:
    message = "it returned a coroutine, which nobody awaits, so nothing was done; write its decorator with async def"
    return Ending(claim, "failed", ran_ms=0, reason="coroutine", message=message)


def returned(definition: Definition, claim: Claim, result: Any) -> Ending:
    """The ending of a task that returned this."""
    if definition.options.keep_result_ms is None:
        return Ending(claim, "done", ran_ms=0)
    try:
        return Ending(claim, "done", ran_ms=0, result=definition.signature.result_text(result))
    except BaseException as exc:  # the effect is out, so this must not be a failure, which would repeat it
        return Ending(claim, "done", ran_ms=0, reason="result", message=failure_message(exc))
