"""A host's places in queues and host groups: looked up before a removal, so that exactly these can be restored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.sge.qconf import read_attributes, read_names, split_overrides


@dataclass(frozen=True, slots=True)
class Membership:
    """A host's places in Grid Engine's configuration."""

    slots: tuple[tuple[str, str], ...] = ()
    """Its own slots entry in each queue that has one: (queue, value)."""
    host_groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Queues whose host list names it directly."""
    seq_nos: tuple[tuple[str, str], ...] = ()
    """Its own sequence number in each queue that has one: (queue, value)."""

    def __or__(self, other: Membership) -> Membership:
        """Both together; if both have a queue's slots, ours hold."""
        slots = dict(other.slots) | dict(self.slots)
        return Membership(
            tuple(slots.items()),
            tuple(dict.fromkeys(self.host_groups + other.host_groups)),
            tuple(dict.fromkeys(self.queues + other.queues)),
            tuple((dict(other.seq_nos) | dict(self.seq_nos)).items()),
        )


def memberships(hosts: Sequence[str], *, queues: str, host_groups: str) -> dict[str, Membership]:
    """Read from the output of `qconf -sq '*'` and `qconf -shgrp A -shgrp B …`: objects one after the other."""
    slots: dict[str, list[tuple[str, str]]] = {}
    seq_nos: dict[str, list[tuple[str, str]]] = {}
    named: dict[str, list[str]] = {}
    member_of: dict[str, list[str]] = {}
    for text in split_objects(queues, "qname"):
        attributes = read_attributes(text)
        for found, attribute in ((slots, "slots"), (seq_nos, "seq_no")):
            for where, value in split_overrides(attributes.get(attribute, ""))[1].items():
                if value:
                    found.setdefault(where.lower(), []).append((attributes["qname"], value))
        for word in _words(attributes.get("hostlist", "")):
            named.setdefault(word, []).append(attributes["qname"])
    for group in (read_attributes(text) for text in split_objects(host_groups, "group_name")):
        for word in _words(group.get("hostlist", "")):
            member_of.setdefault(word, []).append(group["group_name"])
    return {
        host: Membership(
            slots=tuple(slots.get(host.lower(), ())),
            host_groups=tuple(member_of.get(host.lower(), ())),
            queues=tuple(named.get(host.lower(), ())),
            seq_nos=tuple(seq_nos.get(host.lower(), ())),
        )
        for host in hosts
    }


def listed(host: str, names: str) -> bool:
    """Whether a list of hosts (`qconf -sel`, `-ss`, `-sh`, `-sconfl`) has this one."""
    return host.lower() in (name.lower() for name in read_names(names))


def split_objects(text: str, first: str) -> list[str]:
    """Several objects printed one after the other, each beginning with the attribute `first`."""
    parts = re.split(rf"(?m)^(?={re.escape(first)}\s)", text)
    return [part for part in parts if part.startswith(first)]


def _words(value: str) -> set[str]:
    return {word.lower() for word in re.split(r"[\s,]+", value) if word}
