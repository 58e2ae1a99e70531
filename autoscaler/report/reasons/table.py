"""All rows, by code and by subject."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons import (
    ReasonRow,
    constraints,
    groups,
    jobs,
    launches,
    passes,
    recovery,
    requests,
    unsatisfiable,
    workers,
)

SUBJECTS: tuple[tuple[str, Mapping[Code, ReasonRow]], ...] = tuple(
    (subject.HEADING, MappingProxyType(subject.ROWS))
    for subject in (jobs, unsatisfiable, workers, groups, recovery, launches, requests, constraints, passes)
)
"""Heading and rows, in the order of docs/reasons.md."""

REASONS: Mapping[Code, ReasonRow] = MappingProxyType({code: row for _, rows in SUBJECTS for code, row in rows.items()})
