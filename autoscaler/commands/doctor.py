"""`sge-autoscaler doctor`: what will go wrong with this Grid Engine and this provider, each with what to do."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from autoscaler.commands.context import Invocation
from autoscaler.commands.init import preparations, verifier_place
from autoscaler.errors import AutoscalerError
from autoscaler.nodearrays.rule_files import RuleFiles
from autoscaler.nodearrays.rule_names import strange_names
from autoscaler.report.admission_file import archive, fresh_for
from autoscaler.settings import this_machine
from providers.interface import Problem
from sge import jsv_setup
from sge.admin import Administrator
from sge.checks import Finding, Level, check_all
from sge.events import find_qevent
from sge.facts import TIMEOUT, gather
from sge.qconf import read_complexes, read_names

UNSOUND = 1
_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> int:
    """Look for what will go wrong: rights, names, clocks, settings of Grid Engine, the provider.

    Changes nothing. Ends with 1 where anything fails; warnings are no failures.
    """
    cores = this_machine(invocation.environ).cores
    facts = gather(
        invocation.runner,
        _environment(invocation),
        lambda master: preparations(invocation.settings, master, cores),
        now=time.time,
        qevent=Path(find_qevent()).is_absolute(),
    )
    facts = replace(facts, verifier=_verifier(invocation, facts.configuration.get("jsv_url", "")))
    findings = (*check_all(facts), *provider_findings(invocation), *rule_findings(invocation))
    if as_json:
        click.echo(json.dumps({"schema": 1, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _show(findings)
    return UNSOUND if any(finding.level is Level.FAIL for finding in findings) else 0


def provider_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """What the chosen provider itself says would fail; that it cannot be made or asked is a finding as well."""
    name = invocation.settings.process.provider or "not chosen"
    try:
        problems = invocation.provider().check()
    except AutoscalerError as error:
        return (Finding(f"provider {name}", Level.FAIL, str(error), "see `sge-autoscaler config check`"),)
    return tuple(_of(name, problem) for problem in problems) or (
        Finding(f"provider {name}", Level.OK, "finds nothing wrong"),
    )


def rule_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Rules that are wrong, or name what is not there."""
    try:
        path = invocation.settings.process.rules
        rules = RuleFiles.load(path, invocation.settings.process.vm_sizes).rules()
    except AutoscalerError as error:
        return (Finding("rules", Level.FAIL, str(error), "correct the file; docs/rules.md tells what may stand there"),)
    if rules is None:
        return ()
    grid_engine = Administrator(invocation.runner, timeout=TIMEOUT)
    try:
        policy = invocation.policy
        strange = strange_names(
            rules,
            complexes=read_complexes(grid_engine.show("-sc")),
            queues=read_names(grid_engine.show("-sql")),
            pes=read_names(grid_engine.show("-spl")),
            node_arrays=[array.name for array in policy.node_arrays],
        )
        return tuple(Finding("rules", Level.WARN, told, f"correct {path}") for told in strange) or (
            Finding("rules", Level.OK, f"{path} names nothing that is not there"),
        )
    except AutoscalerError as error:
        return (Finding("rules", Level.WARN, f"what they name cannot be looked up: {error}"),)


def _verifier(invocation: Invocation, url: str) -> jsv_setup.State | None:
    """The verifier of submissions; where the cell itself is not found, that is told by other findings."""
    with contextlib.suppress(AutoscalerError):
        oldest = fresh_for(invocation.settings.process.polling_delay)
        return jsv_setup.state(url, verifier_place(invocation), archive(), oldest=oldest, now=time.time())
    return None


def _environment(invocation: Invocation) -> dict[str, str]:
    """With the cell that was found where nobody set one."""
    with contextlib.suppress(AutoscalerError):
        return {**invocation.environ, "SGE_ROOT": invocation.cell.root, "SGE_CELL": invocation.cell.cell}
    return dict(invocation.environ)


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
