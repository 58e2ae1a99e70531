"""`doctor` on a real Grid Engine: a sound cell has no bad finding, and every defect is found."""

from __future__ import annotations

import json
import sys

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.lab.private_root import MASTER
from tests import samples
from tests.grid_engine import forked
from tests.grid_engine.waiting import Until

COMMAND = (sys.executable, "-m", "autoscaler.commands.main", "doctor", "--json")


def findings(cell: Cell, host: str = MASTER, user: str = "root", **environment: str) -> dict[str, str]:
    """Finding → level, for a user on a host."""
    settings = {**cell.environment, "CP_CAP_SGE_MASTER_CORES": "0", **environment}
    if (host, user) == (MASTER, "root") and not samples.thorough():
        completed = forked.run(cell, ("doctor", "--json"), timeout=120.0, env=settings)
    else:
        argv = ("setpriv", f"--reuid={user}", "--clear-groups", *COMMAND)
        completed = cell.host_runner(host)(argv, timeout=120.0, env=settings)
    assert completed.stdout, completed.stderr.decode()
    return {finding["what"]: finding["level"] for finding in json.loads(completed.stdout)["findings"]}


def test_a_sound_cell_has_no_bad_finding_but_a_missing_provider(cell: Cell) -> None:
    bad = {what for what, level in findings(cell).items() if level != "ok"}
    assert bad <= {"provider not chosen"}


def test_a_cell_without_hosts_is_a_warning(empty_cell: Cell) -> None:
    assert findings(empty_cell)["empty cluster"] == "warn"


def test_without_a_scheduler_the_other_findings_are_the_same(cell: Cell, until: Until) -> None:
    cell.out("qconf", "-kt", "scheduler")
    until(lambda: cell.runner(("qconf", "-sss"), timeout=60.0).stdout.strip() == b"")
    bad = {what for what, level in findings(cell).items() if level != "ok"}
    assert bad <= {"provider not chosen"}


def test_a_changed_configuration_is_found(cell: Cell) -> None:
    cell.configure(reschedule_unknown="00:10:00", max_unheard="00:00:01")
    found = findings(cell)
    assert (found["reschedule_unknown"], found["max_unheard"]) == ("warn", "fail")


def test_a_verifying_default_is_found(cell: Cell) -> None:
    request = cell.root / "default" / "common" / "sge_request"
    request.write_text(request.read_text() + "-w e\n")
    assert findings(cell)["default options"] == "fail"


def test_an_unprepared_queue_is_found(cell: Cell) -> None:
    assert findings(cell, CP_CAP_SGE_QUEUE_NAME="other.q")["preparation"] == "fail"


def test_a_user_who_is_not_a_manager_is_found(cell: Cell) -> None:
    assert findings(cell, user="games")["manager rights"] == "fail"


def test_a_host_that_may_only_submit_is_found(cell: Cell) -> None:
    worker = cell.declared[0].name
    cell.out("qconf", "-as", worker)
    assert findings(cell, worker)["qmaster"] == "fail"


def test_a_host_that_is_neither_admin_nor_submit_host_is_found(cell: Cell) -> None:
    assert findings(cell, cell.declared[0].name)["qmaster"] == "fail"


def test_without_a_qmaster_no_further_finding_is_reported(cell: Cell) -> None:
    cell.stop_qmaster()
    bad = {what for what, level in findings(cell).items() if level != "ok"}
    assert bad == {"qmaster", "provider not chosen"}


@pytest.mark.thorough
def test_rules_that_name_a_missing_complex_are_found(cell: Cell) -> None:
    rules = cell.home / "rules.json"
    rules.write_text('{"complexes": {"gpu": "ngpus"}}')
    assert findings(cell, CP_CAP_AUTOSCALE_RULES=str(rules))["rules"] == "warn"


def test_an_unknown_instance_type_is_found(cell: Cell) -> None:
    fake = {"CP_CAP_AUTOSCALE_PROVIDER": "fake", "CP_CAP_AUTOSCALE_TAG": "cell"}
    assert findings(cell, **fake, CP_CAP_AUTOSCALE_INSTANCE_TYPE="m5.lrage")["instance types"] == "fail"
    assert findings(cell, **fake, CP_CAP_AUTOSCALE_INSTANCE_TYPE="m5.large")["instance types"] == "ok"


def test_a_limit_that_applies_to_each_queue_separately_is_found(cell: Cell) -> None:
    assert findings(cell, CP_CAP_SGE_QUEUE_NAME_1="second.q")["settings"] == "warn"


@pytest.mark.thorough
def test_a_verifier_that_does_not_allow_changes_of_contexts_is_found(cell: Cell) -> None:
    wanted = {"CP_CAP_AUTOSCALE_JOB_CONTEXT": "true"}
    assert findings(cell, **wanted)["context of jobs"] == "ok"
    cell.configure(jsv_url="script:/bin/true", jsv_allowed_mod="h,i,e")
    assert findings(cell, **wanted)["context of jobs"] == "warn"
    assert "context of jobs" not in findings(cell)
