"""What serves a cell: the boot script of its workers, the unit that starts it, and settings read again."""

from __future__ import annotations

import re
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.serving import boot_script, serving
from autoscaler.errors import SettingsError
from autoscaler.store.identity import FILE


@pytest.fixture
def invocation(tmp_path: Path) -> Invocation:
    common = tmp_path / "it's a root" / "default" / "common"
    common.mkdir(parents=True)
    (common / "act_qmaster").write_text("localhost\n")
    (common / "bootstrap").write_text("ignore_fqdn true\n")
    return Invocation(
        {
            "SGE_ROOT": str(common.parents[1]),
            "SGE_QMASTER_PORT": "6444",
            "SGE_EXECD_PORT": "6445",
            "CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"),
            "CP_CAP_AUTOSCALE_PROVIDER": "fake",
            "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
        }
    )


def test_the_boot_script_is_a_script_whatever_the_cells_path(invocation: Invocation, tmp_path: Path) -> None:
    script = tmp_path / "boot.sh"
    script.write_text(boot_script(invocation)("execute"))
    checked = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (script.read_text().splitlines()[0], checked.returncode, checked.stderr) == ("#!/bin/sh", 0, "")


def test_the_boot_script_points_at_this_cell(invocation: Invocation, tmp_path: Path) -> None:
    lines = boot_script(invocation)("execute").splitlines()
    settings = "\n".join(line for line in lines if re.match(r"SGE_\w+=", line))
    shown = subprocess.run(
        ["sh", "-c", f'{settings}\nprintf "%s|" "$SGE_ROOT" "$SGE_CELL" "$SGE_QMASTER_PORT" "$SGE_EXECD_PORT"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == f"{tmp_path}/it's a root|default|6444|6445|"


def test_a_worker_cannot_start_an_autoscaler_of_its_own(invocation: Invocation) -> None:
    script = boot_script(invocation)("execute")
    assert ("CP_CAP_AUTOSCALE=false\n" in script, "sge-autoscaler" in script) == (True, False)


def test_a_worker_without_the_cells_files_says_what_is_missing(invocation: Invocation, tmp_path: Path) -> None:
    (Path(invocation.environ["SGE_ROOT"]) / "default" / "common" / "act_qmaster").chmod(0o600)
    script = boot_script(invocation)("execute")
    (Path(invocation.environ["SGE_ROOT"]) / "default").rename(tmp_path / "moved")
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, "this worker cannot join" in ran.stdout) == (1, True)


def test_an_execd_is_started_again_until_the_cell_knows_its_host(invocation: Invocation, tmp_path: Path) -> None:
    """As recorded in tests/sge/recorded/joins.json: it ends with 1 while its host is not known."""
    programs = tmp_path / "programs"
    programs.mkdir()
    count = f'echo started >>"{tmp_path}/count"; [ "$(wc -l <"{tmp_path}/count")" -ge 3 ]'
    for name, does in (("sge_execd", count), ("sleep", "true"), ("setsid", 'shift; exec "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    script, path = boot_script(invocation)("execute"), f"{programs}:/usr/bin:/bin"
    subprocess.run(["sh", "-c", script], env={"PATH": path}, capture_output=True, timeout=20, check=True)
    assert (tmp_path / "count").read_text().count("started") == 3


def test_without_an_instance_type_nothing_is_served(invocation: Invocation) -> None:
    invocation = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_INSTANCE_TYPE": ""})
    with pytest.raises(SettingsError, match="no instance type"), serving(invocation):
        pass


def test_serving_makes_the_cells_tag_and_its_store(invocation: Invocation) -> None:
    with serving(invocation):
        made = ((invocation.common / FILE).exists(), invocation.store_file.exists())
    assert made == (True, True)


def test_a_dry_run_leaves_no_trace(invocation: Invocation, tmp_path: Path) -> None:
    invocation = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_DRY_RUN": "true"})
    with serving(invocation) as loop:
        made = (loop.dry_run, (invocation.common / FILE).exists(), (tmp_path / "state").exists())
    assert made == (True, False, False)


def test_settings_read_again_give_the_new_policy(invocation: Invocation) -> None:
    environ = dict(invocation.environ)
    with serving(Invocation(environ)) as loop:
        environ["CP_CAP_AUTOSCALE_WORKERS"] = "7"
        environ["CP_CAP_AUTOSCALE_POLLING_DELAY"] = "5"
        assert loop.reload is not None
        policy, poll = loop.reload()
    assert (policy.node_arrays[0].limits.max_workers, poll) == (7, 5.0)


def test_the_service_unit_is_one_that_systemd_would_notify() -> None:
    unit = resources.files("autoscaler.conf").joinpath("sge-autoscaler.service").read_text(encoding="utf-8")
    wanted = {"Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "RestartPreventExitStatus=0 2 5"}
    assert wanted <= set(unit.splitlines())
