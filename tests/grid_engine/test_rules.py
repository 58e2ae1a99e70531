"""Rules on a real cell: they choose the type, give a mapped complex its value in Grid Engine, and keep a worker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.plan import plan
from autoscaler.engine.record import read_record
from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

RULES: dict[str, Any] = {
    "default_resources": [
        {"select": {"node.vcpu_count": 4}, "name": "ngpus", "value": 1},
        {"select": {}, "name": "vm_size", "value": "node.vm_size"},
    ],
    "complexes": {"gpu": "ngpus", "size": "vm_size"},
    "apply": [{"queue": "main.q", "constraints": {"node.vm_size": ["m5.xlarge", "m5.2xlarge"]}}],
    "keep_alive": {"execute": True},
}


def make_complexes(cell: Cell) -> None:
    """`gpu`, which is counted, and `size`, by which a job asks Grid Engine itself for a type."""
    file = cell.home / "complexes"
    more = "gpu gpu INT <= YES YES 0 0\nsize size STRING == YES NO NONE 0\n"
    file.write_text(f"{cell.out('qconf', '-sc')}\n{more}")
    cell.out("qconf", "-Mc", str(file))


def write(path: Path, **changed: object) -> None:
    put(path, {**RULES, **changed})


def put(path: Path, document: object) -> None:
    """In one step, as an editor does: the file is read at any moment."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(document))
    draft.replace(path)


def test_rules_choose_the_type_set_its_complexes_and_keep_the_worker(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    make_complexes(empty_cell)
    rules = empty_cell.home / "rules.json"
    write(rules)
    settings = {"CP_CAP_AUTOSCALE_HYBRID": "true", "CP_CAP_AUTOSCALE_RULES": str(rules)}
    autoscaling = Autoscaling(empty_cell, settings)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)
    job = gate.submit("-l", "gpu=1,size=m5.xlarge")

    with autoscaling.running():
        (host,) = until(lambda: autoscaling.running_on(job), 30, "the job did not start")
        left = empty_cell.out("qhost", "-F", "gpu,size", "-h", host)
        gate.open()
        until(lambda: autoscaling.ended_well(job), 30, "the job did not end well")
        until(lambda: f"{host} (kept by rules)" in autoscaling.log_text(), 10, "it is not kept")
        kept = autoscaling.living()
        put(rules, {"keep_alive": {"execute": 2}})
        until(
            lambda: "keep_alive.execute: true or false is expected" in autoscaling.log_text(), 10, "it was not logged"
        )
        still = autoscaling.living()
        write(rules, keep_alive=False)
        until(autoscaling.all_gone, 30, "the worker did not leave")

    assert kept == still == {host: "m5.xlarge"}
    assert [value in left for value in ("hc:gpu=0.000000", "hf:size=m5.xlarge")] == [True, True]
    wrong = [line for line in autoscaling.log_text().splitlines() if "the former rules stay in force" in line]
    assert len(wrong) == 1


def both(autoscaling: Autoscaling, jobs: list[Any]) -> list[str]:
    """The hosts of two jobs, once each runs; none before."""
    found = [host for job in jobs for host in autoscaling.running_on(job)]
    return found if len(found) == 2 else []


@pytest.mark.thorough
def test_jobs_that_request_an_exclusive_complex_get_a_worker_each(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    file = empty_cell.home / "complexes"
    file.write_text(f"{empty_cell.out('qconf', '-sc')}\nwhole_host wh BOOL EXCL YES YES 0 1000\n")
    empty_cell.out("qconf", "-Mc", str(file))
    autoscaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.xlarge"})
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)
    jobs = [gate.submit("-l", "whole_host=true") for _ in range(2)]
    with autoscaling.running():
        hosts = until(lambda: both(autoscaling, jobs), 60)
        values = empty_cell.out("qconf", "-se", hosts[0])
        gate.open()
        until(lambda: all(autoscaling.ended_well(job) for job in jobs), 30)
        until(autoscaling.all_gone, 60)
    assert len(set(hosts)) == 2
    assert "whole_host=TRUE" in values


CATALOG = """
cloud = "azure"
region = "westus2"
currency = "USD"
as_of = 2026-01-01

[types]
Standard_F2 = { vcpus = 2, memory_gib = 4, on_demand = 0.1 }
Standard_F16 = { vcpus = 16, memory_gib = 32, on_demand = 0.8 }
Standard_NC6 = { vcpus = 6, memory_gib = 56, gpus = 1, on_demand = 0.9 }
"""
SIZES = ("Standard_F2", "Standard_F16", "Standard_NC6")
SITE: dict[str, Any] = {
    "location": "westus2",
    "default_resources": [
        {"select": {"node.vm_size": "Standard_NC6"}, "name": "ngpus", "value": 4},
        {"select": {"node.gpu_count": 0}, "name": "project", "value": "open"},
        {"select": {}, "name": "project", "value": "restricted"},
        {"select": {"node.vm_size": "Standard_F16"}, "name": "custom_string1", "value": "custom_value"},
        {"select": {"node.vm_size": "Standard_F16"}, "name": "custom_string2", "value": "custom_value2"},
        {"select": {"node.vm_size": "Standard_F16"}, "name": "custom_integer", "value": 32},
        {"select": {}, "name": "ncpus", "value": "node.vcpu_count"},
        {"select": {}, "name": "group_id", "value": "node.placement_group"},
        {"select": {}, "name": "host", "value": "node.hostname"},
        {"select": {}, "name": "mem", "value": "node.memory"},
        {"select": {}, "name": "vm_size", "value": "node.vm_size"},
        {"select": {}, "name": "disk", "value": "size::20g"},
    ],
}
"""The reference's resources of PBSPro, and what its constraints name besides."""
REFERENCE: tuple[tuple[str, str], ...] = (
    ('{"and": [{"ncpus": 1}, {"mem": "memory::4g"}]}', "3 Standard_F2"),
    ('{"ncpus": 1, "mem": "memory::4g"}', "3 Standard_F2"),
    ('{"exclusive": true}', "3 Standard_F2"),
    ('{"exclusive-task": true}', "3 Standard_F2"),
    ('{"in-a-placement-group": true}', "RULES_FORBID"),
    ('{"in-a-placement-group": false}', "2 Standard_F2"),
    ('{"ncpus": 1}', "2 Standard_F2"),
    ('{"mem": "memory::4g"}', "3 Standard_F2"),
    ('{"ngpus": 4}', "3 Standard_NC6"),
    ('{"ncpus": 1, "mem": "memory::4g", "ngpus": 4}', "3 Standard_NC6"),
    ('{"or": [{"project": "open"}, {"project": "restricted", "never": "User is denied access"}]}', "2 Standard_F2"),
    ('{"node.vm_size": ["Standard_F16", "Standard_E32"]}', "1 Standard_F16"),
    ('{"node.location": "westus2"}', "2 Standard_F2"),
    ('{"node.pcpu_count": 44}', "RULES_FORBID"),
    ('{"custom_string1": "custom_value"}', "1 Standard_F16"),
    ('{"custom_string2": ["custom_value1", "custom_value2"]}', "1 Standard_F16"),
    ('{"custom_integer": [16, 32]}', "1 Standard_F16"),
    ('{"not": {"node.gpu_count": 0}}', "1 Standard_NC6"),
    ('{"not": {"ngpus": 1}}', "2 Standard_F2"),
    (
        '{"or": [{"node.vm_size": "Standard_NC6", "node.spot": true}, {"node.vm_size": "Standard_F16"}]}',
        "1 Standard_F16",
    ),
    ('{"xor": [{"node.location": "westus2"}, {"node.location": "eastus"}]}', "2 Standard_F2"),
)
"""Constraints of the reference, and what three waiting jobs of one slot would get on `local`."""


def would_get(record: Path) -> str:
    """What is launched for the jobs of a record, or why nothing is."""
    snapshot = read_record(record)
    (array,) = snapshot.policy.node_arrays
    any_size = replace(array, machine_types=SIZES)  # as a request that names several machine types
    found = plan(replace(snapshot, policy=replace(snapshot.policy, node_arrays=(any_size,))))
    launches = [action.candidates[0] for action in found.actions if isinstance(action, Launch)]
    if launches:
        return ", ".join(f"{candidate.count} {candidate.type.name}" for candidate in launches)
    return found.job_categories[0].reason.code.value


def test_constraints_of_the_reference_choose_what_local_would_launch(empty_cell: Cell) -> None:
    catalog, rules, record = (empty_cell.home / name for name in ("catalog.toml", "rules.json", "record"))
    catalog.write_text(CATALOG)
    rules.write_text(json.dumps(SITE))
    settings = {
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "Standard_F2",
        "CP_CAP_AUTOSCALE_WORKERS": "9",
        "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "9",
        "CP_CAP_AUTOSCALE_LOCAL_CATALOG": str(catalog),
        "CP_CAP_AUTOSCALE_RULES": str(rules),
    }
    gate = Gate(empty_cell)
    for _ in range(3):
        gate.submit()
    done = Autoscaling(empty_cell, settings).command("record", str(record))
    assert done.returncode == 0, done.stderr.decode()

    got = {}
    for document, _ in REFERENCE:
        (record / "rules.json").write_text(json.dumps({**SITE, "constraints": [json.loads(document)]}))
        got[document] = would_get(record)
    assert got == dict(REFERENCE)


def test_the_context_and_the_user_of_a_job_decide_which_rules_apply(empty_cell: Cell) -> None:
    rules = empty_cell.home / "rules.json"
    by_context = {"context": {"tier": "go*"}, "constraints": {"node.vm_size": "m5.xlarge"}}
    write(rules, apply=[by_context, {"user": "nobody", "constraints": {"never": "not you"}}])
    settings = {"CP_CAP_AUTOSCALE_HYBRID": "true", "CP_CAP_AUTOSCALE_RULES": str(rules)}
    autoscaling, gate = Autoscaling(empty_cell, settings), Gate(empty_cell)
    gold, plain = gate.submit("-ac", "tier=gold"), gate.submit("-ac", "tier=iron")
    held = {job: autoscaling.explained(job)["rules"] for job in (gold, plain)}
    assert {job: [rule["place"] for rule in outcomes] for job, outcomes in held.items()} == {
        gold: ["apply[0]"],
        plain: [],
    }
