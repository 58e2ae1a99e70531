"""The request for a worker's run: the call's fields and the run's parameters. Pure.

A worker enrols itself by its image. It must know its queue, and must not start a Grid Engine or an autoscaler of its
own: it inherits the image of the master, which does. The boot script is a parameter and runs before the command: the
platform writes commands into the run's log, so a secret must not be in them.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from autoscaler.core.model.fleet import PriceType
from autoscaler.providers.cloud_pipeline.runs import BOOT, CELL, GROUP, INDEX, NODE_ARRAY, ORDER, TOKEN, encoded
from autoscaler.providers.cloud_pipeline.settings import CloudPipelineSettings
from autoscaler.providers.interface import GROUP_ID, LaunchOrder, Refused

_ROLE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "CP_CAP_SGE": ("false", "boolean"),
        "CP_CAP_AUTOSCALE": ("false", "boolean"),
        "CP_CAP_AUTOSCALE_WORKERS": ("0", "int"),
        "CP_DISABLE_RUN_ENDPOINTS": ("true", "boolean"),
        "cluster_role": ("worker", "string"),
        "cluster_role_type": ("additional", "string"),
    }
)
MOST_BOOT = 65536
"""Characters of a boot script as a parameter: it is a variable of the run, of which Linux accepts twice as many."""
_RUN_BOOT = f'printf %s "${BOOT}" | base64 -d | gzip -dc | sh'


@dataclass(frozen=True, slots=True)
class Inheritance:
    """The master run's parameters that its workers get, too: by name, and by prefix."""

    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()

    def taken(
        self, parameters: Mapping[str, str], environment: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str]:
        """Of the launcher's environment, else of the run's record, whose text cannot hold every value."""
        return {
            name: value
            for name, value in {**parameters, **environment}.items()
            if value and (name in self.names or any(name.startswith(prefix) for prefix in self.prefixes if prefix))
        }


def inheritance(settings: CloudPipelineSettings, system_parameters: object) -> Inheritance:
    """The parameters that the settings name, and those that the platform marks as `passToWorkers` among its own.

    `system_parameters`: the value of its preference `launch.system.parameters`, JSON text; other values add nothing.
    """
    try:
        listed = json.loads(system_parameters) if isinstance(system_parameters, str) else system_parameters
    except ValueError:
        listed = None
    passed = [
        item
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict) and item.get("passToWorkers") is True and item.get("name")
    ]
    return Inheritance(
        (*settings.inherited_names, *(str(item["name"]) for item in passed if not item.get("prefix"))),
        (*settings.inherited_prefixes, *(str(item["name"]) for item in passed if item.get("prefix"))),
    )


def launch_body(
    order: LaunchOrder, index: int, settings: CloudPipelineSettings, inherited: Mapping[str, str]
) -> dict[str, Any]:
    """The body of `POST run` for the `index`-th worker of an order.

    Settings of the node array win over the master's own. Raises Refused if they are impossible.
    """
    own, bucket = order.settings, order.buckets[0]
    given = dict(inherited)
    if settings.owner_parameter and settings.owner:
        given[settings.owner_parameter] = settings.owner
    marks = {
        CELL: encoded(order.cell),
        ORDER: encoded(order.order_id),
        TOKEN: encoded(order.token),
        INDEX: str(index),
        NODE_ARRAY: encoded(order.node_array),
        "CP_CAP_SGE_QUEUE_NAME": _whole("queue", own.get("CP_CAP_SGE_QUEUE_NAME", settings.queue)),
        "CP_CAP_SGE_HOSTLIST_NAME": _whole("host group", own.get("CP_CAP_SGE_HOSTLIST_NAME", settings.host_group)),
    }
    if GROUP_ID in order.tags:
        marks[GROUP] = encoded(order.tags[GROUP_ID])
    command = own.get("CP_CAP_AUTOSCALE_CMD_TEMPLATE", settings.command)
    if order.boot_script:
        marks[BOOT] = _packed(order.boot_script)
        command = f"{_RUN_BOOT}; {command}"
    params = {name: _parameter(value) for name, value in {**given, **marks}.items()}
    params |= {name: _parameter(value, kind) for name, (value, kind) in _ROLE.items()}
    return {
        "instanceType": bucket.type.name,
        "hddSize": _disk(own.get("CP_CAP_AUTOSCALE_INSTANCE_DISK"), settings),
        "dockerImage": own.get("CP_CAP_AUTOSCALE_INSTANCE_IMAGE", settings.image),
        "cmdTemplate": command,
        "nodeCount": None,
        "isSpot": bucket.key.price_type is PriceType.SPOT,
        "cloudRegionId": settings.region_id,
        "parentRunId": settings.run_id,
        "timeout": None,
        "params": params,
        "tags": {**order.tags, "sge-autoscaler-cell": order.cell, "sge-autoscaler-order": order.order_id},
    }


def _whole(what: str, name: str) -> str:
    """A name that the worker's image reads, and so nobody decodes. Raises Refused if the platform would split it."""
    if "|" in name or "=" in name:
        raise Refused(f"the {what} {name!r} has a character at which the platform splits a run's parameters: rename it")
    return name


def _packed(boot_script: str) -> str:
    """The same text every time, without the `=` that fills up base64. Raises Refused for one that is too long for a
    run's environment.
    """
    packed = "="
    while packed.endswith("="):  # a line more at its end changes its length
        packed = base64.b64encode(gzip.compress(boot_script.encode(), mtime=0)).decode("ascii")
        boot_script += "\n"
    if len(packed) > MOST_BOOT:
        raise Refused(
            f"the worker configuration has {len(packed)} characters, compressed, but a run takes only "
            f"{MOST_BOOT}: make the Configuration of its node array smaller"
        )
    return packed


def _disk(own: str | None, settings: CloudPipelineSettings) -> int:
    if own is None:
        return settings.disk
    if not own.isdecimal() or int(own) == 0:
        raise Refused(f"CP_CAP_AUTOSCALE_INSTANCE_DISK = {own!r} is not a size in GB")
    return int(own)


def _parameter(value: str, kind: str = "string") -> dict[str, Any]:
    return {"value": value, "type": kind, "required": False}
