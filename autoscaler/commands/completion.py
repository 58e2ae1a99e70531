"""`sge-autoscaler completion`: print the script that makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that makes SHELL complete commands and options.

    bash: sge-autoscaler completion bash > /etc/bash_completion.d/sge-autoscaler
    """
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"there is no completion for {shell}")
    from autoscaler.commands.main import NAME, cli

    click.echo(completion(cli, {}, NAME, "_SGE_AUTOSCALER_COMPLETE").source())
