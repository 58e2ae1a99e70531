"""Render the settings for people: the commented sample file, the reference page, and the rows of `config show`."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from autoscaler import CONFIG_ENV
from autoscaler.settings.loading import Origin, Settings, is_secret
from autoscaler.settings.process_settings import Process
from autoscaler.settings.queue_settings import QueueSettings
from autoscaler.settings.rows import ONLY_CLOUD_PIPELINE, extra, rows

_HEADINGS: dict[type[BaseModel], str] = {
    Process: "For the whole autoscaler",
    QueueSettings: "For each queue and its workers",
}


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting for people."""

    env: str
    kind: str
    default: str
    unit: str
    help: str
    also: str
    no_effect: str
    value: str = ""
    origin: str = "default"


def table_rows(section: type[BaseModel]) -> Iterator[SettingRow]:
    """The rows of a section in the order of the table."""
    return model_rows(section, rows(section))


def model_rows(model: type[BaseModel], fields: Mapping[str, str]) -> Iterator[SettingRow]:
    """The rows of a model that declares its settings itself, as a provider's does. `fields`: by environment name."""
    for env, name in fields.items():
        info = model.model_fields[name]
        yield SettingRow(
            env=env,
            kind=_kind(info.annotation),
            default="" if info.default is None or info.default is PydanticUndefined else _shown(info.default),
            unit=extra(model, name, "unit"),
            help=info.description or "",
            also=extra(model, name, "also"),
            no_effect=extra(model, name, "no_effect"),
        )


def given_rows(
    model: BaseModel, fields: Mapping[str, str], origins: Mapping[str, Origin], *, elsewhere: str = "environment"
) -> Iterator[SettingRow]:
    """The same with the values in force and where each came from; secrets masked. `elsewhere`: the source of a value
    that was given and has no origin.
    """
    for row, (env, name) in zip(model_rows(type(model), fields), fields.items(), strict=True):
        value, origin = getattr(model, name), origins.get(env)
        shown = "" if value is None else "***" if is_secret(env) else _shown(value)
        given = name in model.model_fields_set
        yield replace(row, value=shown, origin=origin.source if origin else elsewhere if given else "default")


def shown_rows(settings: Settings) -> Iterator[SettingRow]:
    """Every setting with the value in force and where it came from; secrets masked."""
    values: list[tuple[str, BaseModel]] = [("", settings.process), *settings.queues.items()]
    for suffix, section in values:
        fields = {f"{env}_{suffix}" if suffix else env: name for env, name in rows(type(section)).items()}
        yield from given_rows(section, fields, settings.origins, elsewhere="default")


def sample_file() -> str:
    """The commented sample settings file: every setting, commented out at its default."""
    lines = [
        "# Settings of sge-autoscaler. You can also set each name in the environment, which takes precedence over "
        "this file.",
        f"# The autoscaler finds this file by {CONFIG_ENV}=/etc/sge-autoscaler.toml",
        "# A further queue has settings under a suffix: CP_CAP_SGE_QUEUE_NAME_1, CP_CAP_AUTOSCALE_WORKERS_1, …",
    ]
    for section, heading in _HEADINGS.items():
        lines += ["", f"# == {heading} ==", ""]
        for row in table_rows(section):
            if row.no_effect:
                continue
            lines += [f"# {row.help}" + (f" In {row.unit}." if row.unit else "")]
            lines += [f"# {row.env} = {_toml(row)}", ""]
    return "\n".join(lines).rstrip() + "\n"


MATTERING = {
    "CP_CAP_AUTOSCALE_PROVIDER": "who rents the machines",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "of one size",
    "CP_CAP_AUTOSCALE_HYBRID": "or of several, chosen by what waits",
    "CP_CAP_AUTOSCALE_HYBRID_FAMILY": "of this family",
    "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE": "no larger than this",
    "CP_CAP_AUTOSCALE_PRICE_TYPE": "spot or on demand",
    "CP_CAP_AUTOSCALE_WORKERS": "most workers of a queue",
    "CP_CAP_AUTOSCALE_MAX_CORES": "most cores",
    "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR": "highest price an hour",
    "CP_CAP_AUTOSCALE_TOTAL_WORKERS": "most of all queues together",
    "CP_CAP_AUTOSCALE_MIN_WORKERS": "workers that stay",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "how long the oldest job waits first",
    "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "most workers of one launch",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "when an idle worker leaves",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": "when a machine that does not join is given up",
    "CP_CAP_AUTOSCALE_DEADLOCK": "what becomes of a job that can never run",
    "CP_CAP_AUTOSCALE_SILENCE_TIMEOUT": "when a silent worker is ended",
    "CP_CAP_SGE_QUEUE_NAME": "the queue",
    "CP_CAP_SGE_MASTER_CORES": "slots of the master",
    "CP_CAP_AUTOSCALE_DRY_RUN": "decide, and change nothing",
}
"""What most cells set, in the order in which one asks, and what for."""
RULED = {
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "idle_timeout",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": "boot_timeout",
    "CP_CAP_AUTOSCALE_CYCLECLOUD_LOCATION": "location",
    "CP_CAP_AUTOSCALE_VM_SIZES": "vm_sizes",
    "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_GPU": "complexes",
}
"""Settings in whose place a document of rules may say something, and its name there."""


def reference_page(
    providers: Mapping[str, Sequence[SettingRow]] = MappingProxyType({}),
    policies: Mapping[str, Sequence[SettingRow]] = MappingProxyType({}),
) -> str:
    """docs/configure.md. `providers`, `policies`: the rows of each, by its name."""
    lines = [
        "# Configure",
        "",
        "<!-- Generated by `sge-autoscaler config docs`; edit the settings in autoscaler/settings/ instead. -->",
        "",
        f"The autoscaler reads a setting from the environment, else from the TOML file that `{CONFIG_ENV}` names; else "
        "the default applies. The file has no tables: each setting stands under its environment name. In brackets is "
        "what a setting takes, with its default, if it has one.",
        "",
        "Booleans are `true`, `yes`, `on` or `false`, `no`, `off`. "
        "The file contains no secret: write `env:NAME` or `file:PATH` there, which names the place of the secret.",
        "",
        "An unknown key in the file is an error. An unknown `CP_CAP_AUTOSCALE_*`, `CP_CAP_SGE_*` or `CP_CAP_GE_*` "
        "variable is an error in `sge-autoscaler config check` and one warning in `run`. For a variable of Cloud "
        "Pipeline's launcher, `config check` explains what it means here.",
    ]
    lines += ["", f"## The {len(MATTERING)} that matter", "", "All others have defaults that suit most cells.", ""]
    lines += ["| setting | default |", "|---|---|"]
    rows = {row.env: row for section in _HEADINGS for row in table_rows(section)}
    lines += [f"| `{name}`: {about} | {_default(rows[name])} |" for name, about in MATTERING.items()]
    for section, heading in _HEADINGS.items():
        effective = [row for row in table_rows(section) if not row.no_effect]
        lines += ["", f"## {heading}", ""]
        if section is QueueSettings:
            lines += [
                "> **Suffixes.** `_1`, `_2`, … on any of these names give a further queue a setting of its own; what "
                "it does not set has the default, not the value of the first queue. It needs a "
                "`CP_CAP_SGE_QUEUE_NAME_n`; its host group "
                "is `@allhosts_n` unless you set another. `CP_CAP_AUTOSCALE_n` switches it on or off, "
                "and with `CP_CAP_AUTOSCALE_DRY_RUN_n=true` nothing is launched or terminated for it. With the "
                "provider `cloud_pipeline` a further queue inherits, as on the platform "
                "([several queues](operate/cloud-pipeline.md#several-queues)).",
                "",
            ]
        lines += map(_line, effective)
    headed = [(f"For the provider `{name}`", own) for name, own in providers.items()]
    headed += [(f"For the autoscale policy `{name}`", own) for name, own in policies.items()]
    for title, own in headed:
        lines += [
            "",
            f"## {title}",
            "",
        ]
        lines += map(_line, own)
    lines += ["", "## Known, but without effect", ""]
    without = [row for section in _HEADINGS for row in table_rows(section) if row.no_effect]
    of_platform = [f"`{row.env}`" for row in without if row.no_effect == ONLY_CLOUD_PIPELINE]
    lines += [f"Only the provider `cloud_pipeline` needs these: {', '.join(of_platform)}.", ""]
    lines += [f"- `{row.env}`: {row.no_effect}" for row in without if row.no_effect != ONLY_CLOUD_PIPELINE]
    return "\n".join(lines) + "\n"


def _line(row: SettingRow) -> str:
    kind = row.kind + (f", {row.unit}" if row.unit else "")
    ruled = f" **[Rules](rules.md) override it: `{RULED[row.env]}`.**" if row.env in RULED else ""
    value = ": ".join(filter(None, (kind, _default(row))))
    return f"- `{row.env}` ({value}) {row.help.removesuffix(' Default: none.')}{ruled}"


def _default(row: SettingRow) -> str:
    default = f"`{row.default}`" if row.default else ""
    return (default + (f" (`${row.also}`)" if row.also else "")).strip()


def generated(
    root: Path,
    providers: Mapping[str, Sequence[SettingRow]] = MappingProxyType({}),
    policies: Mapping[str, Sequence[SettingRow]] = MappingProxyType({}),
) -> dict[Path, str]:
    """The generated files of the repository, which must agree with all declared settings."""
    page = reference_page(providers, policies)
    return {root / "docs/configure.md": page, root / "conf/sge-autoscaler.toml": sample_file()}


def _kind(annotation: object) -> str:
    """The type in words for operators."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _kind(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(part) for part in typing.get_args(annotation) if part is not type(None))
    if origin is typing.Literal:
        return ", ".join(str(choice) for choice in typing.get_args(annotation))
    if origin is tuple:
        return "list of " + _kind(typing.get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(str(member.value) for member in annotation)
    names: dict[object, str] = {bool: "boolean", int: "whole number", float: "number", str: "text", Path: "path"}
    return names.get(annotation, "text")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ",".join(_shown(part) for part in value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _toml(row: SettingRow) -> str:
    if row.kind in ("boolean", "number", "whole number") and row.default:
        return row.default
    return f'"{row.default}"'
