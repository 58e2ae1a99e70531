"""`sge-autoscaler doctor`: find what will fail with this Grid Engine and this provider, each with a remedy."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path

import click

from autoscaler.commands._account import cannot_read, program_files, unreadable_to
from autoscaler.commands._instance_types import beyond_limits, no_type_fits, offers_in_time, unknown_types
from autoscaler.commands._network_findings import network_findings
from autoscaler.commands._output import json_option
from autoscaler.commands.context import Invocation
from autoscaler.commands.init import preparations, verifier_place
from autoscaler.commands.serving import notification_settings, own_files
from autoscaler.constraints.rule_files import RuleFiles
from autoscaler.constraints.rule_words import strange_names
from autoscaler.core.limits.protected_mode import Protection
from autoscaler.core.model.reasons import Code
from autoscaler.core.placement.constraint_effects import complexes_given
from autoscaler.engine.notifications import unusable_services
from autoscaler.errors import AutoscalerError
from autoscaler.plain_text import plain
from autoscaler.process import Runner, SystemRunner
from autoscaler.providers.interface import Problem
from autoscaler.report.admission_file import archive, fresh_for
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.status import set_aside, set_aside_by_reason
from autoscaler.report.wording import few, text
from autoscaler.settings import master_type_problem, this_machine
from autoscaler.settings.guarded_files import guarded_files
from autoscaler.sge import jsv_setup
from autoscaler.sge.access import read_restrictions
from autoscaler.sge.access_check import access_finding
from autoscaler.sge.admin import Administrator
from autoscaler.sge.checks import Finding, Level, check_all
from autoscaler.sge.cluster import context_allowed
from autoscaler.sge.complex_table import read_complexes
from autoscaler.sge.consumable_check import consumable_finding
from autoscaler.sge.events import find_qevent
from autoscaler.sge.facts import TIMEOUT, gather
from autoscaler.sge.qconf import read_assignments, read_attributes, read_names, read_queue
from autoscaler.sge.queue_check import queue_finding
from autoscaler.sge.reading import read_configuration
from autoscaler.store.lock import lock_directory
from autoscaler.store.state_place import state_problems
from autoscaler.strict_modes import exposure

UNSOUND = 1
ACCOUNT = "sge-autoscaler"
"""The account of the systemd units."""
_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@click.command("doctor")
@json_option
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> int:
    """Find what will fail: rights, names, clocks, settings of Grid Engine, the provider.

    Changes nothing. The exit code is 1 if a check fails; a warning is not a failure.
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
    without = cell_findings(invocation)
    others = (
        *access_findings(invocation, facts.user),
        *settings_findings(invocation),
        *mode_findings(invocation),
        *state_findings(invocation),
        *notification_findings(invocation),
        *context_findings(invocation, facts.configuration),
        *program_findings(invocation.runner),
        *name_findings(),
        *network_findings(invocation),
        *provider_findings(invocation),
        *type_findings(invocation),
        *rule_findings(invocation),
        *consumable_findings(invocation),
        *launch_findings(invocation),
        *set_aside_findings(invocation),
    )
    told = {finding.found for finding in without}
    findings = (*check_all(facts), *without, *(finding for finding in others if finding.found not in told))
    if as_json:
        click.echo(json.dumps({"schema": 1, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _show(findings)
    return UNSOUND if any(finding.level is Level.FAIL for finding in findings) else 0


def cell_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """That there is no cell, once: each check that needs one fails for that reason."""
    try:
        _ = invocation.cell
    except AutoscalerError as error:
        return (Finding("cell", Level.FAIL, str(error), "source $SGE_ROOT/$SGE_CELL/common/settings.sh"),)
    return ()


def access_findings(invocation: Invocation, user: str) -> tuple[Finding, ...]:
    """Access lists of the autoscaled queues, and jobs that these do not start. If qmaster does not answer, another
    finding reports it.
    """
    grid_engine = Administrator(invocation.runner, timeout=TIMEOUT)

    def show(*switches: str, may_be_empty: bool = False) -> str:
        try:
            return grid_engine.show(*switches)
        except AutoscalerError:
            if may_be_empty:
                return ""
            raise

    try:
        texts = read_configuration(invocation.runner, TIMEOUT)
        texts |= read_restrictions(texts, show, (), always=True)
        policy = invocation.policy
    except AutoscalerError:
        return ()
    queues = [queue.name for queue in policy.queues]
    return access_finding(texts, queues, user), queue_finding(texts, policy.node_arrays)


def provider_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """The findings of the chosen provider's own check, or that it cannot be asked."""
    name = invocation.settings.process.provider or "not chosen"
    try:
        problems = invocation.provider().check()
    except AutoscalerError as error:
        return (Finding(f"provider {name}", Level.FAIL, str(error), "see `sge-autoscaler config check`"),)
    return tuple(_of(name, problem) for problem in problems) or (
        Finding(f"provider {name}", Level.OK, "finds nothing wrong"),
    )


def settings_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Settings that may not mean what the person who set them expects."""
    remedy = "`sge-autoscaler config check` reports the same; docs/configure.md describes each setting"
    try:
        warnings = invocation.settings.warnings
    except AutoscalerError as error:
        return (Finding("settings", Level.FAIL, str(error), "see `sge-autoscaler config check`"),)
    return tuple(Finding("settings", Level.WARN, warning, remedy) for warning in warnings)


def mode_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Files that others could write or read, with the command that corrects each."""
    try:
        settings, environ = invocation.settings, invocation.environ
        group = settings.process.trusted_group
        checked = [(each.what, each.exposure(settings, environ)) for each in guarded_files(settings, environ)]
        checked += [(what, exposure(path, group=group, private=True)) for what, path in own_files(invocation)]
        checked.append(("the lock's directory", exposure(lock_directory())))
    except AutoscalerError as error:
        return (Finding("file modes", Level.FAIL, str(error), "see `sge-autoscaler config check`"),)
    found = {(str(each), each.remedy): f"{what}: {each.path} {each.how}" for what, each in checked if each is not None}
    return tuple(Finding("file modes", Level.FAIL, problem, remedy) for (_, remedy), problem in found.items()) or (
        Finding("file modes", Level.OK, "no other user may write the files that the autoscaler relies on"),
    )


def state_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Whether our own state can be kept: without it, `run` neither starts nor acts."""
    try:
        file = invocation.store_file
    except AutoscalerError:
        return ()  # there is no cell, or no settings: other findings say so
    found = [
        Finding("state", Level.FAIL if each.fatal else Level.WARN, each.what, each.remedy)
        for each in state_problems(file)
    ]
    return tuple(found) or (Finding("state", Level.OK, f"{file.parent} can keep it"),)


def notification_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Whether the services that notify operators can be used, as far as can be checked without sending a message."""
    try:
        settings = notification_settings(invocation.settings)
    except AutoscalerError as error:
        return (Finding("notifications", Level.FAIL, str(error), "see `sge-autoscaler config check`"),)
    if settings.file is None:
        return ()
    wrong = unusable_services(settings, SystemRunner(), invocation.environ)
    found = [Finding("notifications", Level.FAIL, why, "correct it; docs/operate/notifications.md") for why in wrong]
    with contextlib.suppress(AutoscalerError):
        if invocation.store_file.exists():
            with invocation.store() as store:
                state = store.notifications.delivery()
            if state.failing_since is not None:
                why = f"not sent, after {state.attempts} attempts: {state.message}"
                found.append(Finding("notifications", Level.FAIL, why, "`sge-autoscaler notify --test` tries again"))
    return tuple(found) or (Finding("notifications", Level.OK, f"{settings.file} can be used"),)


def context_findings(invocation: Invocation, configuration: Mapping[str, str]) -> tuple[Finding, ...]:
    """Whether Grid Engine allows changes of job contexts, if the settings need that."""
    try:
        if not invocation.settings.process.job_context:
            return ()
    except AutoscalerError:
        return ()  # another finding reports it
    if context_allowed(configuration):
        return (Finding("context of jobs", Level.OK, "why jobs wait can be written there"),)
    problem = "CP_CAP_AUTOSCALE_JOB_CONTEXT is set, but with the server-side JSV jsv_allowed_mod has no `ac`"
    return (Finding("context of jobs", Level.WARN, f"{problem}: nothing is written", "`qconf -mconf`: add ac to it"),)


def program_findings(runner: Runner) -> tuple[Finding, ...]:
    """Whether the account of the unit can read this program, which only root can check."""
    if os.geteuid() != 0:
        return ()
    try:
        account = pwd.getpwnam(ACCOUNT)
    except KeyError:
        return ()
    try:
        closed = unreadable_to(account, program_files(), runner)
    except AutoscalerError:  # a machine without setpriv
        return ()
    if closed is None:
        return (Finding("program", Level.OK, f"the account {ACCOUNT} can read it"),)
    found, _, remedy = cannot_read(ACCOUNT, closed).partition(": ")
    return (Finding("program", Level.FAIL, found, remedy),)


def name_findings() -> tuple[Finding, ...]:
    """Whether another installed package has our import name: each of the two overwrites files of the other."""
    ours = "sge-autoscaler"
    others = sorted(
        {
            canonical
            for each in metadata.packages_distributions().get("autoscaler", ())
            if (canonical := re.sub(r"[-_.]+", "-", each).lower()) != ours
        }
    )
    if not others:
        return ()
    problem = f"{', '.join(others)} is installed in the same environment and has the import name `autoscaler`, too"
    remedy = f"`pip uninstall {others[0]}`, then install {ours} again; or give one of them an environment of its own"
    return (Finding("import name", Level.FAIL, problem, remedy),)


def type_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Instance types and families of the settings that the provider does not have."""
    try:
        settings = invocation.settings
        unset = [problem for queue in settings.queues.values() if (problem := master_type_problem(queue))]
        if unset and settings.process.provider is not None:
            return tuple(Finding("instance types", Level.FAIL, problem) for problem in unset)
        offers = offers_in_time(invocation.provider())
        unknown = (*unknown_types(settings, offers), *no_type_fits(settings, offers), *beyond_limits(settings, offers))
    except AutoscalerError:
        return ()  # the finding of the provider reports it
    remedy = "`sge-autoscaler buckets --all` lists the instance types that there are"
    return tuple(Finding("instance types", Level.FAIL, problem, remedy) for problem in unknown) or (
        Finding("instance types", Level.OK, "the provider has the instance types of the settings"),
    )


def rule_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Rules that are wrong, or name something that does not exist."""
    try:
        path = invocation.settings.process.rules
        rules = RuleFiles.load(
            path, invocation.settings.process.vm_sizes, group=invocation.settings.process.trusted_group
        ).rules()
    except AutoscalerError as error:
        return (Finding("rules", Level.FAIL, str(error), "correct the file; docs/rules.md describes its contents"),)
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
        return tuple(Finding("rules", Level.WARN, problem, f"correct {path}") for problem in strange) or (
            Finding("rules", Level.OK, f"all names in {path} exist"),
        )
    except AutoscalerError as error:
        return (
            Finding(
                "rules", Level.WARN, f"Grid Engine does not answer, so the names in the file are not checked: {error}"
            ),
        )


def consumable_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Consumables that workers are not given. If something cannot be read, another finding reports it."""
    grid_engine = Administrator(invocation.runner, timeout=TIMEOUT)
    with contextlib.suppress(AutoscalerError, ValueError, KeyError):
        policy = invocation.policy
        queues = [read_queue(grid_engine.show("-sq", name)) for name in {array.queue for array in policy.node_arrays}]
        shared = read_assignments(read_attributes(grid_engine.show("-se", "global")).get("complex_values", ""))
        process = invocation.settings.process
        rules = RuleFiles.load(process.rules, process.vm_sizes, group=process.trusted_group).rules()
        elsewhere = (*shared, *(name for queue in queues for name in queue.complex_values))
        complexes = read_complexes(grid_engine.show("-sc"))
        return (consumable_finding(complexes, policy.node_arrays, elsewhere, complexes_given(rules)),)
    return ()


def launch_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Node arrays whose launches help none of their jobs, by the memory of the last pass."""
    with contextlib.suppress(AutoscalerError):
        if not invocation.store_file.exists():
            return ()
        with invocation.store() as store:
            notes = Protection(store.memory.load().protected, now=time.time()).notes()
        return tuple(
            Finding(
                "launches",
                Level.FAIL if note.code is Code.PROTECTED_MODE else Level.WARN,
                text(note),
                REASONS[note.code].remedy,
            )
            for note in notes
        )
    return ()


def set_aside_findings(invocation: Invocation) -> tuple[Finding, ...]:
    """Workers that cost and that only a person puts into service or ends, as of the last pass."""
    with contextlib.suppress(AutoscalerError):
        if not invocation.store_file.exists():
            return ()
        with invocation.store() as store:
            found = tuple(set_aside_by_reason(set_aside(store)))
        return tuple(
            Finding("set aside", Level.WARN, f"{few(names)}: {REASONS[code].short}", REASONS[code].remedy)
            for code, names in found
        )
    return ()


def _verifier(invocation: Invocation, url: str) -> jsv_setup.State | None:
    """The verifier of submissions; if there is no cell, other findings say so."""
    with contextlib.suppress(AutoscalerError):
        oldest = fresh_for(invocation.settings.process.polling_delay)
        return jsv_setup.state(url, verifier_place(invocation), archive(), oldest=oldest, now=time.time())
    return None


def _environment(invocation: Invocation) -> dict[str, str]:
    """The environment with the cell that was found, if none was set."""
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
        click.echo(f"{level}  {plain(finding.what):{width}}  {plain(finding.found)}")
        if finding.remedy:
            click.echo(f"{'':6}{'':{width}}  → {plain(finding.remedy)}")
