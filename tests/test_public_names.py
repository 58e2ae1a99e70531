"""Every public name: what settings files, scripts, programs, dashboards and records of others rely on.

`pytest -s tests/test_public_names.py` prints the list. It is frozen at the first release and not before: `make release`
writes it to `tests/public_names.txt`, and from then on a name in that file may not go.
"""

from __future__ import annotations

import configparser
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from autoscaler.api import answers_routes, auto_stop, override_routes
from autoscaler.api import routes as api_routes
from autoscaler.commands.main import Commands
from autoscaler.core.model.evidence import Evidence
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import Requests
from autoscaler.core.notifications.causes import KINDS
from autoscaler.engine.record import FILES
from autoscaler.report.metrics import METRICS, PREFIX
from autoscaler.store.store import Store

ROOT = Path(__file__).parents[1]
ROUTING = (api_routes, answers_routes, override_routes, auto_stop)
FROZEN = Path(__file__).parent / "public_names.txt"


def settings() -> Iterator[str]:
    page = (ROOT / "docs/configure.md").read_text()
    yield from re.findall(r"^(?:\||-) `(CP_CAP_\w+)`", page, re.MULTILINE)
    (of_platform,) = re.findall(r"^Only the provider `cloud_pipeline` needs these: (.*)$", page, re.MULTILINE)
    yield from re.findall(r"`(CP_CAP_\w+)`", of_platform)


def commands(group: click.Command | None = None, name: str = "sge-autoscaler") -> Iterator[str]:
    """Each command, and its options after it."""
    found = group or Commands(name)
    yield name
    for parameter in found.params:
        yield from (f"{name} {each}" for each in parameter.opts if each.startswith("-"))
    if isinstance(found, click.Group):
        context = click.Context(found)
        for each in found.list_commands(context):
            inner = found.get_command(context, each)
            assert inner is not None
            yield from commands(inner, f"{name} {each}")


def json_keys() -> Iterator[str]:
    """Keys of the plan's document by part, and those that docs/json.md names for other commands."""
    schema = json.loads((ROOT / "conf/plan.schema.json").read_text())
    for title, part in {"PlanDocument": schema, **schema["$defs"]}.items():
        yield from (f"{title}.{key}" for key in part.get("properties", ()))
    for row in re.findall(r"^\| (`.*--json`.*)$", (ROOT / "docs/json.md").read_text(), re.MULTILINE):
        shown, _, keys = row.partition(" | ")
        named = re.sub(r"[`,]", "", shown).split(" --json")[0]
        yield from (f"{named}: {key}" for key in re.findall(r"`([a-z_]+)`", keys))


def record_files() -> Iterator[str]:
    """Files of a record folder, and the keys in those that are ours."""
    yield from FILES
    for name, kind in (
        ("memory.json", Memory),
        ("evidence.json", Evidence),
        ("overrides.json", Overrides),
        ("requests.json", Requests),
    ):
        yield from (f"{name}: {path}" for path in _fields(kind))


def _fields(kind: Any, path: str = "") -> Iterator[str]:
    from typing import get_args, get_type_hints

    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        for name, hint in get_type_hints(kind).items():
            yield f"{path}{name}"
            yield from _fields(hint, f"{path}{name}.")
        return
    for inner in get_args(kind):
        if not (inner is kind or path.count(".") > 6):
            yield from _fields(inner, path)


def tables() -> Iterator[str]:
    """Tables and columns of the state's database."""
    database = Store.open(None).database
    for row in database.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"):
        yield from (f"{row['name']}.{each['name']}" for each in database.rows(f"PRAGMA table_info({row['name']})"))


def metrics() -> Iterator[str]:
    for metric in METRICS:
        yield f"{PREFIX}{metric.name}"
        yield from (f"{PREFIX}{metric.name}{{{label}}}" for label in metric.labels)


def codes() -> Iterator[str]:
    yield from (code.value for code in Code)
    yield from (f"notification {kind.name}" for kind in KINDS)


def routes() -> Iterator[str]:
    """Of all listeners. Included routers are asked themselves: the application has them as they are."""
    routers = [value for module in ROUTING for value in vars(module).values() if isinstance(value, APIRouter)]
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        yield from (f"{method} {route.path}" for method in route.methods or ())


def entry_points() -> Iterator[str]:
    given = configparser.ConfigParser()
    given.read(ROOT / "setup.cfg")
    for group, lines in given["options.entry_points"].items():
        yield group
        yield from (f"{group}: {line.split('=')[0].strip()}" for line in lines.strip().splitlines())


def names() -> dict[str, list[str]]:
    found = {
        "setting": settings(),
        "command": commands(),
        "json": json_keys(),
        "record": record_files(),
        "table": tables(),
        "metric": metrics(),
        "reason": codes(),
        "route": routes(),
        "entry point": entry_points(),
    }
    return {kind: sorted(set(each)) for kind, each in found.items()}


def listed() -> list[str]:
    """All of them, a line each, as tests/public_names.txt has them."""
    return [f"{kind}: {name}" for kind, each in names().items() for name in each]


def test_every_public_name_is_listed_and_no_frozen_one_is_gone() -> None:
    found, lines = names(), listed()
    print("\n" + "\n".join(lines))
    assert {kind: len(each) > 5 for kind, each in found.items()} == dict.fromkeys(found, True)
    frozen = FROZEN.read_text("utf-8").splitlines() if FROZEN.exists() else []
    assert sorted(set(frozen) - set(lines)) == []


@pytest.mark.parametrize(
    ("kind", "name"),
    (
        ("setting", "CP_CAP_AUTOSCALE_WORKERS"),
        ("command", "sge-autoscaler plan --from"),
        ("command", "sge-autoscaler serve token create --json"),
        ("json", "PlanDocument.job_categories"),
        ("json", "status: circuit_breaker"),
        ("record", "overrides.json"),
        ("record", "memory.json: workers.joined_at"),
        ("table", "node_operations.worker_id"),
        ("metric", f"{PREFIX}offers_in_backoff"),
        ("reason", "RUNS_JOBS"),
        ("route", "GET /clusters/{cluster}/status"),
        ("entry point", "sge_autoscaler.providers: aws"),
    ),
)
def test_names_of_each_kind_are_found(kind: str, name: str) -> None:
    assert name in names()[kind]
