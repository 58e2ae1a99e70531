"""What holds for all workers of one group together, and the step that each takes for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.core.life import Machine
from autoscaler.core.memory import Disabling
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.steps import Moment, Step, disable, keep, terminate


@dataclass(frozen=True, slots=True)
class Bond:
    """The verdict on one group."""

    back: Reason | None = None
    """Why all of its workers leave; None: they stay."""
    keep: Reason | None = None
    """Why those in service stay."""
    hold: Reason | None = None
    """Why those that are ready take no jobs yet."""
    wanted: bool = False
    """Whether demand or a request wants it whole."""
    targeted: bool = False
    """Whether it meets a target."""
    surplus: frozenset[str] = frozenset()
    """Ids of workers on their way in that are too many."""


NO_BOND = Bond()
"""Of a worker that is one of no group."""


def bond_of(machine: Machine, bonds: Mapping[str, Bond]) -> Bond:
    """What holds for a worker's group. `bonds`: by group id."""
    return bonds.get(machine.worker.group_id or "", NO_BOND)


def give_back(machine: Machine, moment: Moment, bond: Bond) -> Step | None:
    """The next step of a worker on its way in whose group leaves or is whole without it: that is no failure of its own.
    None: it is wanted.
    """
    mark, reason = Disabling.GROUP, bond.back
    if reason is None and machine.worker.id in bond.surplus:
        mark, reason = Disabling.IDLE, because(Code.GROUP_WHOLE, group=machine.worker.group_id)
    if reason is None:
        return None
    if machine.host is not None:
        return disable(machine, moment, mark, reason)
    kept = moment.kept(machine)
    if kept is not None and kept.code is Code.KEPT_BY_COMMAND:
        return keep(machine, kept)
    return terminate(machine, moment, reason)


def stand(machine: Machine, moment: Moment, bond: Bond) -> Step | None:
    """The step of a worker in service for its group's sake; None: the group has no say."""
    if bond.back is not None:
        return disable(machine, moment, Disabling.GROUP, bond.back)
    return None if bond.keep is None else keep(machine, bond.keep)
