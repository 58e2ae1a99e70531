"""The names in a record, by kind: a record without names must replace them."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from autoscaler.core.actions import PROBE_HOST_PREFIX
from autoscaler.core.snapshot import Snapshot

OF_JOB = {
    "JB_owner": "user",
    "JB_group": "group",
    "JB_project": "project",
    "JB_department": "department",
    "JB_account": "account",
    "JB_name": "job",
    "JB_job_name": "job",
    "full_job_name": "job",
    "JB_script_file": "script",
    "JB_mail_list": "mail",
    "MR_user": "user",
    "predecessor_jobs_req": "job",
    "ad_predecessor_jobs_req": "job",
}
"""Elements of `qstat -xml` that hold one name, and its kind."""
OF_USERS = frozenset({"owner", "owners", "user", "users", "by", "who", "paused_by", "stopped_by", "asked_by"})
"""Fields of JSON that hold names of users."""
OF_NAMED = frozenset({"asked_by", "stopped"})
"""Fields of JSON that hold such values by names of others."""
OF_HOSTS = frozenset({"host", "hosts", "hostname"})
"""Fields of JSON that hold names of hosts."""
_OF_GROUPS = frozenset({"group_id", "placement_group"})
_OF_ACCOUNTS = frozenset({"account"})
_OF_PROJECTS = frozenset({"project", "projects"})
OWN_SETS = re.compile(r"standard|policy:.*")
"""Names of request sets that are ours."""
_LISTS = re.compile(r"^(?:x?user_lists|x?projects|acl|xacl|owner_list)\s+(.*)$", re.MULTILINE)
_SCOPES = re.compile(r"\b(users|projects|hosts)\s+(\{[^}]*\}|\S+)")
_HOST_LISTS = re.compile(r"^hostlist\s+(.*)$", re.MULTILINE)
_BY_HOST = re.compile(r"\[([\w.-]+)=")
"""A queue attribute's value for one host."""
_ASKED_HOSTS = re.compile(
    r"<(?:hard|soft)_request name=['\"](?:h|hostname)['\"][^<>]*>([^<]+)<"
    r"|<CE_name>(?:h|hostname)</CE_name>(?:(?!<CE_name>).)*?<CE_stringval>([^<]+)<",
    re.DOTALL,
)
_AT_HOST = re.compile(r"<(?:(?:\w*req_queue|QR_name|name)>[^<@]*@|(?:MR|PN|PN_file)_host>)([\w.-]+)<")
_LONG_NAME = re.compile(r"(?<![\w.@/+-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.){2,}[A-Za-z]{2,}(?![\w-]|\.\w)")
"""A host's name with its domain, in any text."""
KEPT = frozenset({"NONE", "none", "all", "root", "sgeadmin", "master", "global", "template", "sge", "default"})
KEPT |= {"arusers", "deadlineusers", "defaultdepartment"}
"""Names that every Grid Engine has."""
_WORD = re.compile(r"[^\s,=\[\]{}()|!]+")
NODE = re.compile(r"(<([\w:-]+)(?:\s[^<>]*)?>)([^<]+)")


def names_in(record: Path, snapshot: Snapshot) -> dict[str, list[str]]:
    """Names by kind, hosts first."""
    cluster, fleet = snapshot.cluster, snapshot.fleet
    hosts = [*(host.name for host in cluster.hosts), *cluster.execution_hosts, *_stems(record, "se_")]
    hosts += [worker.name for worker in fleet.workers if worker.name]
    hosts += [note.host for note in snapshot.memory.workers.values() if note.host]
    hosts += _mentioned(record)
    machines = [*(worker.id for worker in fleet.workers), *snapshot.memory.workers]
    found = {"host": hosts, "worker": machines, "user": [], "project": [], "list": _stems(record, "su_")}
    for file in sorted((record / "qconf").glob("*.txt")):
        text = file.read_text(errors="replace").replace("\\\n", " ")
        if file.stem.startswith("su_"):
            entries = re.search(r"^entries\s+(.*)$", text, re.MULTILINE)
            found["user"] += _WORD.findall(entries[1]) if entries else []
        for line in _LISTS.finditer(text):
            kind = "project" if "projects" in line[0].split()[0] else "list"
            found[kind] += [word for word in _WORD.findall(line[1]) if "@" not in word]
        for scope in _SCOPES.finditer(text):
            found[{"users": "user", "projects": "project", "hosts": "host"}[scope[1]]] += _WORD.findall(scope[2])
    for listing in ("qstat.xml", "qstat-j.xml"):
        if (record / listing).exists():
            for _, tag, name in NODE.findall((record / listing).read_text(errors="replace")):
                found.get(OF_JOB.get(tag, ""), []).append(name.strip())
    for values in record.glob("*.json"):
        document = json.loads(values.read_text())
        found["user"] += _values(document, OF_USERS)
        found["host"] += _values(document, OF_HOSTS)
        found["project"] += _values(document, _OF_PROJECTS)
        found.setdefault("account", []).extend(_values(document, _OF_ACCOUNTS))
        found.setdefault("placement-group", []).extend(_values(document, _OF_GROUPS))
    for budget in snapshot.policy.budgets:
        found.get(budget.whose, []).append(budget.name)
    found["host"] = _hosts(found["host"])
    found["set"] = [one.name for one in snapshot.requests.sets if not OWN_SETS.fullmatch(one.name)]
    return found


def _stems(record: Path, prefix: str) -> list[str]:
    return [file.stem.removeprefix(prefix) for file in (record / "qconf").glob(f"{prefix}*.txt")]


def _values(value: Any, fields: frozenset[str], field: str = "") -> Iterator[str]:
    """The texts of these fields of a JSON document."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _values(each, fields, field if field in OF_NAMED else name)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each, fields, field)
    elif isinstance(value, str) and field in fields:
        yield value


def is_name(name: str) -> bool:
    """Numbers stand for too many other things, and names that every Grid Engine has reveal nothing."""
    named = name not in KEPT and not name.isdigit() and not name.startswith(("@", PROBE_HOST_PREFIX))
    return named and re.fullmatch(r"[\w.+-]+", name) is not None


def _mentioned(record: Path) -> set[str]:
    """Hosts that a text of the record names: also those that are gone, or are no execution hosts."""
    files = [*record.glob("*.xml"), *record.glob("*.json"), *(record / "qconf").glob("*.txt")]
    text = {file: file.read_text(errors="replace").replace("\\\n", " ") for file in files}
    found: set[str] = set()
    for file, content in text.items():
        found.update(_LONG_NAME.findall(content))
        if file.suffix == ".txt":
            found.update(word for hosts in _HOST_LISTS.finditer(content) for word in _WORD.findall(hosts[1]))
            found.update(_BY_HOST.findall(content))
        elif file.suffix == ".xml":
            found.update(_AT_HOST.findall(content))
            requested = ("".join(either) for either in _ASKED_HOSTS.findall(content))
            found.update(word for words in requested for word in re.split(r"[|&!()\s]+", words))
    others = {file.stem.partition("_")[2].lower() for file in files if not file.stem.startswith("se_")}
    others |= set(_WORD.findall(text.get(record / "qconf" / "sc.txt", "").lower()))
    return {name.lower() for name in found} - others


def _hosts(names: Iterable[str]) -> list[str]:
    """Each host once: a name without a domain is the same host as the name with it."""
    known = sorted(set(names))
    firsts = {name.partition(".")[0] for name in known if "." in name}
    return [name for name in known if "." in name or name not in firsts]


def is_address(text: str) -> bool:
    """Whether it is an IPv6 address that reveals a place: neither a time nor `::`."""
    try:
        return not ipaddress.IPv6Address(text.partition("%")[0]).is_loopback and text.strip(":") != ""
    except ValueError:
        return False


def patterns_of(record: Path) -> tuple[str, ...]:
    """The values with which rules compare contexts, wildcards included."""
    file = record / "rules.json"
    document = json.loads(file.read_text()) if file.exists() else {}
    entries = document.get("apply", ()) if isinstance(document, dict) else ()
    contexts = (each.get("context") for each in entries if isinstance(each, dict))
    values = (value for each in contexts if isinstance(each, dict) for value in each.values())
    return tuple(value for value in values if isinstance(value, str))
