"""What a command says of the autoscaler that it speaks to: overrides wait in its state, and nobody else reads them."""

from __future__ import annotations

from autoscaler.commands._echo import echo
from autoscaler.commands.context import Invocation


def tell_where_nobody_serves(invocation: Invocation) -> None:
    """Say so, on standard error, where no autoscaler runs that would heed this now."""
    if invocation.running is None:
        cell = invocation.cell
        echo(
            f"no autoscaler serves cell {cell.cell} of {cell.master}:{cell.port} on this machine: this is kept in "
            f"{invocation.state_directory}, for one that starts with its state there",
            err=True,
        )
