"""A record without names: users, hosts, projects, lists, jobs, machines, addresses and paths get other names, the same
one everywhere, so that the record gives the same decisions. Variables and values of jobs' contexts are replaced, too.
Queues, parallel environments, complexes with what jobs request of them, and node arrays stay, because decisions depend
on them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from html import escape, unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.names_of_record import (
    KEPT,
    NODE,
    OF_JOB,
    OF_NAMED,
    OF_USERS,
    OWN_SETS,
    is_address,
    is_name,
    names_in,
    patterns_of,
)
from autoscaler.engine.record import read_record, refuse_full, write_files
from autoscaler.errors import GridEngineNotObservable, SettingsError
from autoscaler.sge.only_read import only_read_of

_PATTERNS_OF = frozenset({"user", "project"})
"""Fields of a rule that may hold patterns of names."""
_FREE = frozenset({"failed", "message", "never", "said", "stopped"})
"""Fields of JSON with free text of a cloud, a health check or a person. No decision needs them."""
_USERS = re.compile(r"^entries\s.*(?:\\\n.*)*|\busers\s+(?:\{[^}]*\}|\S+)", re.MULTILINE)
"""The attributes of lists and quotas that name users, groups and lists."""
LEFT_OUT = "(left out)"
_NUMBERED = re.compile(r"\d+ *: *[a-z ,/_-]+", re.IGNORECASE)
"""Grid Engine's number for why a job failed, with its own words for it: they decide whose fault the failure is."""
_NOT_DECIDED_ON = re.compile(
    r"^CP_CAP_AUTOSCALE_(?:TAG|URL|LOGIN|HTTP\w*|AUTOSTOP|SOCKET\w*|TRUSTED_GROUP|HOSTS_FILE|WORKDIR|LOGDIR"
    r"|WORKER_MOUNT|WORKER_BOOTSTRAP)\s*=.*\n?",
    re.MULTILINE,
)
"""Settings that say where the machine is; no decision depends on them."""
_ARGUMENTS = re.compile(r"^(CP_CAP_AUTOSCALE_HEALTH_CHECK(?:_\d+)?\s*=\s*[\"'][^\s\"']*)[^\"'\n]*", re.MULTILINE)
"""A command, up to its first argument, which may hold anything."""
_ATTRIBUTE = re.compile(r"(?<=\bname=)(['\"])([^'\"<>]*)\1")
_OTHERS = (
    r"(?P<mail>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<path>(?<![\w.])/[\w.+@:-]+(?:/[\w.+@:-]+)*)"
    r"|(?P<address>(?<![\w.:])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]))"
    r"|(?P<six>(?<![\w:.])[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:%\w+)?(?![\w:]))"
)
_CONTEXT = re.compile(r"(<JB_context\b[^<>]*>)(.*?)(</JB_context\s*>)", re.DOTALL)
_WORD_OF_EXPRESSION = re.compile(r"([!\s]*)([^\s|&!(){},]+)")
_ASKED_HOST = re.compile(r"<\w*(?:hard|soft)_request\s[^<>]*\bname=['\"](?:h|hostname)['\"]")
_ASKED_QUEUES = re.compile(r"\w*(?:hard|soft)_req_queue")
_SCOPE = re.compile(r"\b(users|projects|hosts)(\s+)(\{[^}]*\}|\S+)")
_TOLD = frozenset({"MES_message", "QIM_message"})
"""Elements of `qstat -xml` with free text. None is read."""


class Names:
    """New names by old ones. They sort as the old ones do: a plan goes by names where all else is equal."""

    def __init__(self, found: Mapping[str, Iterable[str]], master: str, patterns: Iterable[str] = ()) -> None:
        self._patterns = [each for each in patterns if _is_pattern(each)]
        self._new: dict[str, str] = {master: "master"} if master else {}
        self._of_kind: dict[str, set[str]] = {"host": {master} if master else set()}
        for kind, names in found.items():
            old = sorted({name for name in names if is_name(name)} - self._new.keys())
            width = len(str(len(old)))
            self._new.update({name: f"{kind}-{at:0{width}d}" for at, name in enumerate(old, start=1)})
            self._of_kind.setdefault(kind, set()).update(name for name in names if name in self._new)
        self._single: dict[tuple[str, str], str] = {}
        self._met: dict[tuple[str, str], str] = {}
        qualified = {
            name: new for name, new in self._new.items() if "." in name and new.startswith(("host-", "master"))
        }
        parts = {name.partition(".")[0]: new for name, new in qualified.items()}
        parts |= {name.partition(".")[2]: "example.org" for name in qualified}
        self._new = {**{name: new for name, new in parts.items() if is_name(name)}, **self._new}
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
        if name in KEPT or not name:
            return text
        if name in self._new:
            return self._new[name]
        return self._single.setdefault((kind, name), f"{kind}-{len(self._single) + 1}")

    def whole(self, kind: str, text: str) -> str:
        """A value that is one name, of whatever letters: `anna (REST)`, `token:ci`."""
        return self._new.get(text) or self.single(kind, text)

    def matched(self, kind: str, pattern: str) -> list[str]:
        """The new names of what a pattern matches, and a new pattern for what it would match besides."""
        if not pattern.strip("*?"):
            return [pattern]
        olds = self._of_kind.get(kind, set())
        met = {self._new[old] for old in olds if any(fnmatchcase(each, pattern) for each in {old, old.split(".")[0]})}
        return [*sorted(met), f"{self.single('pattern', pattern)}-*"]

    def expression(self, kind: str, text: str, between: str = "|") -> str:
        """A text of names and patterns with operators between them, as `!(ip-*|w1)&node?`."""

        def word(found: re.Match[str]) -> str:
            front, name = found[1], found[2]
            if not _is_pattern(name):
                return front + self.text(name)
            names = self.matched(kind, name)
            if between == "|":
                return front + (names[0] if len(names) == 1 else f"({'|'.join(names)})")
            return between.join(front + each for each in names)

        return _WORD_OF_EXPRESSION.sub(word, text)

    def queues(self, text: str) -> str:
        """Queues, some with a host or a pattern of hosts: `main.q@ip-*,other.q`."""
        return ",".join(
            ",".join(f"{queue}@{each}" for each in self.matched("host", host))
            if _is_pattern(host) and not host.startswith("@")
            else self.text(whole)
            for whole in text.split(",")
            for queue, _, host in [whole.partition("@")]
        )

    def context(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """A job's context, or a rule's value for it: a value that met a pattern meets the new one."""
        return {
            self.single("variable", name): self._word(value) if isinstance(value, str) else value
            for name, value in context.items()
        }

    def _word(self, value: str) -> str:
        if value in self._patterns:
            return f"{self.single('pattern', value)}-*" if value.strip("*") else value
        met = next((each for each in self._patterns if each.strip("*") and fnmatchcase(value, each)), None)
        word = self.single("word", value)
        return word if met is None else f"{self.single('pattern', met)}-{word}"

    def _replace(self, found: re.Match[str]) -> str:
        old = found[0]
        if found["name"]:
            return self._new.get(old) or next(new for name, new in self._new.items() if name.lower() == old.lower())
        if found["mail"]:
            left, _, right = old.rpartition("@")
            if right.lower() in self._new:  # a queue instance; hosts are known in small letters
                return f"{self.text(left)}@{self.text(right)}"
            return self._other("mail", old, "user-{}@example.org")
        if found["six"]:
            return self._other("six", old, "2001:db8::{}") if is_address(old) else old
        return self._other("address", old, "10.0.0.{}") if found["address"] else self._other("path", old, "/path/{}")

    def _other(self, kind: str, old: str, form: str) -> str:
        taken = sum(1 for known, _ in self._met if known == kind)
        return self._met.setdefault((kind, old), form.format(taken + 1))


def _is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?[")


def write_anonymous(record: Path, directory: Path) -> None:
    """Write the same record with other names into a directory that is new or empty.

    Raises SettingsError where other names would decide otherwise, and what `read_record` raises.
    """
    refuse_full(directory)
    before = read_record(record)
    names = names_of(record, before)
    files: dict[str, bytes] = {}
    for file in sorted(path for path in record.rglob("*") if path.is_file()):
        kept = only_read_of(file.relative_to(record), file.read_bytes())
        if kept is not None:
            place = file.relative_to(record).with_name(_file_name(file, names))
            text = kept.decode("utf-8", "surrogateescape")
            files[str(place)] = _form_of(file)(text, names).encode("utf-8", "surrogateescape")
    with TemporaryDirectory() as private:
        write_files(Path(private) / directory.name, files)
        _require_same(before, Path(private) / directory.name, directory)
    write_files(directory, files)


def names_of(record: Path, snapshot: Snapshot | None = None) -> Names:
    """The names that the same record without names has. Raises what `read_record` raises."""
    master = (record / "master").read_text().strip() if (record / "master").exists() else ""
    return Names(names_in(record, snapshot or read_record(record)), master, patterns_of(record))


def _require_same(before: Snapshot, written: Path, directory: Path) -> None:
    expected = _decided(before)
    try:
        found: object = _decided(read_record(written))
    except (SettingsError, GridEngineNotObservable) as error:
        found = str(error)
    if found != expected:
        raise SettingsError(
            f"{directory} would decide otherwise than the cell did ({found} instead of {expected}): a name is also a "
            "word that means something; write a plain record, and replace names by hand"
        )


# -- files ---------------------------------------------------------------------------------------------------------

_Form = Callable[[str, Names], str]


def _form_of(file: Path) -> _Form:
    if file.suffix == ".xml":
        return _xml
    if file.suffix == ".json":
        return lambda text, names: json.dumps(_document(file, json.loads(text), names), indent=2) + "\n"
    if file.name == "settings.toml":
        return lambda text, names: _lines(_ARGUMENTS.sub(r"\1", _NOT_DECIDED_ON.sub("", text)), names)
    if file.stem == "srqs" or file.stem.startswith("su_"):
        return _of_members
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
        kind = OF_JOB.get(found[2])
        if found[2] in _TOLD:
            return found[1] + LEFT_OUT
        if _ASKED_HOST.match(found[1]):
            return found[1] + escape(names.expression("host", unescape(found[3])), quote=False)
        if _ASKED_QUEUES.fullmatch(found[2]):
            return found[1] + escape(names.queues(unescape(found[3])), quote=False)
        named = kind and found[3].strip() and not found[3].strip().isdigit()
        return found[1] + (names.single(kind, found[3]) if named and kind else names.text(found[3]))

    def context(found: re.Match[str]) -> str:
        replaced: dict[str, str] = {}
        at = ""
        for _, tag, text in NODE.findall(found[2]):
            if tag == "VA_variable":
                at = unescape(text)
                replaced[at] = ""
            elif tag == "VA_value" and at:
                replaced[at] = unescape(text)
        pairs = names.context(replaced).items()
        inside = "".join(
            f"<context_list><VA_variable>{name}</VA_variable><VA_value>{value}</VA_value></context_list>"
            for name, value in pairs
        )
        return found[1] + inside + found[3]

    text = _CONTEXT.sub(context, text)
    text = _ATTRIBUTE.sub(lambda found: f"{found[1]}{names.text(found[2])}{found[1]}", text)
    return NODE.sub(node, text)


def _document(file: Path, document: Any, names: Names) -> Any:
    """As `_json`. In requests, names of sets are replaced wherever they stand, since they may have any characters; in
    spending, owners of budgets.
    """
    if file.name == "spending.json" and isinstance(document, dict):
        document["spent"] = {names.text(owner): spent for owner, spent in document.get("spent", {}).items()}
    if file.name == "rules.json" and isinstance(document, dict):
        for entry in document.get("apply", ()):
            for who in _PATTERNS_OF & entry.keys():
                given = [entry[who]] if isinstance(entry[who], str) else entry[who]
                entry[who] = [new for old in given for new in (names.matched(who, old) if _is_pattern(old) else [old])]
    if file.name == "requests.json" and isinstance(document, dict):
        for one in document.get("sets", ()):
            if not OWN_SETS.fullmatch(one.get("name", "standard")):
                one["name"] = names.whole("set", one["name"])
        for array in document.get("arrays", ()):
            kept, defined_by = array.get("keep_alive", ()), array.get("defined_by", ())
            array.update({"keep_alive": [[names.whole("set", name), *more] for name, *more in kept]} if kept else {})
            array.update(
                {"defined_by": [[field, names.whole("set", name)] for field, name in defined_by]} if defined_by else {}
            )
    return _json(document, names)


def _json(value: Any, names: Names, field: str = "") -> Any:
    if isinstance(value, Mapping):
        return {
            names.key(name): names.context(each)
            if name == "context" and isinstance(each, Mapping)
            else _json(each, names, field if field in OF_NAMED else name)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_json(each, names, field) for each in value]
    if not isinstance(value, str) or not value:
        return value
    if field in _FREE and not (field == "failed" and _NUMBERED.fullmatch(value)):
        return LEFT_OUT
    if field == "group":
        return names.whole("group", value)
    return names.whole("user", value) if field in OF_USERS else names.text(value)


def _of_members(text: str, names: Names) -> str:
    """As `_lines`; `@NAME` among users is a group of the operating system, or an access list."""

    def members(found: re.Match[str]) -> str:
        return re.sub(r"@([\w.+-]+)", lambda one: "@" + names.whole("group", one[1]), found[0])

    def scope(found: re.Match[str]) -> str:
        words = names.expression(found[1].removesuffix("s"), found[3], ",") if _is_pattern(found[3]) else found[3]
        return found[1] + found[2] + words

    return _lines(_SCOPE.sub(scope, _USERS.sub(members, text)), names)


def _lines(text: str, names: Names) -> str:
    """Lines that begin with the name of an attribute or a setting, which stays."""

    def line(found: re.Match[str]) -> str:
        return found[1] + names.text(found[2])

    return re.sub(r"^(\S*)(.*)$", line, text, flags=re.MULTILINE)


def _alike(code: Code) -> str:
    """Only the form of a host's name tells these two reasons apart, and an invented name has another form."""
    return (Code.FOREIGN_HOST if code is Code.HOST_LEFT else code).value


def _decided(snapshot: Snapshot) -> dict[str, Any]:
    """A plan's decisions, without names."""
    made = plan(snapshot)
    return {
        "actions": [(type(action).__name__, action.reason.code.value) for action in made.actions],
        "jobs": (made.waiting, made.counted, made.fitting),
        "categories": Counter(_alike(verdict.reason.code) for verdict in made.job_categories),
        "workers": Counter(verdict.reason.code.value for verdict in made.workers),
    }
