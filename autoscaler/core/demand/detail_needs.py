"""Which facts of jobs matter in this cell that only `qstat -j` shows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autoscaler.core.cost.spending import Whose
from autoscaler.core.model.cluster import JobDetail
from autoscaler.core.policy import OwnerKind, Policy


@dataclass(frozen=True, slots=True)
class Needs:
    """Which of them matter. None do in a cell without access lists, projects and reservations."""

    group: bool = False
    project: bool = False
    reservation: bool = False
    ckpt: bool = False
    """Whether some queue does not start the jobs of every checkpointing environment."""
    account: bool = False
    """Whether accounts tell owners apart."""
    priorities: bool = True
    """Whether priority 0.00000 tells a job that is not scheduled: with `report_pjob_tickets` FALSE all have it."""
    of_running: bool = False
    """Whether project or group of running jobs matter too, because quotas count what they hold."""
    running: tuple[int, ...] = ()
    """Numbers of the running jobs."""

    @property
    def any(self) -> bool:
        return self.group or self.project or self.reservation or self.ckpt or self.account

    def known_of(self, detail: JobDetail) -> bool:
        """Whether this detail has all that is needed: one of a record folder may have less."""
        return (
            detail.group is not None
            and (detail.ckpt is not None or not self.ckpt)
            and (detail.account is not None or not self.account)
        )

    def under(self, policy: Policy) -> Needs:
        """These needs with those of callers' rules, of project budgets, and of what tells owners apart."""
        by_project = policy.rules is not None and policy.rules.by_project
        by_project = by_project or policy.owner is OwnerKind.PROJECT
        by_budget = any(budget.whose is Whose.PROJECT for budget in policy.budgets)
        found = replace(self, account=True) if policy.owner is OwnerKind.ACCOUNT and not self.account else self
        if by_budget and not (self.project and self.of_running):
            return replace(found, project=True, of_running=True)
        return replace(found, project=True) if by_project and not self.project else found


NOTHING = Needs()
