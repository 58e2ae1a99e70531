"""The counts of the benchmarks stay within their limits."""

from __future__ import annotations

from autoscaler.sge.batches import AT_ONCE
from bench.commands import (
    EDITS_BAR,
    HOST_GROUPS,
    JOINING,
    PES,
    QUEUES,
    REMOVAL_BAR,
    UNCHANGED_BAR,
    joins,
    passes,
    removals,
)
from bench.placements import DEARER, bought, fewest, mixes


def test_an_unchanged_pass_takes_few_commands_and_a_first_one_is_bounded() -> None:
    first, unchanged, after_joins = passes()
    assert max(unchanged, after_joins) <= UNCHANGED_BAR
    assert first < QUEUES + PES + HOST_GROUPS


def test_two_hundred_workers_join_with_few_shared_edits() -> None:
    joined = joins(JOINING)
    edits = joined["qconf -aattr hostgroup"] + joined["qconf -rattr queue"]
    assert 0 < edits <= EDITS_BAR


def test_two_hundred_workers_leave_with_few_shared_commands() -> None:
    left = removals(JOINING)
    assert (left["qconf -dattr hostgroup"], left["commands"] <= REMOVAL_BAR) == (-(-JOINING // AT_ONCE), True)


def test_mixes_with_memory_for_a_job_are_bought_close_to_the_fewest_machines() -> None:
    ratios = [bought(wants, cores) / fewest(wants, cores) for wants, cores in mixes().values()]
    assert sum(ratios) / len(ratios) <= DEARER
