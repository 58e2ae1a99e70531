"""The table of transitions: every step from one phase to another.

The autoscaler's own steps are rows: `first_step` in workers/step.py reads the rows of a procedure from the top and
takes the step of the first one that holds. Other changes of phase follow from observations by the rows of phases
(workers/phases.py); `SHOWN` says them in sentences. docs/worker-phases.md is generated from all these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from autoscaler.core.joining import joining
from autoscaler.core.recovery import lost_workers
from autoscaler.core.scale_down import leaving, scale_down
from autoscaler.core.workers.drain import WAY_OUT
from autoscaler.core.workers.phases import BY_PHASE, DECIDING, Phase, Procedure
from autoscaler.core.workers.step import Rule, Transition

RULES: Mapping[Procedure, Sequence[Rule[Any]]] = MappingProxyType(
    {
        Procedure.JOINING: joining.RULES,
        Procedure.SCALE_DOWN: scale_down.RULES,
        Procedure.LEAVING: leaving.RULES,
        Procedure.RECOVERY: lost_workers.RULES,
        Procedure.SET_ASIDE: leaving.SET_ASIDE,
    }
)
"""Every step of the autoscaler, by procedure."""
TABLES: tuple[Sequence[Rule[Any]], ...] = (*RULES.values(), WAY_OUT)
"""The same, and the rows by which every worker leaves Grid Engine."""


def phases_of(procedure: Procedure) -> frozenset[Phase]:
    """Phases of the workers that a procedure handles."""
    alone = {phase for phase, who in BY_PHASE.items() if who is procedure}
    return frozenset(alone).union(*(row.phases for row in DECIDING if row.procedure is procedure))


def steps() -> Iterator[tuple[Transition[Any], frozenset[Phase]]]:
    """Every row with the phases in which it may be taken; rows of `WAY_OUT` once for each row that leads to them."""
    for procedure, rules in RULES.items():
        for rule in rules:
            for row in rule.rows:
                sources = phases_of(procedure) & rule.sources & row.sources
                yield row, sources
                if row.way_out:
                    yield from ((out, sources & out.sources) for way in WAY_OUT for out in way.rows)


@dataclass(frozen=True, slots=True)
class Shown:
    """Changes of phase without a step of the autoscaler."""

    sources: frozenset[Phase]
    when: str
    to: Phase | None = None
    """None: it is forgotten."""


_P = Phase
_LISTED = frozenset(Phase) - {_P.ORDERED, _P.GONE}


def _one(phase: Phase) -> frozenset[Phase]:
    return frozenset({phase})


SHOWN: tuple[Shown, ...] = (
    Shown(_one(_P.ORDERED), "Its provider lists the machine.", to=_P.BOOTING),
    Shown(_one(_P.ORDERED), "No listing shows it for `order_grace`: its order no longer counts.", to=_P.GONE),
    Shown(_one(_P.BOOTING), "It is up and has a name, or its image enrolled it.", to=_P.JOINING),
    Shown(_one(_P.JOINING), "An observation shows it enabled and reporting.", to=_P.READY),
    Shown(_one(_P.JOINING), "A person removed its execution host before it was up.", to=_P.BOOTING),
    Shown(_one(_P.DRAINING), "An observation shows it enabled: our mark is removed.", to=_P.READY),
    Shown(
        frozenset({_P.JOINING, _P.READY, _P.DRAINING}),
        "An observation shows that its removal has begun: its host lacks its queue or its slots, or is gone.",
        to=_P.LEAVING,
    ),
    Shown(_one(_P.LEAVING), "An observation shows that it got all back, as Grid Engine refused.", to=_P.DRAINING),
    Shown(_one(_P.LEAVING), "An observation shows it enabled or busy: its removal is cancelled.", to=_P.READY),
    Shown(_one(_P.READY), "Its execution host is not there any more.", to=_P.JOINING),
    Shown(_LISTED - {_P.ENDING}, "Its provider says that the machine is stopping.", to=_P.ENDING),
    Shown(_LISTED, "Its provider says that the machine has ended.", to=_P.GONE),
    Shown(_one(_P.GONE), "No listing shows it and its execution host is removed: it is forgotten."),
)
"""Changes of phase without a step of the autoscaler."""
