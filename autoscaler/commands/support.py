"""`sge-autoscaler support DIR`: one archive for a bug report, without secrets and with invented names."""

from __future__ import annotations

import platform
import re
import sys
import tarfile
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import distributions
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from autoscaler.commands._observation import observe
from autoscaler.commands._output import echo, json_option, print_result
from autoscaler.commands.context import Invocation
from autoscaler.engine.anonymous import Names, names_of, write_anonymous
from autoscaler.engine.record import write_record
from autoscaler.errors import AutoscalerError, CommandError, SettingsError
from autoscaler.new_folder import write_file
from autoscaler.process import PythonProgram
from autoscaler.report.log import FILE_NAME

ASKED = (
    ("settings.json", ("config", "show", "--json")),
    ("doctor.txt", ("doctor",)),
    ("status.json", ("status", "--json")),
    ("passes.txt", ("history",)),
    ("requests.json", ("requests", "--json")),
)
"""File → the command whose output is in it."""
PATIENCE = 120.0
"""Seconds for each of them."""
LARGEST_LOG = 2_000_000
"""Bytes of the end of the log."""
LINES = "5000"
UNIT = "sge-autoscaler"
_OF_ADDRESS = re.compile(r"\bip-\d{1,3}(?:-\d{1,3}){3}\b")


@click.command("support")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--yes", is_flag=True, help="Write the archive without asking.")
@json_option
@click.pass_obj
def command(invocation: Invocation, directory: Path, yes: bool, as_json: bool) -> None:
    """Write one archive for a bug report into DIRECTORY.

    It has the versions, the settings without secrets, the last passes and the end of the log, what `doctor` finds, and
    a record of the cell. Names of users, hosts, projects and machines, addresses and paths are replaced as
    `record --case` does; names of queues and complexes stay.

    The contents are listed before anything is written. Read them before you give the archive away: a sentence in the
    log may hold a name that nothing else tells of.
    """
    files = collected(invocation)
    for name, content in () if as_json else sorted(files.items()):
        echo(f"{len(content):9}  {name}")
    if not yes and not as_json:
        click.confirm(f"Write these into one archive in {directory}?", abort=True)
    archive = write_archive(directory, files, datetime.now(invocation.zone))
    print_result(f"wrote {archive}", as_json=as_json, archive=str(archive), files=sorted(files))


def collected(invocation: Invocation) -> dict[str, bytes]:
    """The files of the archive: name → content. What cannot be had is named with its reason in `missing.txt`."""
    missing: list[str] = []
    texts = {"versions.txt": versions()}
    for name, words in ASKED:
        texts[name] = _said(invocation, words, missing)
    texts["log.txt"] = _log(invocation, missing)
    with TemporaryDirectory() as folder:
        files, names = _record(invocation, Path(folder), missing)
    texts["missing.txt"] = "".join(f"{line}\n" for line in missing)
    return files | {name: _without_names(names, text).encode() for name, text in texts.items() if text}


def _without_names(names: Names, text: str) -> str:
    """Machines that are gone are in the log, and not in the record: clouds name them by their addresses."""
    return _OF_ADDRESS.sub("ip-gone", names.text(text))


def _record(invocation: Invocation, folder: Path, missing: list[str]) -> tuple[dict[str, bytes], Names]:
    """A record with invented names, and the names that it invented."""
    plain, invented = folder / "plain", folder / "record"
    try:
        seen = observe(invocation)
        now = datetime.fromtimestamp(seen.snapshot.now, invocation.zone)
        write_record(plain, seen.snapshot, outputs=seen.outputs, settings=invocation.settings, now=now)
        names = names_of(plain)
        write_anonymous(plain, invented)
    except (AutoscalerError, OSError) as error:
        missing.append(f"record: {error}")
        return {}, names_of(plain) if (plain / "settings.toml").exists() else Names({}, platform.node())
    found = (path for path in sorted(invented.rglob("*")) if path.is_file())
    return {f"record/{path.relative_to(invented)}": path.read_bytes() for path in found}, names


def versions() -> str:
    """Of the program, Python, the machine and every package."""
    packages = sorted(f"{each.metadata['Name']} {each.version}" for each in distributions() if "Name" in each.metadata)
    return "\n".join((f"Python {sys.version}", platform.platform(), *packages, ""))


def _said(invocation: Invocation, words: tuple[str, ...], missing: list[str]) -> str:
    """What a command of ours prints, which has no secrets in it."""
    program = PythonProgram.module("autoscaler.commands.main", *words)
    try:
        done = program.run(invocation.runner, timeout=PATIENCE, env=invocation.environ)
    except CommandError as error:
        missing.append(f"{' '.join(words)}: {error}")
        return ""
    if done.returncode and not done.stdout:
        missing.append(f"{' '.join(words)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")


def _log(invocation: Invocation, missing: list[str]) -> str:
    """The end of the log file, else of the unit's journal."""
    directory = invocation.settings.process.log_directory
    try:
        if directory is not None:
            with (directory / FILE_NAME).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - LARGEST_LOG))
                return file.read().decode(errors="replace")
        argv = ("journalctl", "--unit", UNIT, "--lines", LINES, "--no-pager", "--output", "short-iso")
        return invocation.runner(argv, timeout=PATIENCE).stdout.decode(errors="replace")
    except (OSError, CommandError) as error:
        missing.append(f"log: {error}")
        return ""


def write_archive(directory: Path, files: Mapping[str, bytes], now: datetime) -> Path:
    """A .tar.gz that only its writer may read. Raises SettingsError."""
    name = f"sge-autoscaler-support-{now:%Y%m%dT%H%M%S}"
    path = directory / f"{name}.tar.gz"
    written = BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for file, content in sorted(files.items()):
            info = tarfile.TarInfo(f"{name}/{file}")
            info.size, info.mtime = len(content), int(now.timestamp())
            archive.addfile(info, BytesIO(content))
    try:
        write_file(path, written.getvalue(), make=True, replace=False)
    except OSError as error:
        raise SettingsError(f"cannot write {error.filename or path}: {error.strerror}") from error
    return path
