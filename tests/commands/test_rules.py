"""How rules are shown: `buckets --constraint`, `explain JOB`, `explain HOST`. On records, without a cell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from autoscaler.commands.context import Invocation
from autoscaler.commands.main import cli
from tests.cases.whole import whole

QUEUE = whole("rules/a-queue-takes-only-the-types-that-rules-name")
IDLE = whole("shrink/an-idle-worker-is-disabled-first")


def shown(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words), obj=Invocation({}), catch_exceptions=False)
    return done.output


def reasons_by_type(constraint: str, record: Path = QUEUE) -> dict[str, Any]:
    """By type, why it does not meet a constraint; None: it does."""
    result = json.loads(shown("buckets", "--json", "--from", str(record), "--constraint", constraint))
    return {row["instance_type"]: row["constraint"] and row["constraint"]["text"] for row in result["buckets"]}


def ruled(rules: object, folder: Path, record: Path = IDLE) -> Path:
    """That record with these rules."""
    shutil.copytree(record, folder / "r")
    (folder / "r" / "rules.json").write_text(json.dumps(rules))
    return folder / "r"


@pytest.mark.parametrize(
    ("constraint", "met"),
    (
        ('{"node.vcpu_count": [4, 8]}', {"m5.xlarge", "m5.2xlarge"}),
        ('{"not": {"node.vm_size": "m5.large"}, "node.vcpu_count": [2, 4]}', {"m5.xlarge"}),
        ('{"never": "closed"}', set()),
    ),
)
def test_buckets_shows_which_types_meet_a_constraint(constraint: str, met: set[str]) -> None:
    assert {type_ for type_, why in reasons_by_type(constraint).items() if why is None} == met


def test_buckets_shows_why_a_type_does_not_meet_a_constraint() -> None:
    assert reasons_by_type('{"node.vcpu_count": 4}')["m5.large"] == "its node.vcpu_count is 2, and 4 is requested"


def test_buckets_applies_the_default_resources_of_the_rules(tmp_path: Path) -> None:
    rules = {"default_resources": [{"select": {"node.vcpu_count": 2}, "name": "ngpus", "value": 3}]}
    record = ruled(rules, tmp_path, QUEUE)
    assert {type_ for type_, why in reasons_by_type('{"ngpus": 2}', record).items() if why is None} == {"m5.large"}


def test_the_buckets_table_shows_constraints_too() -> None:
    lines = shown("buckets", "--from", str(QUEUE), "--constraint", '{"node.vcpu_count": 4}').splitlines()
    assert any("m5.xlarge" in line and line.rstrip().endswith("met") for line in lines)


def test_a_wrong_constraint_is_refused_with_its_place() -> None:
    done = CliRunner().invoke(cli, ["buckets", "--constraint", '{"or": [{"ngpus": -1}]}'], obj=Invocation({}))
    assert "constraint.or[0].ngpus: an amount cannot be below 0: -1" in str(done.exception)


def test_explain_job_shows_which_nodes_meet_its_rules() -> None:
    (rule,) = json.loads(shown("explain", "12", "--json", "--from", str(QUEUE)))["rules"]
    met = {node["node"] for node in rule["nodes"] if node["reason"] is None}
    assert (rule["place"], met) == ("apply[0]", {"execute/m5.4xlarge (on_demand)", "execute/m5.8xlarge (on_demand)"})


def test_explain_job_shows_why_a_node_does_not_meet_a_rule() -> None:
    explained = shown("explain", "12", "--from", str(QUEUE))
    assert (
        "not by execute/m5.large (on_demand): its node.vm_size is m5.large, and m5.4xlarge or m5.8xlarge is requested"
        in explained
    )


@pytest.mark.parametrize(
    ("constraints", "line"),
    (
        ({"node.exists": True}, "  met by w1"),
        ({"node.spot": True}, "  not by w1: its node.spot is false, and true is requested"),
    ),
)
def test_explain_host_shows_whether_it_meets_the_rules(tmp_path: Path, constraints: object, line: str) -> None:
    record = ruled({"constraints": [constraints]}, tmp_path)
    assert line in shown("explain", "w1", "--from", str(record)).splitlines()


def test_explain_host_shows_no_rule_of_another_queue(tmp_path: Path) -> None:
    rules = [{"queue": queue, "constraints": {"never": queue}} for queue in ("other.q", "main.q")]
    record = ruled({"apply": rules}, tmp_path)
    explained = json.loads(shown("explain", "w1", "--json", "--from", str(record)))["rules"]
    assert [rule["place"] for rule in explained] == ["apply[1]"]
