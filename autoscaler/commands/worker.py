"""`sge-autoscaler worker`: commands for scripts on a worker. They need no cell, no settings and no rights."""

from __future__ import annotations

import json
from pathlib import Path

import click

from autoscaler.commands._output import echo, json_option, print_json
from autoscaler.errors import NotFound
from autoscaler.report import SCHEMA
from autoscaler.worker_configuration import FILE, FOLDERS, answer, nested, read


@click.group("worker")
def command() -> None:
    """Commands for scripts on a worker."""


@command.group("config")
def config() -> None:
    """Show the configuration of this worker, under CycleCloud's keys."""


@config.command("get")
@click.argument("key")
@click.argument("default", required=False)
@json_option
def get(key: str, default: str | None, as_json: bool) -> None:
    """Print the value of KEY, an object as JSON. If there is none: DEFAULT, or exit code 3.

    \b
    cyclecloud.instance.id                        the machine's id at its provider
    cyclecloud.node.group_id                      of one that belongs to a group
    cyclecloud.cluster.autoscale.stop_callback    where it may ask to stop: GET URL?instance=ID
    application_version                           a key of its node array's Configuration
    """
    values = _values()
    found = answer(values, key)
    if found is None and default is None:
        raise NotFound(
            f"this worker's configuration has no {key}; `sge-autoscaler worker config list` shows what it has"
        )
    value = (default if found is None else found) or ""
    if as_json:
        below = found if found is None or key in values else json.loads(found)
        document = {"schema": SCHEMA, "key": key, "value": value if below is None else below, "default": found is None}
        print_json(document)
    else:
        echo(value)


@config.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, dotted keys as nested objects.")
def list_(as_json: bool) -> None:
    """Print every key with its value."""
    values = _values()
    if as_json:
        print_json(nested(values))
        return
    for key, value in sorted(values.items()):
        echo(f"{key} = {value}")


def _values(folders: tuple[Path, ...] = FOLDERS) -> dict[str, str]:
    for folder in folders:
        try:
            return read((folder / FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise NotFound(f"this worker's configuration cannot be read: {error}") from error
    raise NotFound(
        f"this machine has no {FILE} in {' or '.join(map(str, folders))}: a worker's boot script writes it, and "
        "this machine was not booted by one"
    )
