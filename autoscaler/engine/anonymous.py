"""A record without names: users, hosts, projects, lists, jobs, machines, addresses and paths get others, each the same
one wherever it stands, so that the record still decides the same. Queues, parallel environments, complexes, node arrays
and what users wrote into contexts stay: what is decided rests on them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from autoscaler.core.model.actions import PROBE_HOST_PREFIX
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.record import read_record, refuse_full
from autoscaler.errors import GridEngineNotObservable, SettingsError

_OF_JOB = {
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
}
"""Elements of `qstat -xml` that hold one name, and of what."""
_OF_USERS = frozenset({"owner", "owners", "user", "users", "by", "who", "paused_by", "stopped_by"})
"""Fields of JSON that hold names of users."""
_OF_GROUPS = frozenset({"group_id", "placement_group"})
_OF_PROJECTS = frozenset({"project", "projects"})
_FREE = frozenset({"failed", "message", "never", "said", "stopped"})
"""Fields of JSON that hold sentences: of a cloud, a health check, a person. None is needed to decide."""
LEFT_OUT = "(left out)"
_OWN_SETS = re.compile(r"standard|policy:.*")
"""Names of request sets that are ours."""
_NOT_DECIDED_ON = re.compile(
    r"^CP_CAP_AUTOSCALE_(?:TAG|URL|LOGIN|HTTP\w*|AUTOSTOP|SOCKET\w*|TRUSTED_GROUP|HOSTS_FILE|WORKDIR|LOGDIR"
    r"|WORKER_MOUNT|WORKER_BOOTSTRAP)\s*=.*\n?",
    re.MULTILINE,
)
"""Settings that say where the machine is, and nothing of what is decided."""
_ARGUMENTS = re.compile(r"^(CP_CAP_AUTOSCALE_HEALTH_CHECK(?:_\d+)?\s*=\s*[\"'][^\s\"']*)[^\"'\n]*", re.MULTILINE)
"""A command, up to its first argument, which may hold anything."""
_LISTS = re.compile(r"^(?:x?user_lists|x?projects|acl|xacl|owner_list)\s+(.*)$", re.MULTILINE)
_SCOPES = re.compile(r"\b(users|projects|hosts)\s+(\{[^}]*\}|\S+)")
_KEPT = frozenset({"NONE", "none", "all", "root", "sgeadmin", "master", "global", "template", "sge", "default"})
_KEPT |= {"arusers", "deadlineusers", "defaultdepartment"}
"""Names that every Grid Engine has."""
_WORD = re.compile(r"[^\s,=\[\]{}()|!]+")
_NODE = re.compile(r"(<([\w:-]+)(?:\s[^<>]*)?>)([^<]+)")
_ATTRIBUTE = re.compile(r"(?<=\bname=)(['\"])([^'\"<>]*)\1")
_OTHERS = (
    r"(?P<mail>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<path>(?<![\w.])/[\w.+@:-]+(?:/[\w.+@:-]+)*)"
    r"|(?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]))"
)


class Names:
    """New names by old ones. They sort as the old ones do: where all else is equal a plan goes by names."""

    def __init__(self, found: Mapping[str, Iterable[str]], master: str) -> None:
        self._new: dict[str, str] = {master: "master"} if master else {}
        for kind, names in found.items():
            old = sorted({name for name in names if _is_name(name)} - self._new.keys())
            width = len(str(len(old)))
            self._new.update({name: f"{kind}-{at:0{width}d}" for at, name in enumerate(old, start=1)})
        self._single: dict[tuple[str, str], str] = {}
        self._met: dict[tuple[str, str], str] = {}
        qualified = {
            name: new for name, new in self._new.items() if "." in name and new.startswith(("host-", "master"))
        }
        parts = {name.partition(".")[0]: new for name, new in qualified.items()}
        parts |= {name.partition(".")[2]: "example.org" for name in qualified}
        self._new = {**{name: new for name, new in parts.items() if _is_name(name)}, **self._new}
        known = "|".join(map(re.escape, sorted(self._new, key=len, reverse=True))) or r"(?!)"
        self._any = re.compile(rf"{_OTHERS}|(?P<name>(?<![\w.-])(?i:{known})(?![\w-]|\.\w))")

    def text(self, text: str) -> str:
        """A text with all names in it replaced."""
        return self._any.sub(self._replace, text)

    def key(self, key: str) -> str:
        """A key of a mapping: replaced where it is a name, and else a field."""
        return self.text(key) if key in self._new or "@" in key else key

    def single(self, kind: str, text: str) -> str:
        """The text of an element that holds one name of that kind and nothing else."""
        name = text.strip()
        if name in _KEPT or not name:
            return text
        if name in self._new:
            return self._new[name]
        return self._single.setdefault((kind, name), f"{kind}-{len(self._single) + 1}")

    def whole(self, kind: str, text: str) -> str:
        """A value that is one name, of whatever letters: `anna (REST)`, `token:ci`."""
        return self._new.get(text) or self.single(kind, text)

    def _replace(self, found: re.Match[str]) -> str:
        old = found[0]
        if found["name"]:
            return self._new.get(old) or next(new for name, new in self._new.items() if name.lower() == old.lower())
        if found["mail"]:
            left, _, right = old.rpartition("@")
            if right.lower() in self._new:  # a queue instance; hosts are known in small letters
                return f"{self.text(left)}@{self.text(right)}"
            return self._other("mail", old, "user-{}@example.org")
        return self._other("address", old, "10.0.0.{}") if found["address"] else self._other("path", old, "/path/{}")

    def _other(self, kind: str, old: str, form: str) -> str:
        taken = sum(1 for known, _ in self._met if known == kind)
        return self._met.setdefault((kind, old), form.format(taken + 1))


def write_anonymous(record: Path, directory: Path) -> None:
    """Write the same record with other names into a directory that is new or empty.

    Raises SettingsError where other names would decide otherwise, and what `read_record` raises.
    """
    refuse_full(directory)
    before = read_record(record)
    master = (record / "master").read_text().strip() if (record / "master").exists() else ""
    names = Names(_found(record, before), master)
    for file in sorted(path for path in record.rglob("*") if path.is_file()):
        place = directory / file.relative_to(record).with_name(_file_name(file, names))
        place.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_bytes().decode("utf-8", "surrogateescape")
        place.write_bytes(_form_of(file)(text, names).encode("utf-8", "surrogateescape"))
    _require_same(before, directory)


def _require_same(before: Snapshot, directory: Path) -> None:
    wanted = _decided(before)
    try:
        told: object = _decided(read_record(directory))
    except (SettingsError, GridEngineNotObservable) as error:
        told = str(error)
    if told != wanted:
        shutil.rmtree(directory)
        raise SettingsError(
            f"{directory} would decide otherwise than the cell did ({told} instead of {wanted}): a name is also a word "
            "that means something; write a plain record, and replace names by hand"
        )


def _is_name(name: str) -> bool:
    """Numbers stand for too much else, and what every Grid Engine has tells nothing."""
    named = name not in _KEPT and not name.isdigit() and not name.startswith(("@", PROBE_HOST_PREFIX))
    return named and re.fullmatch(r"[\w.+-]+", name) is not None


def _found(record: Path, snapshot: Snapshot) -> dict[str, list[str]]:
    """Names by kind, hosts first."""
    cluster, fleet = snapshot.cluster, snapshot.fleet
    hosts = [*(host.name for host in cluster.hosts), *cluster.execution_hosts, *_stems(record, "se_")]
    hosts += [worker.name for worker in fleet.workers if worker.name]
    hosts += [note.host for note in snapshot.memory.workers.values() if note.host]
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
            for _, tag, told in _NODE.findall((record / listing).read_text(errors="replace")):
                found.get(_OF_JOB.get(tag, ""), []).append(told.strip())
    for values in record.glob("*.json"):
        document = json.loads(values.read_text())
        found["user"] += _values(document, _OF_USERS)
        found["project"] += _values(document, _OF_PROJECTS)
        found.setdefault("placement-group", []).extend(_values(document, _OF_GROUPS))
    found["set"] = [one.name for one in snapshot.requests.sets if not _OWN_SETS.fullmatch(one.name)]
    return found


def _stems(record: Path, prefix: str) -> list[str]:
    return [file.stem.removeprefix(prefix) for file in (record / "qconf").glob(f"{prefix}*.txt")]


def _values(value: Any, fields: frozenset[str], field: str = "") -> Iterator[str]:
    """The texts of these fields of a JSON document."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _values(each, fields, name)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each, fields, field)
    elif isinstance(value, str) and field in fields:
        yield value


# -- files ---------------------------------------------------------------------------------------------------------

_Form = Callable[[str, Names], str]


def _form_of(file: Path) -> _Form:
    if file.suffix == ".xml":
        return _xml
    if file.suffix == ".json":
        return lambda text, names: json.dumps(_document(file, json.loads(text), names), indent=2) + "\n"
    if file.name == "settings.toml":
        return lambda text, names: _lines(_ARGUMENTS.sub(r"\1", _NOT_DECIDED_ON.sub("", text)), names)
    if file.name == "now" or file.stem == "sc":
        return lambda text, _: text
    if file.name == "master" or file.stem == "sel":
        return lambda text, names: names.text(text)
    return _lines


def _file_name(file: Path, names: Names) -> str:
    kind, _, name = file.stem.partition("_")
    return f"{kind}_{names.text(name)}.txt" if kind in ("se", "su") and file.suffix == ".txt" else file.name


def _xml(text: str, names: Names) -> str:
    def node(found: re.Match[str]) -> str:
        kind = _OF_JOB.get(found[2])
        told = names.single(kind, found[3]) if kind and found[3].strip() else names.text(found[3])
        return found[1] + told

    text = _ATTRIBUTE.sub(lambda found: f"{found[1]}{names.text(found[2])}{found[1]}", text)
    return _NODE.sub(node, text)


def _document(file: Path, document: Any, names: Names) -> Any:
    """As `_json`; of requests, names of sets, which may have any letters, wherever they stand."""
    if file.name == "requests.json" and isinstance(document, dict):
        for one in document.get("sets", ()):
            if not _OWN_SETS.fullmatch(one.get("name", "standard")):
                one["name"] = names.whole("set", one["name"])
        for array in document.get("arrays", ()):
            kept, said_by = array.get("keep_alive", ()), array.get("said_by", ())
            array.update({"keep_alive": [[names.whole("set", name), *more] for name, *more in kept]} if kept else {})
            array.update({"said_by": [[field, names.whole("set", name)] for field, name in said_by]} if said_by else {})
    return _json(document, names)


def _json(value: Any, names: Names, field: str = "") -> Any:
    if isinstance(value, Mapping):
        return {
            names.key(name): _json(each, names, field if field == "stopped" else name) for name, each in value.items()
        }
    if isinstance(value, list):
        return [_json(each, names, field) for each in value]
    if not isinstance(value, str) or not value:
        return value
    if field in _FREE:
        return LEFT_OUT
    return names.whole("user", value) if field in _OF_USERS else names.text(value)


def _lines(text: str, names: Names) -> str:
    """Lines that begin with the name of an attribute or a setting, which stays."""

    def line(found: re.Match[str]) -> str:
        return found[1] + names.text(found[2])

    return re.sub(r"^(\S*)(.*)$", line, text, flags=re.MULTILINE)


def _decided(snapshot: Snapshot) -> dict[str, Any]:
    """What a plan decides, but for names."""
    made = plan(snapshot)
    return {
        "actions": [(type(action).__name__, action.reason.code.value) for action in made.actions],
        "jobs": (made.waiting, made.counted, made.fitting),
        "categories": Counter(verdict.reason.code.value for verdict in made.shapes),
        "workers": Counter(verdict.reason.code.value for verdict in made.workers),
    }
