"""`sge-autoscaler config`: show the settings in force, check them, write the pages made from the table."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from autoscaler.api.auto_stop import Endpoint
from autoscaler.commands import _import
from autoscaler.commands._instance_types import beyond_limits, no_type_fits, offers_in_time, refusal, unknown_types
from autoscaler.commands._output import echo, json_option, print_json, print_result
from autoscaler.commands._reference import commands_page
from autoscaler.commands.context import with_platform
from autoscaler.constraints.rule_files import RuleFiles
from autoscaler.core.constraints.per_array import PerNodeArray
from autoscaler.engine import listeners
from autoscaler.errors import AutoscalerError, SettingsError
from autoscaler.munge import refuse_missing
from autoscaler.policies import registry as policies
from autoscaler.process import SystemRunner
from autoscaler.providers.registry import known, known_prefixes, load, none_chosen, settings_of
from autoscaler.providers.settings import ExtensionSettings, main_names, read_settings
from autoscaler.report import SCHEMA
from autoscaler.settings import Settings, load_settings, master_type_problem
from autoscaler.settings.guarded_files import exposed_files
from autoscaler.settings.pages import SettingRow, generated, given_rows, model_rows, shown_rows

_FOR_TESTS = frozenset({"fake"})
"""Providers that operators do not use."""
ModelOf = Callable[[str], type[ExtensionSettings]]
"""The class of a provider's or policy's own settings, by its name."""

_FILE = click.option(
    "--file", type=click.Path(path_type=Path, dir_okay=False), help="Settings file. Default: CP_CAP_AUTOSCALE_CONFIG."
)


@click.group("config")
def command() -> None:
    """Show and check settings."""


command.add_command(_import.command)


@command.command()
@_FILE
@click.option("--all", "everything", is_flag=True, help="Show also settings that have no effect.")
@json_option
def show(file: Path | None, everything: bool, as_json: bool) -> None:
    """Print each setting's value and its source."""
    settings = load_settings(os.environ, file, known_prefixes=known_prefixes)
    settings = with_platform(settings, lambda preferences: _load(file, preferences), os.environ)
    rows = [row for row in shown_rows(settings) if everything or as_json or not row.no_effect]
    if (provider := settings.process.provider) is not None:
        rows += _given(settings, settings_of, provider, "the provider")
    for name in settings.process.policies:
        rows += _given(settings, policies.settings_of, name, f"the autoscale policy {name}")
    if as_json:
        echo(json.dumps({"schema": 1, "settings": [_document(row) for row in rows]}, indent=2))
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for row in rows:
        value = f"{row.value} {row.unit}".strip() if row.value else "-"
        table.add_row(row.env, value, row.origin, style="" if row.origin != "default" else "dim")
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    for warning in (*settings.warnings, *_replaced_by_rules(settings)):
        echo(f"warning: {warning}", err=True)


def _replaced_by_rules(settings: Settings) -> list[str]:
    """Timeouts of the settings that do not hold, since the rules have others."""
    process = settings.process
    try:
        rules = RuleFiles.load(process.rules, process.vm_sizes, group=process.trusted_group).rules()
    except SettingsError as error:
        return [str(error)]
    if rules is None:
        return []
    found = (("IDLE_TIMEOUT", rules.idle_timeout), ("SCALE_UP_POLLING_TIMEOUT", rules.boot_timeout))
    return [
        f"CP_CAP_AUTOSCALE_{name} does not hold: {process.rules} sets {_by_array(timeout)}"
        for name, timeout in found
        if timeout is not None
    ]


def _by_array(timeout: PerNodeArray[float]) -> str:
    named = "".join(f", {array}: {seconds:g} s" for array, seconds in sorted(timeout.named.items()))
    return f"{timeout.default:g} s{named}"


def _document(row: SettingRow) -> dict[str, str]:
    fields = asdict(row)
    return fields | {"unheeded": fields.pop("no_effect")}  # programs know it by this name


@command.command()
@_FILE
@json_option
def check(file: Path | None, as_json: bool) -> None:
    """Check the settings before you start the autoscaler. Unknown names are errors here.

    It logs in to the provider to ask which instance types there are, and changes nothing there.
    """
    try:
        settings = load_settings(os.environ, file, known_prefixes=known_prefixes, strict=True)
    except SettingsError as error:
        if not as_json:
            raise
        print_json({"schema": SCHEMA, "valid": False, "errors": [str(error)], "notes": []})
        sys.exit(2)
    notes, process = list(settings.warnings), settings.process
    problems = [problem for queue in settings.queues.values() if (problem := master_type_problem(queue))]
    if process.provider is None:
        problems.append(str(none_chosen()))
    else:
        problems += _wrong_for_provider(settings) or _wrong_types(settings, notes)
    problems += policies.problems(process.policies, settings.for_provider(os.environ))
    problems += _wrong(lambda: listeners.load(process.listeners))
    problems += _wrong(lambda: RuleFiles.load(process.rules, process.vm_sizes, group=process.trusted_group))
    problems += exposed_files(settings, os.environ) or _wrong_services(settings)
    problems += _wrong_addresses(settings)
    notes += [f"{name}: this host has no executable program at this path" for name in _programs_missing(settings)]
    if as_json:
        print_json({"schema": SCHEMA, "valid": not problems, "errors": problems, "notes": notes})
    else:
        for note in notes:
            echo(f"note: {note}")
        for problem in problems:
            echo(f"error: {problem}", err=True)
    if problems:
        sys.exit(2)
    if not as_json:
        echo("settings are valid")


def _wrong(check: Callable[[], object]) -> list[str]:
    """The error of a check that raises SettingsError; [] if it passes."""
    try:
        check()
    except SettingsError as error:
        return [str(error)]
    return []


def _wrong_services(settings: Settings) -> list[str]:
    """Errors in the file of notification URLs; nothing is sent."""
    from autoscaler.commands.serving import notification_settings  # takes a while to import
    from autoscaler.engine.notifications import unusable_services

    return unusable_services(notification_settings(settings), SystemRunner(), os.environ)


def _wrong_addresses(settings: Settings) -> list[str]:
    """Errors in the addresses and logins of listeners."""
    process = settings.process
    wrong = _wrong(refuse_missing) if process.munge is not None and process.http else []
    if written := process.auto_stop:
        wrong += _wrong(lambda: Endpoint.parse(written))
    if at := process.http:
        from autoscaler.api.server import address  # takes a while to import

        wrong += _wrong(lambda: address(at, process.http_certificate, process.http_key, plain=process.http_plain))
    return wrong


def _programs_missing(settings: Settings) -> list[str]:
    """Notes on health checks: each once, with the setting that names it."""
    commands = {queue.health_check for queue in settings.queues.values() if queue.health_check}
    programs = sorted({shlex.split(command)[0] for command in commands})
    return [f"CP_CAP_AUTOSCALE_HEALTH_CHECK = {program}" for program in programs if shutil.which(program) is None]


@command.command()
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail when a page is out of date.")
@click.option(
    "--root", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="Checkout to write into."
)
@json_option
def docs(only_check: bool, root: Path, as_json: bool) -> None:
    """Write docs/configure.md, docs/commands.md and conf/sge-autoscaler.toml from what the code declares."""
    from autoscaler.commands.main import cli

    providers = _declared(settings_of, (name for name in known() if name not in _FOR_TESTS))
    texts = generated(root, providers, _declared(policies.settings_of, policies.known()))
    texts[root / "docs/commands.md"] = commands_page(cli)
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in () if only_check else stale:
        path.write_text(texts[path], "utf-8")
    if as_json:
        message = f"{len(stale)} pages {'are out of date' if only_check else 'were written'}"
        print_result(message, as_json=True, done=bool(stale) and not only_check, stale=list(map(str, stale)))
    for path in () if as_json else stale:
        if only_check:
            echo(f"{path} is out of date: run `sge-autoscaler config docs`", err=True)
        else:
            echo(f"wrote {path}")
    sys.exit(1 if only_check and stale else 0)


def _given(settings: Settings, model_of: ModelOf, name: str, of: str) -> list[SettingRow]:
    """The own settings of the provider or policy of this name; none if they are wrong, which is reported."""
    try:
        model = model_of(name)
        own = read_settings(model, settings.for_provider(os.environ), of=of)
    except SettingsError as error:
        echo(f"warning: {error}", err=True)
        return []
    return list(given_rows(own, main_names(model), settings.origins))


def _wrong_for_provider(settings: Settings) -> list[str]:
    name = settings.process.provider or ""
    return _wrong(lambda: read_settings(settings_of(name), settings.for_provider(os.environ)))


def _wrong_types(settings: Settings, notes: list[str]) -> list[str]:
    """Instance types that the provider does not have. If it cannot be asked here, a note more says so."""
    try:
        provider = load(settings.process.provider or "", settings.for_provider(os.environ), "config-check")
        offers = offers_in_time(provider)
        if problem := refusal(offers):
            notes.append(f"provider {settings.process.provider} gives no machines with these settings: {problem}")
        return [
            *unknown_types(settings, offers),
            *no_type_fits(settings, offers),
            *beyond_limits(settings, offers),
        ]
    except AutoscalerError as error:
        notes.append(f"provider {settings.process.provider} cannot be asked for its instance types here: {error}")
        return []


def _load(file: Path | None, platform: Mapping[str, str]) -> Settings:
    return load_settings(os.environ, file, known_prefixes=known_prefixes, platform=platform)


def _declared(model_of: ModelOf, names: Iterable[str]) -> dict[str, list[SettingRow]]:
    """Settings of the included providers or policies, by their names."""
    models = {name: model_of(name) for name in names}
    return {name: list(model_rows(model, main_names(model))) for name, model in models.items()}
