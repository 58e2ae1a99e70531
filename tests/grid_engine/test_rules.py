"""Rules on a real cell: they choose the type, give a mapped complex its value in Grid Engine, and keep a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sge.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

RULES: dict[str, Any] = {
    "default_resources": [{"select": {"node.vcpu_count": 4}, "name": "ngpus", "value": 1}],
    "complexes": {"gpu": "ngpus"},
    "apply": [{"queue": "main.q", "constraints": {"node.vm_size": ["m5.xlarge", "m5.2xlarge"]}}],
    "keep_alive": {"execute": True},
}


def make_gpu_complex(cell: Cell) -> None:
    file = cell.home / "complexes"
    file.write_text(cell.out("qconf", "-sc") + "\ngpu gpu INT <= YES YES 0 0\n")
    cell.out("qconf", "-Mc", str(file))


def write(path: Path, **changed: object) -> None:
    """In one step, as an editor does: the file is read at any moment."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({**RULES, **changed}))
    draft.replace(path)


def test_rules_choose_the_type_give_its_gpu_and_keep_it_until_they_no_longer_do(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    make_gpu_complex(empty_cell)
    rules = empty_cell.home / "rules.json"
    write(rules)
    settings = {"CP_CAP_AUTOSCALE_HYBRID": "true", "CP_CAP_AUTOSCALE_RULES": str(rules)}
    autoscaling = Autoscaling(empty_cell, settings)
    show_on_failure["autoscaler"] = autoscaling.said
    gate = Gate(empty_cell)
    job = gate.submit("-l", "gpu=1")

    with autoscaling.running():
        (host,) = until(lambda: autoscaling.running_on(job), 30, "the job did not start")
        left = empty_cell.out("qhost", "-F", "gpu", "-h", host)
        gate.open()
        until(lambda: autoscaling.ended_well(job), 30, "the job did not end well")
        until(lambda: autoscaling.explained(host)["reason"]["code"] == "KEPT_BY_RULES", 10, "it is not kept")
        kept = autoscaling.living()
        rules.write_text('{"keep_alive": {"execute": 1}}')
        until(lambda: "keep_alive.execute: true or false is expected" in autoscaling.said(), 10, "it was not told")
        still = autoscaling.living()
        write(rules, keep_alive=False)
        until(autoscaling.all_gone, 30, "the worker did not leave")

    assert kept == still == {host: "m5.xlarge"}
    assert "hc:gpu=0.000000" in left
    wrong = [line for line in autoscaling.said().splitlines() if "rules are kept as they were" in line]
    assert len(wrong) == 1
