"""Names in rules that nothing bears: a rule about a misspelt queue or complex is no error, and does nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from autoscaler.core.constraints.per_array import PerNodeArray
from autoscaler.core.constraints.ruleset import Rules


def strange_names(
    rules: Rules,
    *,
    complexes: Collection[str],
    queues: Collection[str],
    pes: Collection[str],
    node_arrays: Collection[str],
) -> Iterator[str]:
    """Each with its place in the document, given what there is."""
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
