"""`init --settings FILE`: asks the few questions that matter, and writes the settings file with all its comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from autoscaler import CONFIG_ENV
from autoscaler.errors import SettingsError
from autoscaler.new_folder import write_file
from autoscaler.providers.registry import known, known_prefixes
from autoscaler.settings import load_settings
from autoscaler.settings.pages import sample_file

VENDOR = Path("/sys/class/dmi/id/sys_vendor")
"""Who made this machine."""
CLOUDS = {"Amazon EC2": "aws", "Microsoft Corporation": "azure"}
_NOT_OFFERED = frozenset({"fake"})


@dataclass(frozen=True, slots=True)
class Question:
    """One setting that `init` asks for."""

    flag: str
    text: str
    found: str
    """What was found, as the default; empty: an answer is needed."""


def questions(environ: Mapping[str, str], vendor: str) -> tuple[Question, ...]:
    """In the order in which they are asked, with what this machine and its environment tell as defaults."""
    defaults = load_settings({}).queues[""]
    offered = ", ".join(name for name in known() if name not in _NOT_OFFERED)
    cloud = "cloud_pipeline" if environ.get("RUN_ID") else CLOUDS.get(vendor, "")
    return (
        Question("provider", f"Who rents the machines ({offered})", environ.get("CP_CAP_AUTOSCALE_PROVIDER") or cloud),
        Question(
            "types",
            "Instance type of workers (m5.large), or a family (m5) of which the type is chosen by what waits",
            environ.get("CP_CAP_AUTOSCALE_INSTANCE_TYPE") or environ.get("instance_size") or "",
        ),
        Question("workers", "Most workers at once", str(defaults.workers)),
        Question("idle", "Seconds after which an idle worker leaves", f"{defaults.idle_timeout:g}"),
    )


def write_settings(
    file: Path, given: Mapping[str, str], asked: Callable[[Question], str], environ: Mapping[str, str]
) -> None:
    """Write the file. `given`: answers by flag; the others come from `asked`. Raises SettingsError."""
    if file.exists():
        raise SettingsError(f"{file} exists: it is left as it is; edit it, or name another file")
    answers = {each.flag: given.get(each.flag) or asked(each) for each in questions(environ, vendor_of())}
    missing = [f"--{flag}" for flag, answer in answers.items() if not answer]
    if missing:
        raise SettingsError(
            f"nothing was written: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )
    text = filled_in(sample_file(), settings_of(answers))
    with TemporaryDirectory() as folder:
        draft = Path(folder) / file.name
        draft.write_text(text, encoding="utf-8")
        load_settings({}, draft, known_prefixes=known_prefixes, strict=True)
    try:
        write_file(file, text.encode(), mode=0o644, replace=False)
    except OSError as error:
        raise SettingsError(f"cannot write {error.filename or file}: {error.strerror}") from error


def settings_of(answers: Mapping[str, str]) -> dict[str, str]:
    """Setting → value, as it stands in the file."""
    types = answers["types"]
    one = "." in types or "_" in types  # m5.large, Standard_D4s_v5; families have neither
    of_types = {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": f'"{types}"'}
    if not one:
        of_types = {"CP_CAP_AUTOSCALE_HYBRID": "true", "CP_CAP_AUTOSCALE_HYBRID_FAMILY": f'"{types}"'}
    return {
        "CP_CAP_AUTOSCALE_PROVIDER": f'"{answers["provider"]}"',
        **of_types,
        "CP_CAP_AUTOSCALE_WORKERS": answers["workers"],
        "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": answers["idle"],
    }


def filled_in(sample: str, values: Mapping[str, str]) -> str:
    """The sample with these settings in force; all others stay comments."""
    lines = sample.splitlines()
    for name, value in values.items():
        (at,) = (number for number, line in enumerate(lines) if line.startswith(f"# {name} = "))
        lines[at] = f"{name} = {value}"
    return "\n".join(lines) + "\n"


def vendor_of(path: Path = VENDOR) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def next_command(file: Path) -> str:
    return f"{CONFIG_ENV}={file} sge-autoscaler doctor"
