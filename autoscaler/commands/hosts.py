"""`sge-autoscaler hosts`: root's part of keeping names, started by systemd for an autoscaler that is not root."""

from __future__ import annotations

import ipaddress
import re
import sys
from pathlib import Path

import click

from autoscaler.hosts_file import HOSTS
from autoscaler.hosts_helper import Allowed, Helper, Network


@click.command("hosts")
@click.option("--names", required=True, metavar="REGEX", help="Names of workers that it writes, as a whole.")
@click.option(
    "--network", "networks", multiple=True, required=True, metavar="CIDR", help="Networks of workers' addresses."
)
@click.option(
    "--file", "path", type=click.Path(path_type=Path), default=HOSTS, show_default=True, help="The hosts file."
)
def command(names: str, networks: tuple[str, ...], path: Path) -> None:
    """Keep names of workers and of probe hosts in a hosts file, as requests on standard input say.

    For conf/sge-autoscaler-hosts@.service: it answers on standard output. It changes only lines that it wrote, and
    writes no name that another line has.
    """
    try:
        pattern = re.compile(names)
    except re.error as error:
        raise click.BadParameter(str(error), param_hint="--names") from error
    Helper(path, Allowed(pattern, tuple(map(_network, networks)))).serve(sys.stdin.buffer, sys.stdout.buffer)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--network") from error
