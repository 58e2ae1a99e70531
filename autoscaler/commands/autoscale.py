"""`sge-autoscaler autoscale`: request a number of workers or vCPUs of node arrays, for a limited time."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from autoscaler.commands._duration import Duration
from autoscaler.commands._output import echo, json_option, print_json
from autoscaler.commands._service import call, own_store, service
from autoscaler.commands.context import Invocation
from autoscaler.constraints.json_text import read_json
from autoscaler.constraints.request_documents import DEFAULT_EXPIRATION
from autoscaler.core.model.request_sets import STANDARD
from autoscaler.errors import SettingsError
from autoscaler.jetpack.service import Rejected, Unreachable


@click.command("autoscale")
@click.option("--name", help="Name of the node array.")
@click.option("--corecount", type=int, help="Number of vCPUs, rounded up to whole workers.")
@click.option("--count", type=int, help="Number of workers.")
@click.option(
    "-f",
    "--file",
    "document",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Instead: a JSON list of node arrays, as `jetpack.autoscale.update` takes it; - reads standard input.",
)
@click.option(
    "--request-set",
    default=STANDARD,
    show_default=True,
    help="Name of the request set; the targets of all sets add up.",
)
@click.option(
    "--expiration",
    type=Duration(),
    default=DEFAULT_EXPIRATION,
    show_default=True,
    help="How long the request holds: 90, 2h, 7d.",
)
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    name: str | None,
    corecount: int | None,
    count: int | None,
    document: Path | None,
    request_set: str,
    expiration: float,
    as_json: bool,
) -> None:
    """Request a number of workers or vCPUs of node arrays. The request lapses unless you repeat it. It replaces the
    former targets of its request set; --count=0 requests nothing.

    The request goes to the autoscaler that listens. If none does, it is stored for the next one that runs.
    """
    if (document is None) == (name is None):
        raise click.UsageError("give either --name or --file")
    if document is not None:
        if corecount is not None or count is not None:
            raise click.UsageError("--corecount and --count belong to --name; the file has its own")
        arrays = _read(document)
    else:
        if corecount is None and count is None:
            raise click.UsageError("give --corecount or --count")
        given = {"Name": name, "TargetCoreCount": corecount, "TargetCount": count}
        arrays = [{key: value for key, value in given.items() if value is not None}]
    answer = ask(invocation, {"arrays": arrays, "request_set": request_set, "expiration_interval": expiration})
    if as_json:
        print_json(
            {**answer, "expires_at": datetime.fromtimestamp(answer["expires_at"], UTC).isoformat(timespec="seconds")}
        )
        return
    requested = ", ".join(answer["arrays"]) or "nothing"
    left = answer["expires_at"] - time.time()
    echo(
        f"request set {answer['request_set']}: {requested} for {left:.0f} s"
        + (f"; {answer['note']}" if answer["note"] else "")
    )


def ask(invocation: Invocation, document: dict[str, Any]) -> dict[str, Any]:
    """Send the request to the service; if none answers and we may write this cell's state, store it there. Raises
    SettingsError, Rejected, Unreachable.
    """
    answer = call(invocation, "POST", "/autoscale", document)
    if answer is not None:
        return answer
    with own_store(invocation) as store:
        names = [array.name for array in invocation.settings.policy(master="").node_arrays]
        status, answer = service(invocation, store, lambda: names, lambda: None).update(
            json.dumps(document), invocation.who
        )
    if "error" in answer:
        raise Rejected(answer["error"]) if status < 500 else Unreachable(answer["error"])
    return answer


def _read(document: Path) -> Any:
    try:
        with click.open_file(str(document), encoding="utf-8") as file:
            return read_json(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {document}: {error}") from error
    except SettingsError as error:
        raise SettingsError(f"{document}: {error}") from error
