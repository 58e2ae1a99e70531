"""The whole service on a real qmaster and scheduler with machines that do not exist."""

from __future__ import annotations

import subprocess
from pathlib import Path

from autoscaler.core.model.fleet import InstanceType
from autoscaler.lab import absent_hosts
from autoscaler.lab.cell import Cell
from autoscaler.providers.catalog import load_catalog
from autoscaler.sge.qhost import read_qhost
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Until


def kinds() -> list[InstanceType]:
    return sorted({bucket.type for bucket in load_catalog().buckets() if bucket.type.family == "m5"}, key=str)


def with_absent_hosts(cell: Cell) -> Autoscaling:
    cell.configure(**absent_hosts.CONFIGURATION)
    folder = cell.home / "bin"
    folder.mkdir(exist_ok=True)
    real = cell.out("bash", "-c", "command -v qhost").strip()
    (folder / "qhost").write_text(absent_hosts.qhost_script(Path(real), kinds()))
    (folder / "qhost").chmod(0o755)
    with cell.tree.hosts_file.open("a") as hosts:
        hosts.write(absent_hosts.hosts_lines(kinds(), 40))
    settings = {
        "CP_CAP_AUTOSCALE_PROVIDER": absent_hosts.PROVIDER,
        "CP_CAP_AUTOSCALE_WORKERS": "30",
        "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "30",
        "CP_CAP_AUTOSCALE_SCALE_DOWN_BATCH_SIZE": "30",
        "PATH": f"{folder}:{cell.environment['PATH']}",
    }
    return Autoscaling(cell, settings)


def test_hosts_that_do_not_exist_run_jobs_join_and_leave(empty_cell: Cell, until: Until) -> None:
    scaling = with_absent_hosts(empty_cell)
    try:
        with scaling.running():
            wide = empty_cell.submit("-b", "y", "-pe", "mpi", "6", "sleep", "3")
            array = empty_cell.submit("-b", "y", "-t", "1-14", "sleep", "3")
            until(lambda: len(scaling.living()) == 10, 40, "ten machines of two slots were rented")
            until(lambda: scaling.ended_well(array, 14) and scaling.ended_well(wide), 60, "all tasks ended well")
            until(scaling.all_gone, 60, "no worker is left")
        assert all(life.joined_at is not None for life in scaling.lifetimes())
        assert not empty_cell.tree.hosts()  # no machine was started
    finally:
        names = empty_cell.tree.hosts_file.read_text().splitlines(keepends=True)
        empty_cell.tree.hosts_file.write_text("".join(line for line in names if not line.startswith("10.128.")))


def test_the_script_adds_a_load_report_to_machines_of_its_types_alone(tmp_path: Path) -> None:
    host = (
        "<host name='{}'><hostvalue name='load_avg'>-</hostvalue>\n"
        "<resourcevalue name='slots' dominance='hc'>2</resourcevalue>\n</host>\n"
    )
    real = tmp_path / "real"
    hosts = "".join(host.format(name) for name in ("global", "m5-large-7", "w1"))
    real.write_text(f"#!/bin/sh\ncat <<'E'\n<qhost>\n{hosts}</qhost>\nE\n")
    real.chmod(0o755)
    script = tmp_path / "qhost"
    script.write_text(absent_hosts.qhost_script(real, kinds()))
    script.chmod(0o755)
    shown = read_qhost(subprocess.run([str(script)], capture_output=True, check=True, timeout=20).stdout)
    offers = {offer.name: offer for offer in shown.hosts}
    assert (offers["m5-large-7"].reports, offers["w1"].reports) == (True, False)
    assert offers["m5-large-7"].load["num_proc"] == "2"
    assert offers["m5-large-7"].consumables == {"slots": "2"}
