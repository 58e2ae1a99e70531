"""Probe hosts in memory: names that resolve at once, for the real `ProbeHosts` on whatever runner a test has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class NamesInMemory:
    """A hosts file in memory. `there` are the names that resolve now, with their addresses."""

    def __init__(self) -> None:
        self.there: dict[str, str] = {}

    @contextmanager
    def locked(self, patience: float) -> Iterator[None]:
        yield

    def put(self, addresses: Mapping[str, str]) -> None:
        self.there = dict(addresses)

    def clear(self) -> None:
        self.there = {}


def nothing_runs() -> frozenset[int]:
    return frozenset()
