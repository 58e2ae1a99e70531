"""Unknown names in rules are found, with their place."""

from __future__ import annotations

import json

import pytest

from autoscaler.constraints.library import read_rules
from autoscaler.constraints.rule_words import strange_names


@pytest.mark.parametrize(
    ("rules", "expected"),
    (
        ({"complexes": {"gpu": "ngpus"}}, []),
        ({"complexes": {"gpus": "ngpus"}}, ["complexes.gpus: Grid Engine has no complex gpus"]),
        ({"apply": [{"queue": ["main.q", "ma*"], "pe": "mpi*", "constraints": {}}]}, []),
        ({"apply": [{"queue": "min.q", "constraints": {}}]}, ["apply[0].queue: there is no queue min.q"]),
        ({"apply": [{"pe": "smp", "constraints": {}}]}, ["apply[0].pe: there is no pe smp"]),
        ({"idle_timeout": {"default": 1, "execute": 2}, "keep_alive": ["w1"]}, []),
        (
            {"boot_timeout": {"default": 1, "run": 2}},
            ["boot_timeout.run: there is no node array run; there are execute"],
        ),
        ({"keep_alive": {"run": True}}, ["keep_alive.run: there is no node array run; there are execute"]),
    ),
)
def test_an_unknown_name_in_the_rules_is_reported(rules: dict[str, object], expected: list[str]) -> None:
    there = {"complexes": ["gpu"], "queues": ["main.q"], "pes": ["mpi", "mpi4"], "node_arrays": ["execute"]}
    assert list(strange_names(read_rules(json.dumps(rules)), **there)) == expected
