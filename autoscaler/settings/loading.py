"""Reads settings: environment over file over default, each value with its origin. Nothing else reads either.

An unknown name is an error with a suggestion in the file and in `config check`, and one warning in `run`: a cluster
must not stop scaling because of a variable that only a newer version knows.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from autoscaler import CONFIG_ENV
from autoscaler.core.policy import CircuitBreaker, DeadlockAnswer, Policy
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.errors import AutoscalerError, SettingsError
from autoscaler.outside_files import read_regular, read_toml
from autoscaler.settings.launcher import PREFIXES, close_to, describes_a_parameter, meaning
from autoscaler.settings.policies import HOST_NAMES, array_name, budgets, node_array_policy, of_one_name, queue_policy
from autoscaler.settings.process_settings import Process
from autoscaler.settings.queue_settings import HybridSize, QueueSettings
from autoscaler.settings.queues import (
    DRY_RUN,
    Served,
    Switches,
    as_launched,
    contradictory,
    is_switch,
    multiplied,
    served,
)
from autoscaler.settings.rows import extra, rows
from autoscaler.strict_modes import GROUP_ENV, refuse_exposed

PREFIX = "CP_CAP_AUTOSCALE_"
PROVIDER_ENV = "CP_CAP_AUTOSCALE_PROVIDER"
"""Read first: the provider decides which further names are settings."""
CLOUD_PIPELINE = "cloud_pipeline"
"""The provider with which further queues have the meaning of that platform."""
PROFILES_ENV = "CP_CAP_AUTOSCALE_PROFILES"
"""`true` in an environment made of the profiles of several queues (`settings.queue_profiles`): there each queue has its
own settings, and inherits none. No setting of an operator.
"""
POLICY_PREFIX = "CP_CAP_AUTOSCALE_POLICY_"
"""Prefix of the options of autoscale policies."""
LARGEST = 1 << 20
"""Bytes of a settings file."""
_SUFFIXED = re.compile(r"(?P<name>CP_CAP_.+?)_(?P<suffix>[1-9]\d{0,8})")
_SECRET = re.compile(r"TOKEN|PASSWORD|SECRET|CREDENTIAL|_KEY$")
MOST_BITS = 256
LONGEST_SHOWN = 200
"""Characters of a wrong value that a message repeats."""
_MASTER_AWAY = 60.0
"""Seconds of silence that a restart of the qmaster may bring: execds of 8.1.9 reported again after 31."""
Section = TypeVar("Section", bound=BaseModel)
_PROCESS, _QUEUE = rows(Process), rows(QueueSettings)
_KNOWN = (*_PROCESS, *_QUEUE, CONFIG_ENV)
_PATHS = frozenset(
    env
    for section in (Process, QueueSettings)
    for env, name in rows(section).items()
    if section.model_fields[name].annotation in (Path, Path | None)
)
"""Settings that are paths: a secret is in the file, not in the setting."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a value: `environment`, `file PATH`, `default`, or the container variable used instead."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, validated, with their origins."""

    process: Process
    queues: Mapping[str, QueueSettings]
    """By suffix: '' for the first, then `1`, `2`, …"""
    origins: Mapping[str, Origin]
    """By environment name with suffix; without defaults."""
    provider_values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Names under this project's prefix that the table does not know and a chosen provider or autoscale policy may
    declare.
    """
    warnings: tuple[str, ...] = ()
    scales: bool = True
    """False: no queue is to be scaled."""
    of_profiles: bool = False
    """Whether Cloud Pipeline's launcher started us: each queue has a profile with settings of its own."""

    def array_settings(self, node_array: str) -> dict[str, str]:
        """The settings of one node array (for an array of groups, of its base), by environment name without suffix;
        queue and host group always.
        """
        name = node_array.partition(GROUPS)[0]
        suffix = next((suffix for suffix in self.queues if array_name(suffix) == name), None)
        if suffix is None:
            return {}
        queue = self.queues[suffix]
        given = {env: self.origins.get(f"{env}_{suffix}" if suffix else env) for env in _QUEUE}
        texts = {env: origin.value for env, origin in given.items() if origin is not None}
        return {**texts, "CP_CAP_SGE_QUEUE_NAME": queue.queue, "CP_CAP_SGE_HOSTLIST_NAME": queue.host_group}

    def for_provider(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The values from which a provider reads its settings: the environment, overridden by all settings in force."""
        given = {env: origin.value for env, origin in self.origins.items()}
        return {**environ, **given, **self.provider_values}

    def policy(self, *, master: str, currency: str = "USD") -> Policy:
        """The policy of the core. `master`: its host name as Grid Engine prints it; `currency`: of the
        provider's prices.
        """
        process = self.process
        currency = process.currency or currency
        own = {
            "queues": tuple(queue_policy(queue, suffix) for suffix, queue in self.queues.items()),
            "node_arrays": tuple(
                node_array_policy(
                    queue, suffix, process, currency, several=len(self.queues) > 1, of_profiles=self.of_profiles
                )
                for suffix, queue in self.queues.items()
            ),
            "master": master,
            "host_names": HOST_NAMES.get(process.provider or "local", ()),
            "circuit_breaker": CircuitBreaker(
                process.circuit_breaker_window,
                process.circuit_breaker_launches,
                process.circuit_breaker_removals,
                process.circuit_breaker_kills,
            ),
            "owner": process.job_owner,
            "currency": currency,
            "budgets": budgets(process),
            "rules": None,  # the setting of this name is a path; `rule_files` reads it
        }
        return Policy(**(of_one_name(process, Policy) | own))


def load_settings(
    environ: Mapping[str, str],
    file: Path | None = None,
    *,
    known_prefixes: Callable[[str | None], Iterable[str]] = lambda _: (),
    strict: bool = False,
    platform: Mapping[str, str] = MappingProxyType({}),
) -> Settings:
    """Read everything. `known_prefixes`: name of the chosen provider → environment prefixes that providers
    declare for themselves. `platform`: preferences of the provider's platform for settings of queues, by environment
    name; environment and file override them.

    Raises SettingsError naming every wrong value and unknown key at once. `strict` (as `config check` asks) makes
    unknown environment variables errors too; otherwise they are in `.warnings`.
    """
    given = _read(environ, file, known_prefixes)
    problems = given.bad_in_file + (given.bad_in_env if strict else [])
    sections, serve, notes = _by_queue(given, environ, platform)
    problems += serve.problems
    process = _validate(Process, sections.pop("process"), "", problems)
    queues = {
        suffix: _validate(
            QueueSettings, _further_defaults(suffix, chosen, problems), f"_{suffix}" if suffix else "", problems
        )
        for suffix, chosen in sorted(sections.items(), key=lambda item: int(item[0] or 0))
    }
    if not problems:
        problems += [*_clashes(tuple(queues.values())), *contradictory(process, queues)]
    if problems:
        raise SettingsError("settings are wrong:\n" + "\n".join(f"  - {problem}" for problem in problems))
    warnings = (
        *given.bad_in_env,
        *(f"{key} is known but has no effect: {why}" for key, why in given.from_launcher.items()),
        *_without_effect(given.origins, process.provider),
        *_risky(process),
        *multiplied(process, queues),
        *notes,
        *serve.notes,
    )
    return Settings(
        process,
        MappingProxyType(queues),
        MappingProxyType(given.origins),
        MappingProxyType(given.provided),
        warnings,
        serve.scales,
        given.of_profiles,
    )


@dataclass(frozen=True, slots=True)
class _Given:
    """The values of environment and file, sorted by use, not yet validated."""

    values: Mapping[str, Origin]
    """By environment name, without the switches."""
    switches: Switches
    provided: dict[str, str]
    """For a provider or an autoscale policy."""
    origins: dict[str, Origin]
    """Of all that is a setting."""
    from_launcher: Mapping[str, str]
    """Variables of Cloud Pipeline's launcher that are no settings, with their meaning."""
    bad_in_file: list[str]
    bad_in_env: list[str]
    on_platform: bool
    """Whether Cloud Pipeline is the provider."""
    of_profiles: bool
    """Whether each queue has its own settings, and inherits none."""


def _prefixes(
    known_prefixes: Callable[[str | None], Iterable[str]], provider: str | None
) -> tuple[tuple[str, ...], list[str]]:
    """Prefixes of the settings of providers and policies; and the error of a provider that cannot be imported, whose
    own settings are therefore unknown.
    """
    try:
        return (*known_prefixes(provider), POLICY_PREFIX), []
    except AutoscalerError as error:
        return (*known_prefixes(None), POLICY_PREFIX), [str(error)]


def _unknown_keys(keys: Sequence[str], where: str, not_imported: Sequence[str]) -> list[str]:
    return [*not_imported, *(_unknown(key, where) for key in keys)] if keys else []


def _read(
    environ: Mapping[str, str], file: Path | None, known_prefixes: Callable[[str | None], Iterable[str]]
) -> _Given:
    path = file or (Path(environ[CONFIG_ENV]) if environ.get(CONFIG_ENV) else None)
    on_platform_by_default = default_provider(environ)
    in_file = read_file(path, environ.get(GROUP_ENV) or None) if path else {}
    chosen = environ.get(PROVIDER_ENV) or in_file.get(PROVIDER_ENV) or on_platform_by_default
    prefixes, not_imported = _prefixes(known_prefixes, chosen)
    in_env = {key: value for key, value in environ.items() if key.startswith("CP_CAP_") and value != ""}
    values = {key: Origin(value, f"file {path}") for key, value in in_file.items()}
    values |= {key: Origin(value, "environment") for key, value in in_env.items() if _is_ours(key, prefixes)}
    values.pop(CONFIG_ENV, None)
    of_profiles = values.pop(PROFILES_ENV, None) is not None
    if PROVIDER_ENV not in values and on_platform_by_default is not None:
        values[PROVIDER_ENV] = Origin(on_platform_by_default, "default (API, RUN_ID)")

    provider = values.get(PROVIDER_ENV)
    on_platform = provider is not None and provider.value == CLOUD_PIPELINE
    switches = Switches()
    values = {key: origin for key, origin in values.items() if not switches.take(key, origin.value)}
    provided = {key: origin.value for key, origin in values.items() if not _place(key) and key.startswith(prefixes)}
    unknown = [key for key in values if not _place(key) and key not in provided]
    from_launcher = {
        key: why for key in unknown if key not in in_file and (why := _of_launcher(key, environ, on_platform))
    }
    return _Given(
        values,
        switches,
        provided,
        {key: origin for key, origin in values.items() if _place(key) or key in provided},
        from_launcher,
        _unknown_keys([key for key in unknown if key in in_file], f"in {path}", not_imported),
        _unknown_keys(
            [key for key in unknown if key not in {*in_file, *from_launcher}], "in the environment", not_imported
        ),
        on_platform,
        of_profiles,
    )


def default_provider(environ: Mapping[str, str]) -> str | None:
    """The provider if none is set: Cloud Pipeline's in the container of one of its runs."""
    return CLOUD_PIPELINE if environ.get("API") and environ.get("RUN_ID") else None


def _by_queue(
    given: _Given, environ: Mapping[str, str], platform: Mapping[str, str]
) -> tuple[dict[str, dict[str, str]], Served, list[str]]:
    """The texts for the process and for each served queue, by suffix, completed by other sources of settings; the
    served queues; and notes. Adds the sources to the origins.
    """
    sections: dict[str, dict[str, str]] = {"process": {}, "": {}}
    for key, origin in given.values.items():
        if place := _place(key):
            section, name = place
            sections.setdefault(section, {})[name] = origin.value
    for suffix in given.switches.on.keys() | given.switches.dry.keys():
        sections.setdefault(suffix, {})
    process_texts, queue_texts = sections["process"], {key: own for key, own in sections.items() if key != "process"}
    inherits = given.on_platform and not given.of_profiles
    notes = _as_launched(environ, queue_texts, given.origins) if inherits else []
    serve = served(process_texts, queue_texts, given.switches, cloud_pipeline=given.on_platform)
    if serve.dry_run != _is_true(process_texts.get(DRY_RUN)):
        process_texts[DRY_RUN] = "true" if serve.dry_run else "false"
        given.origins[DRY_RUN] = Origin(process_texts[DRY_RUN], "by queue")
    sections = {"process": process_texts, **{suffix: queue_texts[suffix] for suffix in serve.suffixes}}
    _stand_ins(environ, sections, given.origins)
    _run_by_platform(environ, sections, given.origins)
    _platform_defaults(platform, sections, given.origins)
    return sections, serve, notes


def master_type_problem(queue: QueueSettings) -> str | None:
    """The error if no instance type is set for workers of a queue; None: one is set."""
    if queue.instance_type or (queue.hybrid and queue.hybrid_family):
        return None
    return (
        f"no instance type for workers of queue {queue.queue}: set CP_CAP_AUTOSCALE_INSTANCE_TYPE, for a further queue "
        "with its number at the end, as in …_TYPE_1 (in a master run it is taken from instance_size)"
    )


def is_secret(name: str) -> bool:
    """Whether a setting's value must never be shown."""
    plain = match["name"] if (match := _SUFFIXED.fullmatch(name)) else name
    return plain not in _PATHS and bool(_SECRET.search(name))


def read_file(path: Path, group: str | None = None) -> dict[str, str]:
    """A settings file. It may name classes to import, so others must not be able to write it. `group`: members of this
    group may; the file itself cannot set it. Raises SettingsError.
    """
    refuse_exposed("the settings file", path, group=group)
    try:
        document = read_toml(read_regular(path, LARGEST).decode("utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read settings file {path}: {error.strerror}; check {CONFIG_ENV}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path} is not valid TOML: {error}") from error
    return {key: _as_text(path, key, value) for key, value in document.items()}


def _shown(value: str) -> str:
    return repr(value) if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]!r}… ({len(value)} characters)"


def _as_text(path: Path, key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise SettingsError(f"{key} in {path}: no setting takes a number of more than {MOST_BITS} bits")
    if isinstance(value, str | int | float):
        if is_secret(key) and not str(value).startswith(("env:", "file:")):
            raise SettingsError(
                f"{key} in {path} holds a secret: write env:NAME or file:PATH there, and keep the secret elsewhere"
            )
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise SettingsError(
        f"{key} in {path}: write a string, a number, true or false; the file has no tables, only settings under their "
        "environment names"
    )


def _is_ours(key: str, prefixes: tuple[str, ...]) -> bool:
    """Variables under this project's prefixes, and those of the table; other CP_CAP_ names belong to the platform."""
    if describes_a_parameter(key):
        return False
    return key.startswith((PREFIX, *PREFIXES, *prefixes)) or _place(key) is not None


def _of_launcher(key: str, environ: Mapping[str, str], on_platform: bool) -> str | None:
    """The meaning of a variable of Cloud Pipeline's launcher that is no setting; None: it is not the launcher's. In a
    master's container, a name that resembles no setting counts as the launcher's.
    """
    meant = meaning(key)
    if on_platform and (match := _SUFFIXED.fullmatch(key)) and match["name"] in _PROCESS:
        return f"one process serves all queues, so {match['name']} applies to all of them"
    if meant is None and environ.get("RUN_ID") and key.startswith(PREFIXES) and close_to(key, _KNOWN) is None:
        return "nothing in the autoscaler reads it"
    return meant


def unknown_setting(name: str, prefixes: Iterable[str]) -> str | None:
    """Why no setting has this name, with a suggestion; None: it is one, or may be one of a provider or an autoscale
    policy. `prefixes`: of providers' own settings.
    """
    if is_setting(name) or is_switch(name) or name.startswith((*prefixes, POLICY_PREFIX)):
        return None
    return _unknown(name, "")


def is_setting(name: str) -> bool:
    """Whether this environment name is a setting of ours, for the process or a queue, and no provider's or policy's."""
    return name in (CONFIG_ENV, GROUP_ENV) or _place(name) is not None


def _place(key: str) -> tuple[str, str] | None:
    """(section, environment name without suffix): section `process`, or a queue's suffix ('' for the first)."""
    if key in _PROCESS:
        return "process", key
    if key in _QUEUE:
        return "", key
    if (match := _SUFFIXED.fullmatch(key)) and match["name"] in _QUEUE:
        return match["suffix"], match["name"]
    return None


def _unknown(key: str, where: str) -> str:
    base = match["name"] if (match := _SUFFIXED.fullmatch(key)) else key
    named = f"{key} {where}" if where else key
    if base in _PROCESS:
        return f"{named}: {base} applies to all queues and takes no suffix"
    close = close_to(key, _KNOWN) or close_to(f"{PREFIX}{key.upper()}", _KNOWN)
    if close == key:  # it differs in its suffix alone, which stands for no queue
        close = None
    return f"{named} is not a setting" + (
        f"; did you mean {close}?" if close else "; `sge-autoscaler config show` lists all"
    )


def _stand_ins(environ: Mapping[str, str], sections: dict[str, dict[str, str]], origins: dict[str, Origin]) -> None:
    """Use variables of the master's container for settings that are not set."""
    for model, names in ((Process, _PROCESS), (QueueSettings, _QUEUE)):
        for env, name in names.items():
            variable = extra(model, name, "also")
            if not variable or not environ.get(variable):
                continue
            for section, chosen in sections.items():
                if (section == "process") == (model is Process) and env not in chosen:
                    chosen[env] = environ[variable]
                    full = f"{env}_{section}" if section not in ("", "process") else env
                    origins[full] = Origin(environ[variable], f"environment ({variable})")


def _as_launched(
    environ: Mapping[str, str], queues: Mapping[str, dict[str, str]], origins: dict[str, Origin]
) -> list[str]:
    """Complete further queues as Cloud Pipeline's launcher does; return notes on changed values."""
    notes = []
    for suffix, added in as_launched(dict(queues), environ.get("instance_size", "")).items():
        for env, (text, source) in added.items():
            if env in queues[suffix]:
                notes.append(f"{env}_{suffix} is {text} and not {queues[suffix][env]}: so Cloud Pipeline makes it")
            queues[suffix][env] = text
            origins[f"{env}_{suffix}"] = Origin(text, source)
    return notes


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() in ("true", "yes", "on", "1", "t", "y")


HYBRID_SIZE = "CP_CAP_AUTOSCALE_HYBRID_SIZE"


def _run_by_platform(
    environ: Mapping[str, str], sections: Mapping[str, dict[str, str]], origins: dict[str, Origin]
) -> None:
    """On Cloud Pipeline, as its users expect: by default delete jobs that can never run, and choose the type that runs
    the most pending cores.
    """
    chosen, env, variable = sections["process"], "CP_CAP_AUTOSCALE_DEADLOCK", "RUN_ID"
    if env not in chosen and environ.get(variable):
        chosen[env] = DeadlockAnswer.KILL.value
        origins[env] = Origin(chosen[env], f"environment ({variable})")
    for section, chosen in sections.items() if environ.get(variable) else ():
        if section != "process" and HYBRID_SIZE not in chosen:
            chosen[HYBRID_SIZE] = HybridSize.LARGEST.value
            origin = f"{HYBRID_SIZE}_{section}" if section else HYBRID_SIZE
            origins[origin] = Origin(chosen[HYBRID_SIZE], f"environment ({variable})")


def _platform_defaults(
    platform: Mapping[str, str], sections: dict[str, dict[str, str]], origins: dict[str, Origin]
) -> None:
    """Use the platform's preferences for settings that are not set."""
    for env, value in platform.items():
        for section, chosen in sections.items():
            if section != "process" and env in _QUEUE and env not in chosen:
                chosen[env] = value
                origins[f"{env}_{section}" if section else env] = Origin(value, "platform")


def _further_defaults(suffix: str, chosen: dict[str, str], problems: list[str]) -> dict[str, str]:
    """A further queue is neither static nor default, and needs a name; its host group follows from its suffix."""
    if not suffix:
        return chosen
    if "CP_CAP_SGE_QUEUE_NAME" not in chosen:
        named = ", ".join(f"{name}_{suffix}" for name in sorted(chosen)) or f"CP_CAP_AUTOSCALE_{suffix}"
        problems.append(
            f"{named}: the suffix _{suffix} stands for a further queue; set its name in CP_CAP_SGE_QUEUE_NAME_{suffix}"
        )
    further = {
        "CP_CAP_SGE_QUEUE_STATIC": "false",
        "CP_CAP_SGE_QUEUE_DEFAULT": "false",
        "CP_CAP_SGE_HOSTLIST_NAME": f"@allhosts_{suffix}",
    }
    return further | chosen


def _validate(model: type[Section], values: dict[str, str], suffix: str, problems: list[str]) -> Section:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        wrong = {str(detail["loc"][0]): detail for detail in error.errors()}
        for env, detail in wrong.items():
            message = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input ")
            problems.append(f"{env}{suffix} = {_shown(values.get(env, ''))}: {message}")
        return model.model_validate({key: value for key, value in values.items() if key not in wrong})


def _clashes(queues: tuple[QueueSettings, ...]) -> list[str]:
    found = []
    for what, names in (
        ("CP_CAP_SGE_QUEUE_NAME", [queue.queue for queue in queues]),
        ("CP_CAP_SGE_HOSTLIST_NAME", [queue.host_group for queue in queues]),
    ):
        found += [
            f"{what}: two queues have {name}; give each queue one of its own"
            for name in sorted(set(names))
            if names.count(name) > 1
        ]
    found += [
        f"CP_CAP_AUTOSCALE_MIN_WORKERS of {queue.queue} ({queue.min_workers}) "
        f"is above CP_CAP_AUTOSCALE_WORKERS ({queue.workers})"
        for queue in queues
        if queue.min_workers > queue.workers
    ]
    return found


def _risky(process: Process) -> list[str]:
    if process.silence_timeout >= _MASTER_AWAY:
        return []
    return [
        f"CP_CAP_AUTOSCALE_SILENCE_TIMEOUT is {process.silence_timeout:g} s, but an sge_execd may need half a minute "
        f"to find a restarted qmaster: with less than {_MASTER_AWAY:g} s the autoscaler then terminates healthy workers"
    ]


def _without_effect(origins: Mapping[str, Origin], provider: str | None) -> list[str]:
    notes = []
    for key, origin in origins.items():
        place = _place(key)
        if place is None or "(" in origin.source:  # a container variable that stands in was not set for us
            continue
        model, names = (Process, _PROCESS) if place[0] == "process" else (QueueSettings, _QUEUE)
        why, effective_for = (extra(model, names[place[1]], key) for key in ("no_effect", "provider"))
        if why and (not provider or effective_for != provider):
            notes.append(f"{key} is known but has no effect: {why}")
    return notes
