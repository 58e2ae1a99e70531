"""A worker's own configuration: a flat file that its boot script writes and that scripts on it read.

Keys are CycleCloud's dotted ones, so that a script written for its nodes finds them. One line a key: key, tab, value,
with escapes that `printf %b` of every POSIX shell undoes. Standard library only: a job may ask often.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STOP_CALLBACK = "cyclecloud.cluster.autoscale.stop_callback"
INSTANCE_ID = "cyclecloud.instance.id"
NODE_NAME = "cyclecloud.node.name"
CLUSTER_NAME = "cyclecloud.cluster.name"
NODE_ARRAY = "cyclecloud.node.template"
GROUP_ID = "cyclecloud.node.group_id"
OWN = frozenset({STOP_CALLBACK, INSTANCE_ID, NODE_NAME, CLUSTER_NAME, NODE_ARRAY, GROUP_ID})
"""Keys that the autoscaler answers; no configuration of a node array changes them."""

FILE = "worker.conf"
FOLDERS = (Path("/run/sge-autoscaler/worker"), Path("/etc/sge-autoscaler"))
"""The paths to try: first that of a machine of namespaces, which shares /etc with its host."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
_ESCAPE = re.compile(r"\\(\\|0[0-7]{3})")


def flat(configuration: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Nested objects as dotted keys. Text stays as it is, null is empty; everything else is written as JSON."""
    found: dict[str, str] = {}
    for name, value in configuration.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{key}.")
        else:
            found[key] = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return found


def of_node_array(
    configuration: Mapping[str, Any], *, cluster: str, node_array: str = "", group_id: str = ""
) -> dict[str, str]:
    """The values for all machines of one order: the node array's configuration, and where they belong."""
    given = {key: value for key, value in flat(configuration).items() if key not in OWN}
    known = {CLUSTER_NAME: cluster, NODE_ARRAY: node_array, GROUP_ID: group_id}
    return given | {key: value for key, value in known.items() if value}


def write(values: Mapping[str, str]) -> str:
    """The file's text."""
    return "".join(f"{_escaped(key)}\t{_escaped(value)}\n" for key, value in sorted(values.items()))


def read(text: str) -> dict[str, str]:
    """The values that `write` made this text of. A line without a tab is not ours, and is left out."""
    lines = (line.split("\t", 1) for line in text.split("\n") if "\t" in line)
    return {_unescaped(key): _unescaped(value) for key, value in lines}


def answer(values: Mapping[str, str], key: str) -> str | None:
    """The value of a key; of one with keys below it, all of those as a JSON object. None: there is none."""
    if key in values:
        return values[key]
    below = {name.removeprefix(f"{key}."): value for name, value in values.items() if name.startswith(f"{key}.")}
    return json.dumps(nested(below)) if below else None


def nested(values: Mapping[str, str]) -> dict[str, Any]:
    """Dotted keys as nested objects, lists as lists; every other value stays text, or version 1.10 would become 1.1. A
    key that has a value and others below it keeps its dots.
    """
    tree: dict[str, Any] = {}
    for key, value in sorted(values.items()):
        *path, last = key.split(".")
        place: Any = tree
        for part in path:
            place = place.setdefault(part, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[last] = _list_or_text(value)
        else:
            tree[key] = _list_or_text(value)
    return tree


def _list_or_text(value: str) -> Any:
    if not value.startswith("["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def order_key(secret: bytes, order_id: str) -> str:
    """The secret that the machines of one order share: it is in their boot script, which jobs on them may be able to
    read.
    """
    return hmac.new(secret, order_id.encode(), hashlib.sha256).hexdigest()


def stop_token(key: str, instance: str) -> str:
    """The token of one machine that asks to stop. The boot script makes the same with `sha256sum`."""
    return hashlib.sha256(f"{key}:{instance}".encode()).hexdigest()


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: r"\\" if found.group() == "\\" else f"\\0{ord(found.group()):03o}", text)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\\" if found.group(1) == "\\" else chr(int(found.group(1), 8)), text)
