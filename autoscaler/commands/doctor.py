"""`sge-autoscaler doctor`: what will go wrong with this Grid Engine and this provider, each with what to do."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from autoscaler.commands.init import preparations
from autoscaler.errors import AutoscalerError
from autoscaler.process import SystemRunner
from autoscaler.settings import Settings, load_settings
from providers.interface import Problem
from providers.registry import known_prefixes, load
from sge.checks import Finding, Level, check_all
from sge.events import find_qevent
from sge.facts import gather

UNSOUND = 1
_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Look for what will go wrong: rights, names, clocks, settings of Grid Engine, the provider.

    Changes nothing. Ends with 1 where anything fails; warnings are no failures.
    """
    settings = load_settings(os.environ, known_prefixes=known_prefixes())
    facts = gather(
        SystemRunner(),
        os.environ,
        lambda master: preparations(settings, master),
        now=time.time,
        qevent=Path(find_qevent()).is_absolute(),
    )
    findings = (*check_all(facts), *provider_findings(settings))
    if as_json:
        click.echo(json.dumps({"schema": 1, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _show(findings)
    if any(finding.level is Level.FAIL for finding in findings):
        sys.exit(UNSOUND)


def provider_findings(settings: Settings) -> tuple[Finding, ...]:
    """What the chosen provider itself says would fail; that it cannot be made or asked is a finding as well."""
    name = settings.process.provider
    if name is None:
        remedy = "set CP_CAP_AUTOSCALE_PROVIDER (`local`, or an import path package.module:Class)"
        return (Finding("provider", Level.FAIL, "none is chosen: no worker can be launched", remedy),)
    try:
        problems = load(name, settings.provider_values, settings.process.tag or "doctor").check()
    except AutoscalerError as error:
        return (Finding(f"provider {name}", Level.FAIL, str(error), "see `sge-autoscaler config check`"),)
    return tuple(_of(name, problem) for problem in problems) or (
        Finding(f"provider {name}", Level.OK, "finds nothing wrong"),
    )


def _of(name: str, problem: Problem) -> Finding:
    level = Level.FAIL if problem.fatal else Level.WARN
    return Finding(f"provider {name}", level, problem.what, problem.remedy)


def _show(findings: Sequence[Finding]) -> None:
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        level = click.style(f"{finding.level.value:4}", fg=_COLOURS[finding.level])
        click.echo(f"{level}  {finding.what:{width}}  {finding.found}")
        if finding.remedy:
            click.echo(f"{'':6}{'':{width}}  → {finding.remedy}")
