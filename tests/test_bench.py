"""The counts of the benchmarks stay within their limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
from bench.simulations import main as simulate


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


@pytest.mark.parametrize("hybrid", ([], ["--hybrid"]))
def test_the_parts_of_a_simulation_add_up(
    hybrid: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    assert simulate(["generated:1300:1:1", "--jobs", "1200", *hybrid, "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    parts, run = figures["parts"], figures["run"]
    assert (sum(part["tasks"] for part in parts), len(parts)) == (1200, 3)
    for name in ("made", "skipped"):
        assert sum(part[name] for part in parts) == figures[name] == run["passes"][name] > 0
    assert figures["ms_a_pass"] == pytest.approx(1000 * run["cpu_s"]["a_pass"])
    assert figures["cpu_s"] >= run["cpu_s"]["passes"] > 0
    assert "all have ended: yes" in capsys.readouterr().out
