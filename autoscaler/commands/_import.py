"""`sge-autoscaler config import`: settings and rules from a file that was made for another autoscaler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

import click

from autoscaler.commands._output import echo, json_option, print_result
from autoscaler.constraints.autoscale_json import import_autoscale, settings_lines
from autoscaler.constraints.json_text import read_json
from autoscaler.errors import SettingsError
from autoscaler.new_folder import write_file

SETTINGS, RULES = "settings.toml", "rules.json"
USUAL = Path("/etc/sge-autoscaler")


@click.command("import")
@click.argument("document", type=click.File(encoding="utf-8"))
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write settings.toml and rules.json into. Default: print them.",
)
@json_option
def command(document: TextIO, folder: Path | None, as_json: bool) -> None:
    """Make settings and rules from DOCUMENT, an autoscale.json of cyclecloud-scalelib (- for standard input).

    Keys that have no meaning here, or need your attention, are reported on standard error. The password is never
    printed or written.
    """
    try:
        found = import_autoscale(read_json(document.read()))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{document.name}: it is no UTF-8 text: byte {error.start} breaks it") from error
    except SettingsError as error:
        raise SettingsError(f"{document.name}: {error}") from error
    where = (folder or USUAL).absolute()
    if found.rules:
        found.settings["CP_CAP_AUTOSCALE_RULES"] = str(where / RULES)
    texts = {where / SETTINGS: "".join(f"{line}\n" for line in settings_lines(found.settings))}
    if found.rules:
        texts[where / RULES] = json.dumps(found.rules, indent=2, ensure_ascii=False) + "\n"
    if folder is not None:
        _write(texts)
    if as_json:
        message = (
            "nothing was written: --to names a folder" if folder is None else f"wrote {', '.join(map(str, texts))}"
        )
        files = {str(path): text for path, text in texts.items()}
        print_result(message, as_json=True, done=folder is not None, files=files, notes=list(found.notes))
        return
    if folder is None:
        echo("\n".join(f"# {path}\n{text}" for path, text in texts.items()).rstrip("\n"))
    for path in texts if folder is not None else ():
        echo(f"wrote {path}")
    for note in found.notes:
        echo(f"note: {note}", err=True)


def _write(texts: dict[Path, str]) -> None:
    """Write all files, or none if one exists already."""
    for path in texts:
        if path.exists():
            raise SettingsError(f"{path} is there already: nothing is written")
    try:
        for path, text in texts.items():
            write_file(path, text.encode(), mode=0o644, make=True, replace=False)
    except OSError as error:
        raise SettingsError(f"cannot write {error.filename}: {error.strerror}") from error
