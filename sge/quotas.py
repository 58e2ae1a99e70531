"""`qconf -srqs`: resource quota sets.

{
   name         max_u
   enabled      TRUE
   limit        name=small users {*} queues !fast.q hosts @linux to slots=10,lic=$num_proc*2
}
"""

from __future__ import annotations

import re

from autoscaler.core.model.cluster import QuotaRule, QuotaSet
from sge.markup import Aside
from sge.qconf import read_assignments
from sge.units import read_boolean

_SET = re.compile(r"\{\s*\n(.*?)\n\s*\}", re.DOTALL)
_CONTINUED = re.compile(r"\\[ \t]*\r?\n[ \t]*")
_FILTERS = ("users", "projects", "pes", "queues", "hosts")
_SPACE_IN_LIST = re.compile(r"\s*,\s*|(?<=\{)\s+|\s+(?=\})")


def read_quotas(text: str, aside: Aside | None = None) -> tuple[QuotaSet, ...]:
    """All sets in their order. "no resource quota set …" means none. A set with a line that cannot be read is put
    aside, the others hold; without an `aside` it raises ValueError with that line.
    """
    sets: list[QuotaSet] = []
    for found in _SET.finditer(_CONTINUED.sub(" ", text)):
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
    """What stands behind `limit`: an optional name, filters, and after `to` the limits."""
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
