"""Finds the strategy that the settings name: one of ours, or one of others by an entry point of the group
`sge_autoscaler.strategies` or by an import path `package.module:function`. Only the chosen one is imported.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache

from autoscaler.core.sizing.problem import Problem, Proposal, Settled, Strategy, settled
from autoscaler.core.sizing.strategies import CPU_CAPACITY, STRATEGIES
from autoscaler.errors import SettingsError
from autoscaler.extensions import Extensions

GROUP = "sge_autoscaler.strategies"
_OTHERS = Extensions(GROUP, "strategy")

log = logging.getLogger(__name__)


class OfOthers(Settled):
    """A strategy that is not ours, kept from ending passes: where it raises, or answers what is no proposal,
    `cpu-capacity` decides.
    """

    def __init__(self, name: str, propose: Strategy) -> None:
        self.name, self._propose, self._logged = name, propose, ""

    def __call__(self, problem: Problem) -> Sequence[Proposal]:
        try:
            return settled(problem, tuple(self._propose(problem)))
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            if words != self._logged:
                log.exception("the strategy %s failed, so cpu-capacity decides: %s", self.name, words)
            self._logged = words
            return CPU_CAPACITY(problem)


def known_name(name: str) -> str:
    """The name, if there is such a strategy. Raises ValueError with the names that are known."""
    if name in STRATEGIES:
        return name
    try:
        of_others(name)
    except SettingsError as error:
        raise ValueError(f"{error}; ours are {', '.join(STRATEGIES)}") from error
    return name


@cache
def of_others(name: str) -> Strategy | None:
    """The strategy behind a name or import path; None: it is one of ours. Raises SettingsError."""
    if name in STRATEGIES:
        return None
    found = _OTHERS.find(name)
    if not callable(found) or isinstance(found, type):
        raise SettingsError(f"the strategy {name} is no function: it is called with a Problem and returns Proposals")
    return OfOthers(name, found)
