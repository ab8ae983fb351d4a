"""The decorators of schedules: a function that is run again and again, or on demand."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nextdue.calls import Declaring
from nextdue.clock import Duration
from nextdue.errors import BadDefinition
from nextdue.schedule import CATCH_UP, Missed
from nextdue.schedules import Schedules, planned

if TYPE_CHECKING:
    from nextdue.cron import Cron
    from nextdue.every import Every


class Scheduling:
    """The part of Nextdue that declares schedules."""

    schedules: Schedules
    task: Callable[..., Any]

    def schedule(
        self,
        rule: "Cron | Every",
        *,
        key: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        jitter: Duration = 0,
        starting: datetime | None = None,
        ending: datetime | None = None,
        count: int | None = None,
        missed: Missed = "run_once",
        missed_limit: int = CATCH_UP,
        missed_window: Duration | None = None,
        **options: Any,
    ) -> Declaring:
        """Run a function by a Cron or an Every: `@nd.schedule(Cron("0 3 * * *", tz="Europe/Berlin"))`.

        Takes what Schedules.put() takes, and the options of task(). Decorate a task once more to give it another
        schedule, of another key. It lives in the file from the first start of a worker; what is no longer declared is
        held, and shown as orphaned. Raises BadDefinition, at once.
        """
        plan = planned(
            rule, jitter, starting=starting, ending=ending, count=count, missed=missed, limit=missed_limit,
            window=missed_window,
        )  # fmt: skip

        def decorated(fn: Any) -> Any:
            declared = fn if hasattr(fn, "definition") else self.task(**options)(fn) if options else self.task(fn)
            if declared is fn and options:
                raise BadDefinition(f"{fn!r} is a task already; give {', '.join(options)} where it is declared")
            self.schedules.declare(declared.definition, plan, key, args, kwargs)
            return declared

        return decorated

    def every(
        self,
        period: Duration | None = None,
        *,
        months: int | None = None,
        anchor: datetime | None = None,
        tz: str | None = None,
        **more: Any,
    ) -> Declaring:
        """Run a function again and again: `@nd.every("30m")`, first at once and then so long after each end.

        period, months, anchor, tz: as for Every. more: as for schedule().
        """
        from nextdue.every import Every

        return self.schedule(Every(period, months=months, anchor=anchor, tz=tz), **more)

    def cron(self, expr: str, *, tz: str = "UTC", day_and: bool | None = None, **more: Any) -> Declaring:
        """Run a function by a cron expression: `@nd.cron("30 2 * * *", tz="Europe/Berlin")`.

        expr, tz, day_and: as for Cron. more: as for schedule().
        """
        from nextdue.cron import Cron

        return self.schedule(Cron(expr, tz, day_and=day_and), **more)

    def on_demand(self, period: Duration, **options: Any) -> Declaring:
        """Run a function at most once in each period, at its end, and only when it was asked for by enqueue().

        `@nd.on_demand("1m")`: periods are counted in UTC from 1970. Asking again changes nothing until the run has
        begun; what is asked for after that is another run, a period later. With arguments, those of each have runs of
        their own. using(delay=...) or using(due=...) asks for the period of that instant. options: as for task().
        """
        if callable(period):
            raise BadDefinition('on_demand needs its period in brackets: @nd.on_demand("1m")')
        return self.task(on_demand=period, **options)  # type: ignore[no-any-return]
