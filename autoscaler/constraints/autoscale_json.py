"""Imports an `autoscale.json` of cyclecloud-scalelib as settings and rules, with a note for each other key.

The file contains a password. Neither it nor the value of an unknown key is ever printed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from autoscaler.constraints.autoscale_defaults import (
    NODE_ARRAY,
    NODE_ARRAY_RESOURCE,
    Renamed,
    defaults_in_our_names,
    in_our_names,
    names_of_arrays,
    ours_of,
)
from autoscaler.constraints.documents import Names, constraints_from, entries, listed, truth, words, wrong
from autoscaler.constraints.json_text import below
from autoscaler.constraints.rule_words import resources_named
from autoscaler.constraints.rules import rules_from, timeout_from
from autoscaler.core.constraints.default_resources import BY_ITSELF
from autoscaler.settings.policies import array_name

PASSWORD_FILE = "/etc/sge-autoscaler/cyclecloud.password"
_CYCLECLOUD = "CP_CAP_AUTOSCALE_CYCLECLOUD_"
_COMPLEXES = "gridengine.relevant_complexes"
_TIMEOUTS: Mapping[str, str] = MappingProxyType(
    {"idle_timeout": "CP_CAP_AUTOSCALE_IDLE_TIMEOUT", "boot_timeout": "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT"}
)
_NO_MEANING: Mapping[str, str] = MappingProxyType(
    {
        "logging": "the service logs to standard error, and systemd keeps it",
        "lock_file": "one autoscaler serves a cell: it holds a lock of its own",
        "lock_path": "one autoscaler serves a cell: it holds a lock of its own",
        "output_columns": "commands print their own columns, and everything with --json",
        "valid_hostnames": "a worker joins under the name that CycleCloud reports",
        "assume_standalone_hostnames": "a worker joins under the name that CycleCloud reports",
        "include": "files that it names are not read: import each separately",
        "nodearrays": "request placement groups by groups of workers (docs/groups.md)",
        "disable_default_resources": "ncpus, pcpus, ngpus, memory and nodearray are always known",
        "pbspro": "it is of another scheduler",
        "slurm": "it is of another scheduler",
    }
)
_NO_MEANING_HERE = "it has no meaning here"
_OF_GRID_ENGINE: Mapping[str, str] = MappingProxyType(
    {
        "hostgroups": "workers of a queue join one host group: name it by CP_CAP_SGE_HOSTLIST_NAME (further queues: "
        "CP_CAP_SGE_HOSTLIST_NAME_1 …)",
        "pes": "name those that require placement groups in CP_CAP_AUTOSCALE_GROUP_PES (docs/groups.md); all else of a "
        "parallel environment is read from Grid Engine",
    }
)
Settings = dict[str, str | int | float | bool]


@dataclass(slots=True)
class Imported:
    """The result of an import."""

    settings: Settings = field(default_factory=dict)
    """By environment name, as a settings file holds them."""
    rules: dict[str, Any] = field(default_factory=dict)
    """A document of rules; empty: none are needed."""
    notes: list[str] = field(default_factory=list)
    """`key: why`, for keys that were left out or need attention."""

    def note(self, key: str, why: str) -> None:
        self.notes.append(f"{key}: {why}")


def import_autoscale(document: Any) -> Imported:
    """The settings and rules of a document. Raises SettingsError with the place of an error."""
    given = entries(document, "the document")
    found = Imported({"CP_CAP_AUTOSCALE_PROVIDER": "cyclecloud"})
    _server(given, found)
    grid_engine = entries(given.get("gridengine", {}), "gridengine")
    defaults, complexes = given.get("default_resources", []), grid_engine.get("relevant_complexes", [])
    named = resources_named({"default_resources": defaults})
    renamed = _queues(entries(grid_engine.get("queues", {}), "gridengine.queues"), found, named)
    made = defaults_in_our_names(defaults, "default_resources", renamed, found.note)
    if json.dumps(NODE_ARRAY_RESOURCE) in json.dumps([given]) and NODE_ARRAY_RESOURCE not in named:
        made = [*names_of_arrays(renamed, found.note), *made]
    if made:
        found.rules["default_resources"] = made
    _timeouts(given, grid_engine, renamed, found)
    _complexes(complexes, {entry["name"] for entry in made}, found)
    _left_over(given, grid_engine, found)
    rules_from(found.rules)  # the made rules must be valid themselves
    return found


def _server(given: Mapping[str, Any], found: Imported) -> None:
    for key in ("url", "username", "cluster_name"):
        if key not in given:
            continue
        value = words(given[key], key)
        if key == "url" and "@" in urlsplit(value).netloc:
            wrong(key, "it holds a password: take it out of the address, and change it")
        found.settings[_CYCLECLOUD + key.removesuffix("_name").upper()] = value
    if "password" in given:
        found.settings[f"{_CYCLECLOUD}PASSWORD"] = f"file:{PASSWORD_FILE}"
        found.note("password", f"it is not repeated: write it into {PASSWORD_FILE}, which only root may read")
    if "verify_certificates" in given:
        found.settings[f"{_CYCLECLOUD}VERIFY"] = truth(given["verify_certificates"], "verify_certificates")
    else:
        found.note("verify_certificates", f"without it certificates are verified here: see {_CYCLECLOUD}CA")
    if "read_only" in given and truth(given["read_only"] or False, "read_only"):
        found.settings["CP_CAP_AUTOSCALE_DRY_RUN"] = True


def _queues(queues: Mapping[str, Any], found: Imported, resources: Names) -> Renamed:
    """Import the queues; return our node arrays by the cluster's names."""
    renamed: dict[str, list[str]] = {}
    pairs: list[str] = []
    applied: list[dict[str, Any]] = []
    for number, (name, value) in enumerate(queues.items()):
        at, suffix = below("gridengine.queues", name), str(number) if number else ""
        queue, ours = entries(value, at), array_name(suffix)
        end = f"_{suffix}" if suffix else ""
        found.settings[f"CP_CAP_SGE_QUEUE_NAME{end}"] = name
        hosts = queue.get("hostlist")
        if isinstance(hosts, str) and hosts.startswith("@"):
            found.settings[f"CP_CAP_SGE_HOSTLIST_NAME{end}"] = hosts
        elif "hostlist" in queue:
            found.note(below(at, "hostlist"), f"name the host group of its workers: CP_CAP_SGE_HOSTLIST_NAME{end}")
        theirs, others = _split(queue.get("constraints", []), below(at, "constraints"), resources)
        for each in theirs:
            if each in renamed:
                found.note(
                    below(at, f"constraints: {each}"),
                    f"it serves {renamed[each][0]} already, and can serve one queue: give this one another node array",
                )
                continue
            pairs.append(f"{ours}={each}")
            renamed[each] = [ours]
        if others:
            applied.append({"queue": name, "constraints": others})
        for key in queue.keys() - {"hostlist", "constraints"}:
            why = "a queue's parallel environments are Grid Engine's own (pe_list); groups: docs/groups.md"
            found.note(below(at, key), why if key == "pes" else _NO_MEANING_HERE)
    if pairs:
        found.settings[f"{_CYCLECLOUD}NODE_ARRAYS"] = ",".join(pairs)
    else:
        found.note("gridengine.queues", f"say which node arrays serve which queue: {_CYCLECLOUD}NODE_ARRAYS")
    if applied:
        found.rules["apply"] = in_our_names(applied, "gridengine.queues: constraints", renamed, found.note)
    return renamed


def _split(value: Any, at: str, resources: Names) -> tuple[list[str], list[Any]]:
    """The cluster's node arrays that constraints name, and the constraints without them."""
    constraints_from(value, at=at, resources=resources)
    theirs: list[str] = []
    others: list[Any] = []
    for part in listed(value, at):
        given = part if isinstance(part, dict) else {}
        named = given.get(NODE_ARRAY, [])
        theirs += named if isinstance(named, list) else [named]
        rest = {key: each for key, each in given.items() if key != NODE_ARRAY} if given else part
        if rest:
            others.append(rest)
    return list(dict.fromkeys(theirs)), others


def _timeouts(given: Mapping[str, Any], grid_engine: Mapping[str, Any], renamed: Renamed, found: Imported) -> None:
    """Import timeouts: a single one as a setting of each queue, those by node array as rules."""
    for key, setting in _TIMEOUTS.items():
        at = key if key in given else below("gridengine", key)
        value = given.get(key, grid_engine.get(key))
        if value is None:
            found.note(key, f"it is not given: here {setting} holds, which has a default of its own")
        elif isinstance(value, dict):
            by_array = {name: _seconds(part, below(at, name)) for name, part in entries(value, at).items()}
            if "default" not in by_array:
                wrong(below(at, "default"), "it is missing: the value for node arrays that are not named")
            everywhere = by_array.pop("default")
            found.rules[key] = {"default": everywhere} | {
                ours: seconds
                for name, seconds in by_array.items()
                for ours in ours_of(name, below(at, name), renamed, found.note)
            }
        else:
            queues = max(1, len(grid_engine.get("queues", {})))
            ends = [f"_{number}" if number else "" for number in range(queues)]
            found.settings |= dict.fromkeys((setting + end for end in ends), _seconds(value, at))


def _seconds(value: Any, at: str) -> int | float:
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    timeout_from(number, at=at)
    return int(number) if number == int(number) else float(number)


def _complexes(value: Any, resources: Names, found: Imported) -> None:
    """Import complexes, each as the resource of the same name."""
    at = _COMPLEXES
    mapped: dict[str, str] = {}
    for number, part in enumerate(listed(value, at)):
        name, place = words(part, f"{at}[{number}]"), f"{at}[{number}]"
        if name == "slots":
            found.note(
                place, "slots are a worker's vCPUs: rules set none (CP_CAP_SGE_WORKER_FREE_CORES keeps some back)"
            )
        elif name == "exclusive":
            found.note(place, "every worker carries the cell's complex with the relation EXCL anyway")
        elif name in resources or name in BY_ITSELF:
            mapped[name] = name
        else:
            found.note(place, f"no default resource gives {name}: workers have it only where their hosts report it")
    if mapped:
        found.rules["complexes"] = mapped


def _left_over(given: Mapping[str, Any], grid_engine: Mapping[str, Any], found: Imported) -> None:
    taken = {"url", "username", "password", "cluster_name", "verify_certificates", "read_only", *_TIMEOUTS}
    for key in given.keys() - taken - {"gridengine", "default_resources"}:
        found.note(key, _NO_MEANING.get(key, _NO_MEANING_HERE))
    for key in grid_engine.keys() - {"queues", "relevant_complexes"}:
        if key not in _TIMEOUTS:
            found.note(below("gridengine", key), _OF_GRID_ENGINE.get(key, _NO_MEANING_HERE))
        elif key in given:
            found.note(below("gridengine", key), f"{key} beside it holds")
    found.note("CP_CAP_AUTOSCALE_INSTANCE_TYPE", "name a VM size of the node array; the file names none")
    found.note("CP_CAP_AUTOSCALE_WORKERS", "most workers at a time: the file has no limit, the default is low")
    found.notes.sort()


def settings_lines(settings: Mapping[str, str | int | float | bool]) -> Sequence[str]:
    """The lines of a settings file (TOML)."""
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()]
