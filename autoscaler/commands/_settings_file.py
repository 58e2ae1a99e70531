"""`init --settings FILE`: asks the few questions that matter, and writes the settings file with all its comments."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from autoscaler import CONFIG_ENV
from autoscaler.errors import SettingsError, suggestion
from autoscaler.new_folder import write_file
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.registry import known, known_prefixes, offered, provider_class
from autoscaler.settings import load_settings
from autoscaler.settings.pages import sample_file

VENDOR = Path("/sys/class/dmi/id/sys_vendor")
"""Who made this machine."""
CLOUDS = {"Amazon EC2": "aws", "Microsoft Corporation": "azure"}
_TYPES = re.compile(r"[A-Za-z][\w.-]*", re.ASCII)
_FORMS = {
    "aws": (re.compile(r"[a-z][a-z-]*[0-9][a-z0-9-]*(\.[a-z0-9-]+)?"), "m5.large", "m5"),
    "azure": (re.compile(r"(Standard|Basic)_[A-Z]\w+|[A-Z][A-Za-z0-9]*", re.ASCII), "Standard_D4s_v5", "Dsv5"),
    "gcp": (re.compile(r"[a-z]+[0-9][a-z0-9]*(-[a-z0-9]+)*"), "n2-standard-4", "n2-standard"),
}
"""How a cloud's names look, with an instance type and a family of it. Which of them there are, only the cloud knows."""
_WHOLE = re.compile(r"[0-9]{1,9}")
_LEAST = {"workers": 1, "idle": 0}


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
    cloud = "cloud_pipeline" if environ.get("RUN_ID") else CLOUDS.get(vendor, "")
    return (
        Question(
            "provider", f"Who rents the machines ({offered()})", environ.get("CP_CAP_AUTOSCALE_PROVIDER") or cloud
        ),
        Question(
            "types",
            "Instance type of workers (m5.large), or a family (m5) of which the type is chosen by what waits",
            environ.get("CP_CAP_AUTOSCALE_INSTANCE_TYPE") or environ.get("instance_size") or "",
        ),
        Question("workers", "Most workers at once", str(defaults.workers)),
        Question("idle", "Seconds after which an idle worker leaves", f"{defaults.idle_timeout:g}"),
    )


def problem_of(flag: str, answer: str, provider: str = "", environ: Mapping[str, str] = MappingProxyType({})) -> str:
    """What is wrong with an answer; '': nothing. The clouds are not asked: `doctor` does that."""
    if flag == "provider" and answer not in known():
        try:
            provider_class(answer)
        except SettingsError as error:
            return str(error)
    if flag == "types":
        return _problem_of_types(answer, provider, environ)
    if flag in _LEAST and (not _WHOLE.fullmatch(answer) or int(answer) < _LEAST[flag]):
        return f"{answer!r} is no whole number of at least {_LEAST[flag]}"
    return ""


def _problem_of_types(answer: str, provider: str, environ: Mapping[str, str]) -> str:
    """`local` rents what its catalogue has; elsewhere the name must look like one of the cloud."""
    platform = environ.get("CP_CAP_AUTOSCALE_CLOUD_PROVIDER") or environ.get("CLOUD_PROVIDER") or ""
    cloud = {"cyclecloud": "azure", "cloud_pipeline": platform.lower()}.get(provider, provider)
    form, one, family = _FORMS.get(cloud, (_TYPES, "m5.large", "m5"))
    if not form.fullmatch(answer):
        of_cloud = f" of {cloud}" if cloud in _FORMS else ""
        return f"{answer!r} is no instance type{of_cloud}, like {one}, and no family, like {family}"
    if provider == "local" and not environ.get("CP_CAP_AUTOSCALE_LOCAL_CATALOG"):
        types = load_catalog().types
        families = dict.fromkeys(each.family for each in types.values())
        if answer not in types and answer not in families:
            return f"{answer!r} is not in the catalogue; {suggestion(answer, types if '.' in answer else families)}"
    return ""


def write_settings(
    file: Path,
    given: Mapping[str, str],
    asked: Callable[[Question, Mapping[str, str]], str],
    environ: Mapping[str, str],
) -> None:
    """Write the file. `given`: answers by flag; the others come from `asked`, which gets the answers before it.
    Raises SettingsError.

    A file that has all comments and no setting, as a package installs it, is replaced and keeps its owner and mode.
    """
    there = _untouched(file)
    if there is None and os.path.lexists(file):
        raise SettingsError(f"{file} exists: it is left as it is; edit it, or name another file")
    sound = partial(_require_sound, given.get("provider", ""), environ)
    for flag, answer in given.items():
        sound(flag, answer)
    answers: dict[str, str] = {}
    for each in questions(environ, vendor_of()):
        answers[each.flag] = given.get(each.flag) or asked(each, answers)
    missing = [f"--{flag}" for flag, answer in answers.items() if not answer]
    if missing:
        raise SettingsError(
            f"nothing was written: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )
    for flag, answer in answers.items():
        _require_sound(answers["provider"], environ, flag, answer)
    text = filled_in(sample_file(), settings_of(answers))
    with TemporaryDirectory() as folder:
        draft = Path(folder) / file.name
        draft.write_text(text, encoding="utf-8")
        try:
            load_settings({}, draft, known_prefixes=known_prefixes, strict=True)
        except SettingsError as error:
            raise SettingsError(f"nothing was written: {str(error).replace(str(draft), str(file))}") from error
    mode, owner = (0o644, (-1, -1)) if there is None else (stat.S_IMODE(there.st_mode), (there.st_uid, there.st_gid))
    try:
        write_file(file, text.encode(), mode=mode, owner=owner, replace=there is not None)
    except OSError as error:
        raise SettingsError(f"cannot write {error.filename or file}: {error.strerror}") from error


def _require_sound(provider: str, environ: Mapping[str, str], flag: str, answer: str) -> None:
    if answer and (problem := problem_of(flag, answer, provider, environ)):
        raise SettingsError(f"nothing was written: --{flag}: {problem}")


def _untouched(file: Path) -> os.stat_result | None:
    """The status of a regular file that is the sample, byte for byte; None: nothing is there, or something else."""
    try:
        found = file.lstat()
        same = stat.S_ISREG(found.st_mode) and file.read_bytes() == sample_file().encode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"cannot read {error.filename or file}: {error.strerror}") from error
    return found if same else None


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
