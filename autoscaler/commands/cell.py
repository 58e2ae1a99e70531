"""`sge-autoscaler cell`: a private Grid Engine with its hosts on this machine, to try things on."""

from __future__ import annotations

import os
import signal
import sys
import time

import click

from autoscaler import namespaces
from autoscaler.commands._output import echo, json_option, print_json, print_progress, print_result
from autoscaler.errors import NotFound
from autoscaler.lab import cell_folder
from autoscaler.lab.cell import FIRST_HOST, Cell, ExecHost
from autoscaler.lab.private_root import CellError, missing
from autoscaler.process import Running
from autoscaler.report import SCHEMA
from autoscaler.report.wording import count

WATCH = 0.2
"""Seconds between two checks whether a held cell still lives."""


@click.group("cell")
def command() -> None:
    """Bring up a private Grid Engine on this machine, enter it, end it.

    Each host is a set of namespaces with a name and address of its own. A cell ends with the command that holds it,
    even if that is killed, and leaves nothing behind. Several cells can live side by side. Needs root and Debian's Grid
    Engine packages (make setup).
    """


@command.command()
@click.argument("name", required=False)
@click.option("--hosts", default=2, show_default=True, type=click.IntRange(0, 50), help="Persistent execution hosts.")
@click.option("--slots", default=2, show_default=True, type=click.IntRange(0, 100_000), help="Slots of each of them.")
@click.option(
    "--bare",
    is_flag=True,
    help="Leave the master as the installation made it: no queue, host group, PE or submit host.",
)
@json_option
def up(name: str | None, hosts: int, slots: int, bare: bool, as_json: bool) -> None:
    """Bring up a cell and hold it until Ctrl-C; in a terminal, until the shell in it ends."""
    obstacle = missing() or namespaces.probe()
    if obstacle:
        raise CellError(obstacle)
    signal.signal(signal.SIGTERM, _end)
    declared = [ExecHost(namespaces.default_name(FIRST_HOST + number), slots) for number in range(hosts)]
    with (
        cell_folder.claim(name) as place,
        Cell.up(hosts=declared, directory=place, prepared=not bare) as cell,
    ):
        message = f"cell {place.name} is up: master and {count(hosts, 'host')}, SGE_ROOT {cell.root}"
        print_progress(message, as_json=as_json, cell=place.name, hosts=hosts, sge_root=str(cell.root))
        if not as_json:
            echo(f"enter it with: sge-autoscaler cell exec {place.name} -- qstat -f")
        if sys.stdin.isatty():
            _run(cell, ("bash", "--norc"), None)
        else:
            _hold(cell)
    print_progress(f"cell {place.name} has ended", as_json=as_json, cell=place.name)


@command.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False)
@click.option("--host", help="Run on this execution host instead of the master.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def enter(name: str | None, host: str | None, argv: tuple[str, ...]) -> int:
    """Run ARGV (a shell if none is given) on the master of cell NAME (the only one if none is given).

    The exit status is that of ARGV. An autoscaler started there rents its `local` machines on the cell's own network
    and keeps its state in the cell, so that both end with it. ARGV gets no other variables of the caller than TERM: set
    those of the autoscaler by `env NAME=VALUE …` there.
    """
    cell = Cell.at(cell_folder.find(name))
    if host is not None and host not in cell.tree.hosts():
        raise NotFound(f"the cell has no host {host}; its hosts: {', '.join(cell.tree.hosts()) or 'none'}")
    return _run(cell, argv or ("bash", "--norc"), host)


@command.command()
@click.argument("name", required=False)
@json_option
def down(name: str | None, as_json: bool) -> None:
    """End cell NAME (the only one if none is given) and everything in it."""
    place = cell_folder.find(name)
    first = namespaces.holder(place / "tree" / "first")
    if first is not None:
        os.kill(first, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while place.name in cell_folder.living():
        if time.monotonic() > deadline:
            raise CellError(f"cell {place.name} did not end within 10 s")
        time.sleep(0.02)
    print_result(f"cell {place.name} has ended", as_json=as_json, cell=place.name)


@command.command("list")
@json_option
def show(as_json: bool) -> None:
    """Name the cells that live on this machine."""
    names = list(cell_folder.living())
    if as_json:
        print_json({"schema": SCHEMA, "cells": names})
        return
    for name in names:
        echo(name)


def _run(cell: Cell, argv: tuple[str, ...], host: str | None) -> int:
    env = {
        "PS1": f"{host or 'master'}:\\w# ",
        "TERM": os.environ.get("TERM", "dumb"),
        "CP_CAP_AUTOSCALE_PROVIDER": "local",
        "CP_CAP_AUTOSCALE_LOCAL_NETWORK": str(cell.tree.directory),
        "CP_CAP_AUTOSCALE_WORKDIR": str(cell.directory / "state"),
    }
    started: list[Running] = []
    early: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        if started:
            started[0].signal(signal.Signals(number))
        else:
            early.append(number)

    # Signals to this process alone. Set before the start, since the child may be ready before `start` returns.
    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with cell.start(argv, host=host, env=env, terminal=True) as child:
            started.append(child)
            for number in early:
                child.signal(signal.Signals(number))
            # Ctrl-C is for the child. Set after its start, since it would inherit an ignored signal.
            before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
            status = child.child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _hold(cell: Cell) -> None:
    while namespaces.holder(cell.tree.directory / "first") is not None:
        time.sleep(WATCH)


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
