"""What a command says about the autoscaler that it is for: overrides wait in its state, and no other one reads them."""

from __future__ import annotations

from autoscaler.commands.context import Invocation


def warn_unless_running(invocation: Invocation) -> None:
    """Say on standard error that no autoscaler runs which would act on this now."""
    if invocation.running is None:
        invocation.note(
            f"no autoscaler serves cell {invocation.cell.title} on this machine: the command is "
            f"stored in {invocation.state_directory}, for an autoscaler that starts with its state there"
        )
