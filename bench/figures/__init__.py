"""All figures, in the order of the table."""

from __future__ import annotations

from bench.figures import (
    busy,
    calendar,
    drain,
    effects,
    feeds,
    idle,
    kill,
    neighbours,
    putting,
    scale,
    schedules,
    verbs,
    waking,
)

FIGURES = (
    *putting.FIGURES,
    *busy.FIGURES,
    *drain.FIGURES,
    *waking.FIGURES,
    *idle.FIGURES,
    *neighbours.FIGURES,
    *kill.FIGURES,
    *verbs.FIGURES,
    *effects.FIGURES,
    *scale.FIGURES,
    *calendar.FIGURES,
    *schedules.FIGURES,
    *feeds.FIGURES,
)
