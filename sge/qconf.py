"""Texts of `qconf -s…` as values: queues, PEs, host groups, hosts, quotas and plain name lists.

Attributes stand one a line, name and value; a backslash at the end continues a line. Values may differ by host or host
group: `8,[node=4],[@big=16]`. NONE means empty. A text of another form raises ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from autoscaler.core.model.cluster import (
    ACCESS_ATTRIBUTES,
    Access,
    AccessList,
    ParallelEnvironment,
    Queue,
    QuotaRule,
    QuotaSet,
)
from autoscaler.sge.markup import Aside
from autoscaler.sge.units import read_boolean

_CONTINUED = re.compile(r"\\[ \t]*\r?\n[ \t]*")
_IN_BRACKETS = r"\([^()]*\)|\[[^\[\]]*\]"
"""A bracketed part in the value of a resource map: `(0 1)`, `(gpu0[mem=80G] gpu1)`, `[same=id]`."""
_OVERRIDE = re.compile(rf"\([^()]*\)|\[([^=\[\]]+)=((?:[^()\[\]]|{_IN_BRACKETS})*)\]")
_ASSIGNMENT = re.compile(rf"(?:[^\s,()\[\]]|{_IN_BRACKETS}|[()\[\]])+")
_QTYPE = "BATCH INTERACTIVE"
"""Grid Engine's default."""
_EMPTY = frozenset({"", "none"})
LIMITS = tuple(
    f"{kind}_{what}" for kind in ("s", "h") for what in ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")
)


def joined(text: str) -> str:
    """Continued lines as one."""
    return _CONTINUED.sub(" ", text)


def replaced(text: str, values: Mapping[str, str]) -> str:
    """An object with other values of these attributes; a new attribute is added at the end."""
    kept = [line for line in joined(text).splitlines() if line.split(maxsplit=1)[:1] not in ([name] for name in values)]
    return "\n".join([*kept, *(f"{name} {value}" for name, value in values.items())]) + "\n"


def read_attributes(text: str) -> dict[str, str]:
    """Attribute → value of one object; '' for NONE. Comment lines are skipped, the first value of a name holds."""
    attributes: dict[str, str] = {}
    for line in joined(text).splitlines():
        name, _, value = line.strip().partition(" ")
        if name and not name.startswith("#"):
            attributes.setdefault(name, "" if value.strip().lower() == "none" else value.strip())
    return attributes


def read_names(text: str) -> tuple[str, ...]:
    """One name a line (`-sql`, `-spl`, `-shgrpl`, `-sel`). Sentences such as "no parallel environment defined" are no
    names.
    """
    return tuple(line.strip() for line in text.splitlines() if line.strip() and " " not in line.strip())


def read_pe(text: str) -> ParallelEnvironment:
    """`qconf -sp NAME`."""
    attributes = _object(text, "pe_name")
    return ParallelEnvironment(
        name=attributes["pe_name"],
        slots=int(attributes.get("slots") or 0),
        allocation_rule=attributes.get("allocation_rule", "").lower(),
        user_lists=_list(attributes.get("user_lists", "")),
        xuser_lists=_list(attributes.get("xuser_lists", "")),
    )


def read_queue(text: str) -> Queue:
    """`qconf -sq NAME`."""
    attributes = _object(text, "qname")
    slots, slots_by_host = split_overrides(attributes.get("slots", "0"))
    pes, pes_by_host = split_overrides(attributes.get("pe_list", ""))
    rerun, reruns = split_overrides(attributes.get("rerun", ""))
    values, values_by_host = split_overrides(attributes.get("complex_values", ""))
    limits = {name: split_overrides(attributes[name]) for name in LIMITS if name in attributes}
    limits_by_host: dict[str, dict[str, str]] = {}
    for name, (_, overrides) in limits.items():
        for where, value in overrides.items():
            limits_by_host.setdefault(_lower_host(where), {})[name] = value
    calendar, calendars = split_overrides(attributes.get("calendar", ""))
    qtype, qtypes = split_overrides(attributes.get("qtype", _QTYPE))
    ckpts, ckpts_by_host = split_overrides(attributes.get("ckpt_list", ""))
    access, access_by_host = _read_overridden_access(attributes)
    seq_no, seq_nos = split_overrides(attributes.get("seq_no", "0"))
    return Queue(
        name=attributes["qname"],
        hostlist=tuple(map(_lower_host, _list(attributes.get("hostlist", "")))),
        slots=int(slots or 0),
        slots_by_host={_lower_host(where): int(value) for where, value in slots_by_host.items()},
        pe_list=_list(pes),
        pe_list_by_host={_lower_host(where): _list(value) for where, value in pes_by_host.items()},
        rerun=read_boolean(rerun) if rerun else False,
        rerun_by_host={_lower_host(where): read_boolean(value) for where, value in reruns.items()},
        complex_values=read_assignments(values),
        complex_values_by_host={_lower_host(where): read_assignments(value) for where, value in values_by_host.items()},
        access=access,
        access_by_host=access_by_host,
        # qconf prints INFINITY for a limit that is not set.
        limits={name: value for name, (value, _) in limits.items() if value and value.lower() != "infinity"},
        limits_by_host=limits_by_host,
        calendar=calendar,
        calendar_by_host={_lower_host(where): value for where, value in calendars.items()},
        subordinates=_subordinates(attributes.get("subordinate_list", "")),
        qtype=_list(qtype.upper()),
        qtype_by_host={_lower_host(where): _list(value.upper()) for where, value in qtypes.items()},
        ckpt_list=_list(ckpts),
        ckpt_list_by_host={_lower_host(where): _list(value) for where, value in ckpts_by_host.items()},
        seq_no=int(seq_no or 0),
        seq_no_by_host={_lower_host(where): int(value) for where, value in seq_nos.items()},
    )


def read_access(text: str) -> Access:
    """Who may use a host, from `qconf -se HOST`; of the global host, any host."""
    attributes = read_attributes(text)
    return Access(**{name: _list(attributes.get(name, "")) for name in ACCESS_ATTRIBUTES})


def read_access_list(text: str) -> AccessList:
    """`qconf -su NAME`."""
    attributes = _object(text, "name")
    kinds = attributes.get("type", "ACL").upper().split()
    return AccessList(attributes["name"], _list(attributes.get("entries", "")), grants="ACL" in kinds)


def _read_overridden_access(attributes: Mapping[str, str]) -> tuple[Access, dict[str, dict[str, tuple[str, ...]]]]:
    values: dict[str, tuple[str, ...]] = {}
    by_host: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in ACCESS_ATTRIBUTES:
        value, overrides = split_overrides(attributes.get(name, ""))
        values[name] = _list(value)
        for where, names in overrides.items():
            by_host.setdefault(_lower_host(where), {})[name] = _list(names)
    return Access(**values), by_host


def read_host_group(text: str) -> tuple[str, tuple[str, ...]]:
    """`qconf -shgrp @NAME`: name and members; members may be groups again."""
    attributes = _object(text, "group_name")
    return attributes["group_name"], tuple(map(_lower_host, _list(attributes.get("hostlist", ""))))


def resolve_host_groups(groups: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Host groups with nested groups resolved. Undefined groups, and circles, add nothing."""
    return {name: resolve_hosts(members, groups, (name,)) for name, members in groups.items()}


def containing_groups(groups: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """By host group that is a member of others: all groups that have its hosts thereby, the nearest first."""
    within: dict[str, list[str]] = {}
    for name in sorted(groups):
        for member in groups[name]:
            if member.startswith("@"):
                within.setdefault(member, []).append(name)
    found: dict[str, tuple[str, ...]] = {}
    for group in within:
        above = list(dict.fromkeys(within[group]))
        for name in above:  # grows while it is gone through
            above += [other for other in within.get(name, ()) if other not in above]
        found[group] = tuple(name for name in above if name != group)
    return found


def resolve_hosts(
    members: Iterable[str], groups: Mapping[str, Iterable[str]], within: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Hosts of a list that may name groups, each once, in the order met."""
    hosts: dict[str, None] = {}
    for member in members:
        if not member.startswith("@"):
            hosts[member] = None
        elif member not in within:
            hosts.update(dict.fromkeys(resolve_hosts(groups.get(member, ()), groups, (*within, member))))
    return tuple(hosts)


def read_assignments(text: str) -> dict[str, str]:
    """`slots=8,h_vmem=32G,gpu=2(0 1)` (complex_values, load_values)."""
    pairs = (word.partition("=") for word in _ASSIGNMENT.findall(text))
    return {name: value for name, equals, value in pairs if equals}


def split_overrides(value: str) -> tuple[str, dict[str, str]]:
    """`2,[w1=2],[@g=3]` → ('2', {'w1': '2', '@g': '3'}); NONE becomes '' on both sides."""
    found = [each for each in _OVERRIDE.finditer(value) if each[1] is not None]
    overrides = {each[1].strip(): _blank(each[2]) for each in found}
    default = _OVERRIDE.sub(lambda each: each[0] if each[1] is None else "", value)
    return _blank(default.strip(" ,")), overrides


def _subordinates(value: str) -> tuple[str, ...]:
    """Every queue that `subordinate_list` names, overrides by host included: `low.q`, `low.q=2` or, by slots,
    `slots=4(low.q:1:sr,other.q)`.
    """
    default, overrides = split_overrides(value)
    words = (word for text in (default, *overrides.values()) for word in re.split(r"[\s,()]+", text))
    names = (re.split("[:=]", word)[0] for word in words if not word.startswith("slots="))
    return tuple(dict.fromkeys(name for name in names if name))


def _object(text: str, key: str) -> dict[str, str]:
    attributes = read_attributes(text)
    if not attributes.get(key):
        raise ValueError(f"it has no line {key!r}")
    return attributes


def _list(value: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[\s,]+", value) if word.lower() not in _EMPTY)


def _blank(value: str) -> str:
    return "" if value.strip().lower() in _EMPTY else value.strip()


def _lower_host(name: str) -> str:
    return name if name.startswith("@") else name.lower()


_SET = re.compile(r"\{\s*\n(.*?)\n\s*\}", re.DOTALL)
_FILTERS = ("users", "projects", "pes", "queues", "hosts")
_SPACE_IN_LIST = re.compile(r"\s*,\s*|(?<=\{)\s+|\s+(?=\})")


def read_quotas(text: str, aside: Aside | None = None) -> tuple[QuotaSet, ...]:
    """`qconf -srqs`: all sets in their order, each `{`, lines of name, enabled and `limit`, `}`. A limit is as
    `name=small users {*} queues !fast.q hosts @linux to slots=10,lic=$num_proc*2`. "no resource quota set …" means
    none. A set with a line that cannot be read is set aside, the others hold; without an `aside` it raises ValueError
    with that line.
    """
    sets: list[QuotaSet] = []
    for found in _SET.finditer(joined(text)):
        try:
            sets.append(_read_set(found[1]))
        except ValueError as error:
            if aside is None:
                raise
            aside.put("a resource quota set", error)
    return tuple(sets)


def _read_set(body: str) -> QuotaSet:
    name, enabled, rules = "", True, []
    for line in body.splitlines():
        key, _, value = line.strip().partition(" ")
        if key == "name":
            name = value.strip()
        elif key == "enabled":
            enabled = read_boolean(value)
        elif key == "limit":
            rules.append(_read_rule(value.strip()))
    return QuotaSet(name, enabled, tuple(rules))


def _read_rule(text: str) -> QuotaRule:
    """The text behind `limit`: an optional name, filters, and after `to` the limits."""
    words = _SPACE_IN_LIST.sub(lambda found: "," if "," in found[0] else "", text).split()
    name, filters, each = "", {}, set()
    while words and words[0] != "to":
        word = words.pop(0)
        if word.startswith("name="):
            name = word.removeprefix("name=")
        elif word == "name" and words:
            name = words.pop(0)
        elif word in _FILTERS and words:
            value = words.pop(0)
            if value.startswith("{") and value.endswith("}"):
                each.add(word)
                value = value[1:-1]
            filters[word] = tuple(part for part in value.split(",") if part)
        else:
            raise ValueError(f"quota rule {text!r}: {word!r} is not a filter")
    limits = read_assignments(",".join(words[1:]))
    if not limits:
        raise ValueError(f"quota rule {text!r} limits nothing")
    return QuotaRule(limits=limits, each=frozenset(each), name=name, **filters)
