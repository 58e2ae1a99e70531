"""Finds misspelt rules: words of the language (a misspelt one would be a resource that no node has), and names of
queues or complexes that do not exist (such a rule is valid and has no effect).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from autoscaler.core.constraints.node import PROPERTIES
from autoscaler.core.constraints.per_array import PerNodeArray
from autoscaler.core.constraints.ruleset import Rules

NODE = "node."
RESOURCES = "resources."
_OPERATORS = ("and", "or", "xor", "not")
_WORDS = ("never", "exclusive", "exclusive-task", "in-a-placement-group")
_CLOSE = 0.8
"""Of `difflib`: `nver`, `nevre` and `exclusive_tsk` are so close, `level` and `server` are not."""


def meant_by(name: str, value: Any, resources: Collection[str]) -> str | None:
    """The word that a name is close to, if it is none of these resources; None: it names a resource.

    Operators are short, and a name like `or1` may be a resource. A name close to an operator counts as misspelt only if
    constraints stand below it, which no resource has as value.
    """
    if not name or name in resources or name in PROPERTIES:
        return None
    head, dot, rest = name.partition(".")
    if dot and _closest(head.lower(), (NODE.removesuffix("."),)) and rest in PROPERTIES:
        return NODE + rest
    spelt = name.lower().replace("_", "-")
    holds_constraints = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(x, dict) for x in value))
    return _closest(spelt, _WORDS) or (_closest(spelt, _OPERATORS) if holds_constraints else None)


def resources_named(document: Mapping[str, Any]) -> frozenset[str]:
    """Resources that a document defines by its default resources and complexes, whether these are right or not.

    `document`: by names spelt with `_`.
    """
    defaults, complexes = document.get("default_resources"), document.get("complexes")
    names = [part.get("name") for part in defaults if isinstance(part, dict)] if isinstance(defaults, list) else []
    if isinstance(complexes, dict):
        names += [*complexes, *complexes.values()]
    return frozenset(name for name in names if isinstance(name, str))


def _closest(name: str, words: Collection[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, words, n=1, cutoff=_CLOSE)), None)


def strange_names(
    rules: Rules,
    *,
    complexes: Collection[str],
    queues: Collection[str],
    pes: Collection[str],
    node_arrays: Collection[str],
) -> Iterator[str]:
    """A sentence for each unknown name, with its place in the document."""
    for name in rules.complexes:
        if name not in complexes:
            yield f"complexes.{name}: Grid Engine has no complex {name}"
    for entry in rules.apply:
        for what, named, known in (("queue", entry.who.queues, queues), ("pe", entry.who.pes, pes)):
            for name in named:
                if not any(fnmatchcase(one, name) for one in known):
                    yield f"{entry.place}.{what}: there is no {what} {name}"
    by_array: tuple[tuple[str, PerNodeArray[float] | PerNodeArray[bool] | None], ...] = (
        ("boot_timeout", rules.boot_timeout),
        ("idle_timeout", rules.idle_timeout),
        ("keep_alive", rules.keep_alive.arrays),
    )
    for head, given in by_array:
        for name in given.named if given is not None else ():
            if name not in node_arrays:
                yield f"{head}.{name}: there is no node array {name}; there are {', '.join(sorted(node_arrays))}"
