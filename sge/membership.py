"""What ties a host to queues and host groups: looked up before a removal, so that exactly that can be put back."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sge.qconf import read_attributes, read_names, split_overrides


@dataclass(frozen=True, slots=True)
class Membership:
    """A host's places in Grid Engine's configuration."""

    slots: tuple[tuple[str, str], ...] = ()
    """Its own slots entry in each queue that has one: (queue, value)."""
    host_groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Queues whose host list names it directly."""

    def __or__(self, other: Membership) -> Membership:
        """Both together; where both know a queue's slots, ours hold."""
        slots = dict(other.slots) | dict(self.slots)
        return Membership(
            tuple(slots.items()),
            tuple(dict.fromkeys(self.host_groups + other.host_groups)),
            tuple(dict.fromkeys(self.queues + other.queues)),
        )


def membership(host: str, *, queues: str, host_groups: str) -> Membership:
    """Read it from what `qconf -sq '*'` and `qconf -shgrp A -shgrp B …` print: objects one after the other."""
    slots: list[tuple[str, str]] = []
    named: list[str] = []
    for text in split_objects(queues, "qname"):
        attributes = read_attributes(text)
        own = {where.lower(): value for where, value in split_overrides(attributes.get("slots", ""))[1].items()}
        if value := own.get(host.lower()):
            slots.append((attributes["qname"], value))
        if host.lower() in _words(attributes.get("hostlist", "")):
            named.append(attributes["qname"])
    groups = (read_attributes(text) for text in split_objects(host_groups, "group_name"))
    member_of = [group["group_name"] for group in groups if host.lower() in _words(group.get("hostlist", ""))]
    return Membership(tuple(slots), tuple(member_of), tuple(named))


def listed(host: str, names: str) -> bool:
    """Whether a list of hosts (`qconf -sel`, `-ss`, `-sh`, `-sconfl`) has this one."""
    return host.lower() in (name.lower() for name in read_names(names))


def split_objects(text: str, first: str) -> list[str]:
    """Several objects printed one after the other, each beginning with the attribute `first`."""
    parts = re.split(rf"(?m)^(?={re.escape(first)}\s)", text)
    return [part for part in parts if part.startswith(first)]


def _words(value: str) -> set[str]:
    return {word.lower() for word in re.split(r"[\s,]+", value) if word}
