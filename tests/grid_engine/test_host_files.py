"""Files that an administrator put on the machine are not visible in a private cell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

STRAYS = """
set -eu
mount -t tmpfs own "$1"
for folder in /usr/local/bin /opt /etc; do
    own="$1/$(basename $folder)"
    mkdir -p "$own/upper" "$own/work"
    mount -t overlay -o "lowerdir=$folder,upperdir=$own/upper,workdir=$own/work" own $folder
done
mkdir -p /opt/cycle/jetpack/bin /etc/sge-autoscaler
for stray in /usr/local/bin/jetpack /opt/cycle/jetpack/bin/jetpack /usr/local/bin/sge-autoscaler; do
    printf '#!/bin/sh\\necho stray\\n' >$stray
    chmod 0755 $stray
done
printf 'cyclecloud.instance.id\\tstray\\n' >/etc/sge-autoscaler/worker.conf
echo nameserver 10.9.9.9 >/etc/resolv.conf
ln -s "$2" /usr/local/bin/python-of-cells
shift 2
exec "$@"
"""
"""A machine of its own mounts, where others left their programs and settings. $1: a folder; $2: a Python."""
IN_CELL = """
import json, sys
from autoscaler.lab.cell import Cell
if sys.argv[1:]:
    sys.executable = sys.argv[1]
ASKED = {
    "jetpack": "command -v jetpack",
    "folders": "ls -A /opt/cycle /etc/sge-autoscaler | grep -v ':$'",
    "resolver": "cat /etc/resolv.conf",
    "programs": "ls /usr/local/bin",
    "python": "python-of-cells -I -c 'print(1 + 1)'",
}
with Cell.up(hosts=1) as cell:
    runners = (cell.runner, cell.host_runner(cell.declared[0].name))
    found = [{key: run(("sh", "-c", words), timeout=60).stdout.decode().split() for key, words in ASKED.items()}
            for run in runners]
    print(json.dumps(found))
"""


def seen(tmp_path: Path, *words: str) -> list[dict[str, list[str]]]:
    """What the master and an execution host of a cell see on such a machine."""
    own = tmp_path / "own"
    own.mkdir()
    argv = ("unshare", "--mount", "--", "sh", "-c", STRAYS, "sh", str(own), sys.executable)
    done = subprocess.run((*argv, sys.executable, "-c", IN_CELL, *words), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, list[str]]] = json.loads(done.stdout)
    return found


def test_programs_and_settings_of_the_machine_are_not_visible_in_a_cell(tmp_path: Path) -> None:
    nothing: dict[str, list[str]] = {key: [] for key in ("jetpack", "folders", "resolver", "programs", "python")}
    assert seen(tmp_path) == [nothing] * 2


def test_an_installed_python_and_our_own_program_are_visible_in_a_cell(tmp_path: Path) -> None:
    for found in seen(tmp_path, "/usr/local/bin/python-of-cells"):
        assert (found["jetpack"], found["python"]) == ([], ["2"])
        assert set(found["programs"]) >= {"python-of-cells", "sge-autoscaler"}
        assert "jetpack" not in found["programs"]
