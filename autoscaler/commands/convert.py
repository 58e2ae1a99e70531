"""`sge-autoscaler convert`: settings, state and records of the commit that was piloted before the first release."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import click

from autoscaler.commands._conversion import Renamed, convert_record, convert_settings, convert_store
from autoscaler.commands._output import echo, json_option, print_result
from autoscaler.commands.context import OF_SERVICE
from autoscaler.errors import NotFound, SettingsError
from autoscaler.strict_modes import exposure, owner_name


@click.command("convert")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def command(paths: tuple[Path, ...], as_json: bool) -> None:
    """Convert what commit 3486b244 wrote, which was piloted before the first release, to the names of this version.

    Each of PATHS is a settings file, a record folder, or the state: NAME.sqlite in the state directory. The autoscaler
    must not run. Workers stay: all that is remembered of them is converted. The old settings and the old state stay
    beside the new ones, with the ending .before-0.1.0. A record is changed in place.
    """
    renamed, done = Renamed.load(), list[str]()
    for path in paths:
        done.append(f"{path}: {_converted(path, renamed)}")
        if not as_json:
            echo(done[-1])
    if as_json:
        print_result("; ".join(done), as_json=True, files=done)


def _converted(path: Path, renamed: Renamed) -> str:
    """What was done to it. Raises NotFound, SettingsError."""
    # It is changed in place, so whoever could exchange a part of it for a link meanwhile would choose what is changed.
    for part in (path, *(path.iterdir() if path.is_dir() else ())):
        if (found := exposure(part, user=owner_name(OF_SERVICE))) is not None:
            raise SettingsError(
                f"{path} is not converted, since others could change it meanwhile ({found.path} {found.how}): convert "
                "it as its owner, or a copy of it"
            )
    try:
        if path.is_dir():
            if not (path / "qstat.xml").exists():
                raise SettingsError(f"{path} is no record: it has no qstat.xml")
            return f"record: {', '.join(convert_record(path, renamed)) or 'nothing to change'}"
        if not path.exists():
            raise NotFound(f"{path} does not exist")
        if path.read_bytes()[:15] == b"SQLite format 3":
            return f"state: {convert_store(path, renamed)} rows"
        return f"settings: {'converted' if convert_settings(path, renamed) else 'nothing to change'}"
    except (OSError, UnicodeDecodeError, ValueError, sqlite3.Error) as error:
        raise SettingsError(f"{path} cannot be converted: {error}") from error
