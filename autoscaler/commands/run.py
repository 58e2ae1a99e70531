"""`sge-autoscaler run`: serve this cell until it is stopped."""

from __future__ import annotations

import logging

import click

from autoscaler.commands._instance_types import no_type_fits, offers_in_time, unknown_types
from autoscaler.commands._output import echo
from autoscaler.commands.context import Invocation
from autoscaler.engine.loop import Loop
from autoscaler.errors import AutoscalerError, NotObservable
from autoscaler.garbage import share_one_arena
from autoscaler.providers.interface import Provider
from autoscaler.report.log import configure_log
from autoscaler.sge.checks import Level
from autoscaler.sge.facts import rights

log = logging.getLogger("autoscaler.run")
INTERRUPTED = 130


class NotReady(AutoscalerError):
    """Every launch would fail, or be in vain."""


@click.command("run")
@click.option("--json", "as_json", is_flag=True, help="Log JSON, an object a line.")
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> int:
    """Watch the queues, launch workers for waiting jobs, and remove idle workers.

    The command runs until SIGTERM or Ctrl-C, which end it after the current action. Workers stay; it says how many
    and what they cost (`sge-autoscaler stop` removes them). SIGHUP makes it read the settings again. Only one
    autoscaler can serve a cell.

    With CP_CAP_AUTOSCALE=false it says so and ends with exit code 0.
    """
    settings = invocation.settings
    if not settings.scales:
        echo("CP_CAP_AUTOSCALE is false: the autoscaler does not scale this cluster and ends")
        return 0
    share_one_arena()
    configure_log(settings.process, invocation.environ, as_json=as_json or None)
    for warning in invocation.settings_in_force.warnings:
        log.warning(warning)
    from autoscaler.commands._http import listening
    from autoscaler.commands.serving import serving
    from autoscaler.sge.events import Events

    folder = invocation.store_file.with_suffix(".qevent")
    with (
        serving(invocation, json_log=as_json) as loop,
        listening(invocation, loop),
        loop.signals(),
        Events(loop.wakeup.ring, directory=folder) as events,
    ):
        report_problems(invocation, loop)
        cell = invocation.cell
        log.info(
            "serving cell %s of %s:%d by provider %s%s",
            cell.cell,
            cell.master,
            cell.port,
            loop.observer.provider.name,
            "; dry run: it changes nothing, and ignores requests (`sge-autoscaler plan` includes them)"
            if loop.dry_run
            else "",
        )
        loop.listen(events)
        loop.run()
    return INTERRUPTED if loop.stopped_by == "SIGINT" else 0


def report_problems(invocation: Invocation, loop: Loop, *, each_queue: bool = True) -> None:
    """Report what will keep launches from working. Raises NotReady if every launch would fail, or no worker could join;
    with `each_queue` also if none of one queue can succeed.
    """
    if not loop.dry_run:
        _check_rights(invocation)
    _check(loop.observer.provider)
    _report_unknown_types(invocation, loop.observer.provider, each_queue=each_queue)


def _check_rights(invocation: Invocation) -> None:
    """What `doctor` finds: only a manager on an admin host may make execution hosts."""
    found = rights(invocation.runner, invocation.environ)
    if found is not None and found.level is Level.FAIL:
        raise NotReady(f"no worker could join: {found.found}; {found.remedy}")


def _check(provider: Provider) -> None:
    """Report what will fail before the first launch. A provider that does not answer now may answer later."""
    try:
        problems = provider.check()
    except NotObservable as error:
        log.warning("the settings of provider %s cannot be checked yet: %s", provider.name, error)
        return
    for problem in problems:
        if not problem.fatal:
            log.warning("provider %s: %s; %s", provider.name, problem.what, problem.remedy)
    fatal = [f"{problem.what}; {problem.remedy}" for problem in problems if problem.fatal]
    if fatal:
        raise NotReady(f"provider {provider.name}: " + " | ".join(fatal))


def _report_unknown_types(invocation: Invocation, provider: Provider, *, each_queue: bool = True) -> None:
    """Report at once types of the settings that the provider does not have, and not only when a job waits for one."""
    try:
        offers = offers_in_time(provider)
    except AutoscalerError as error:
        log.warning("provider %s does not list its instance types yet: %s", provider.name, error)
        return
    settings = invocation.settings_in_force
    for problem in unknown_types(settings, offers):
        log.error(problem)
    never = " | ".join(no_type_fits(settings, offers))
    if never and each_queue:
        raise NotReady(never)
    if never:
        log.error(never)
