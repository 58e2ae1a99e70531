"""A command imports only what it needs: counted in modules, since times depend on the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from autoscaler.commands.main import cli, described
from tests.cell_files import cell_files

SERVICE = ("fastapi", "starlette", "uvicorn", "jinja2", "autoscaler.api.app", "autoscaler.engine.loop")
CLOUDS = ("boto3", "botocore", "azure", "requests")
DECIDING = ("autoscaler.core.plan", "autoscaler.engine.observe")
HEAVY = (*SERVICE, *CLOUDS, *DECIDING, "pydantic", "rich", "filelock", "psutil", "asyncio")
QUICK = (
    *("completion", "drain", "explain", "history", "jetpack", "jobs", "keep", "pause", "plan", "requests", "resume"),
    *("retry", "status", "worker", "workers"),
)
PROGRAM = """
import contextlib, io, json, sys
from autoscaler.commands.main import main
with contextlib.redirect_stdout(io.StringIO()) as printed:
    codes = [main(line) for line in json.loads(sys.argv[1])]
print(json.dumps([codes, printed.getvalue(), sorted(sys.modules)]))
"""


def imported_by(*lines: list[str], environ: Mapping[str, str] | None = None) -> tuple[set[str], str]:
    """The modules that a process with these command lines has imported, and its output."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(lines)],
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes, output, modules = json.loads(done.stdout)
    assert codes == [0] * len(lines), done.stderr
    return set(modules), output


def test_the_command_list_and_the_version_import_no_command() -> None:
    modules, _ = imported_by(["--help"], ["--version"])
    of_commands = {name for name in modules if name.startswith("autoscaler.commands.")}
    assert of_commands <= {f"autoscaler.commands.{name}" for name in ("main", "context", "_output")}
    assert modules.isdisjoint(HEAVY)


def test_the_help_of_a_command_imports_nothing_heavy() -> None:
    modules, _ = imported_by(*([name, "--help"] for name in QUICK))
    assert modules.isdisjoint(HEAVY)


def test_status_imports_no_server_no_cloud_and_no_planning(tmp_path: Path) -> None:
    modules, result = imported_by(
        ["status"],
        environ=cell_files(tmp_path)
        | {
            "XDG_STATE_HOME": str(tmp_path),
            "CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path),
            "CP_CAP_AUTOSCALE_PROVIDER": "local",
        },
    )
    assert "no pass has been made yet" in result
    assert modules.isdisjoint((*SERVICE, *CLOUDS, *DECIDING))


def test_the_command_list_has_the_descriptions_of_the_commands() -> None:
    with click.Context(cli) as context:
        names = cli.list_commands(context)
        assert len(names) > 30
        for name in names:
            command = cli.get_command(context, name)
            assert command is not None
            assert described(name).get_short_help_str(99) == command.get_short_help_str(99)
