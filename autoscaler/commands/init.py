"""`sge-autoscaler init`: prepare a master for workers. Shows the difference; changes an existing object only by
--apply.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from autoscaler.commands._output import echo, json_option, print_result
from autoscaler.commands._settings_file import Question, next_command, problem_of, write_settings
from autoscaler.commands._undo import made_file, take_back
from autoscaler.commands.context import Invocation
from autoscaler.core.policy import PACK_OFF
from autoscaler.engine.boot_script import WITH_METADATA
from autoscaler.errors import GridEngineRefused
from autoscaler.report.admission_file import archive
from autoscaler.settings import Settings, this_machine
from autoscaler.sge import jsv_setup
from autoscaler.sge.admin import Administrator
from autoscaler.sge.prepare import SCHEDULER, Difference, Preparation, carry_out, differences, read_present
from autoscaler.sge.undo import remember

UNPREPARED = 1


@click.command("init")
@click.option("--yes", is_flag=True, help="Create what is missing without asking.")
@click.option(
    "--apply",
    "applied",
    multiple=True,
    metavar="NAME",
    help="Also change this existing object (main.q, @allhosts, mpi, …) as shown. May be given several times.",
)
@click.option(
    "--jsv/--no-jsv",
    "verifier",
    default=None,
    help="Whether Grid Engine refuses jobs that can never run, at submission, by a server-side JSV.",
)
@click.option("--undo", "undone", is_flag=True, help="Take back what `init` made, as far as it is still as it made it.")
@click.option(
    "--settings",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a settings file, by a few questions, and do nothing else. The next four options answer them.",
)
@click.option("--provider", metavar="NAME", help="Who rents the machines.")
@click.option("--types", metavar="NAME", help="Instance type of workers, or the family of which it is chosen.")
@click.option("--workers", type=click.IntRange(min=1), help="Most workers at once.")
@click.option("--idle", type=click.IntRange(min=0), metavar="SECONDS", help="An idle worker leaves after this time.")
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    yes: bool,
    applied: tuple[str, ...],
    verifier: bool | None,
    undone: bool,
    as_json: bool,
    file: Path | None,
    **answers: str | int | None,
) -> int:
    """Prepare this master: queue, host group, parallel environments, its own slots.

    It shows the difference first, and creates missing objects after a yes (or with --yes). It changes an existing
    object only if --apply names it, and saves the old one before. A second run finds nothing to do.

    With --jsv it also sets up a verifier of submissions; it replaces a verifier of your own only with --apply jsv.
    --no-jsv removes our verifier, restores the former configuration, and does nothing else.

    With --undo it deletes the objects that it created and restores those that it changed. What somebody changed since
    is left alone; while workers are there, nothing is taken back.

    With --settings it writes a settings file instead. It asks for what no option says, and with --yes takes what it
    found.

    The exit code is 1 if objects are still missing because you did not confirm.
    """
    if file is not None:
        given = {flag: str(answer) for flag, answer in answers.items() if answer is not None}
        return _write_settings(invocation, file, given, ask=not (yes or as_json), as_json=as_json)
    if any(answer is not None for answer in answers.values()):
        raise click.UsageError("--provider, --types, --workers and --idle go with --settings FILE")
    administrator = Administrator(invocation.runner)
    saved = invocation.state_directory / "init" / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    place = verifier_place(invocation)
    if undone:
        if applied or verifier is not None:
            raise click.UsageError("--undo goes with --yes and --json only")
        return take_back(administrator, invocation.state_directory, yes=yes, as_json=as_json)
    if verifier is False:
        return _withdraw(administrator, place, saved, as_json=as_json)
    needed = preparations(invocation.settings, invocation.cell.master, this_machine(invocation.environ).cores)
    found = differences(needed, read_present(administrator, needed))
    names = _names(needed)
    if verifier:
        names.add(jsv_setup.NAME)
        found += tuple(filter(None, (jsv_setup.difference(administrator, place, archive()),)))
    if unknown := set(applied) - names:
        raise click.UsageError(f"--apply {', '.join(sorted(unknown))}: `init` prepares {', '.join(sorted(names))}")
    if not as_json:
        _show(found, applied)
    missing = [difference for difference in found if difference.missing]
    agreed = yes or not missing or (not as_json and sys.stdin.isatty() and click.confirm("Create what is missing?"))
    done: list[Difference] = []
    for difference in found:
        if (difference.missing and agreed) or (not difference.missing and difference.name in applied):
            if difference.kind == jsv_setup.KIND:
                jsv_setup.install(administrator, place, archive(), saved)
            else:
                _carry_out(administrator, difference, saved)
                remember(administrator, difference, made_file(invocation.state_directory))
            done.append(difference)
            if not as_json:
                echo(f"{'created' if difference.missing else 'changed'}: {difference.kind} {difference.name}")
    if as_json:
        echo(json.dumps(_document(found, done, saved), indent=2))
    elif any(not difference.missing for difference in done):
        echo(f"{saved} holds what was there before")
    if any(difference not in done for difference in missing):
        if not as_json:
            echo("nothing was created: run it again with --yes", err=True)
        return UNPREPARED
    return 0


def _write_settings(invocation: Invocation, file: Path, given: dict[str, str], *, ask: bool, as_json: bool) -> int:
    def asked(question: Question, before: Mapping[str, str]) -> str:
        if not ask:
            return question.found

        def checked(answer: str) -> str:
            if problem := problem_of(question.flag, answer.strip(), before.get("provider", ""), invocation.environ):
                raise click.UsageError(problem)  # click says it, and asks again
            return answer.strip()

        try:
            return str(click.prompt(question.text, default=question.found or None, value_proc=checked))
        except click.Abort:
            if sys.stdin.isatty():
                raise
            echo()
            raise click.UsageError(
                f"nobody answers: give --{question.flag}, or --yes, which takes what it found"
            ) from None

    write_settings(file, given, asked, invocation.environ)
    message = f"wrote {file}; next: {next_command(file)}"
    print_result(message, as_json=as_json, file=str(file))
    return 0


def verifier_place(invocation: Invocation) -> jsv_setup.JsvFiles:
    """The place of the verifier of submissions, whether it exists or not."""
    return jsv_setup.JsvFiles(invocation.common, invocation.cell.slug)


def _withdraw(administrator: Administrator, place: jsv_setup.JsvFiles, saved: Path, *, as_json: bool) -> int:
    """Remove the verifier, if it is ours."""
    done = jsv_setup.withdraw(administrator, place, saved)
    if as_json:
        echo(json.dumps({"schema": 1, "differences": [], "saved": str(saved) if done else None}, indent=2))
    elif done:
        echo(f"Grid Engine no longer runs our verifier at submission; {saved} holds the former configuration")
    else:
        echo("Grid Engine does not run our verifier: nothing to do")
    return 0


def preparations(settings: Settings, master: str, cores: int) -> tuple[Preparation, ...]:
    """The objects that each autoscaled queue needs on a master of `cores` cores, which serve queues with persistent
    workers.
    """
    prepared = []
    for queue in settings.queues.values():
        slots = cores if queue.master_cores is None else queue.master_cores
        kept = slots - queue.free_cores
        prepared.append(
            Preparation(
                queue=queue.queue,
                host_group=queue.host_group,
                pe_local=queue.pe_local,
                pe_mpi=queue.pe_mpi,
                pe_slots=queue.pe_slots,
                master=master,
                pe_mpi_slots=queue.pe_mpi_slots,
                terminate_method=queue.terminate_method,
                shell_start_mode=queue.shell_start_mode,
                # The master keeps free cores, too; if none would be left for jobs, all run jobs.
                master_slots=(kept if kept > 0 else slots) if queue.static else None,
                notices=settings.process.provider in WITH_METADATA,
                group_pes=settings.process.group_pes,
                in_order=queue.pack != PACK_OFF,
            )
        )
    return tuple(prepared)


def _carry_out(administrator: Administrator, difference: Difference, saved: Path) -> None:
    try:
        carry_out(administrator, difference, saved)
    except GridEngineRefused as error:
        raise GridEngineRefused(f"{difference.kind} {difference.name}: {error}") from error


def _names(needed: Sequence[Preparation]) -> set[str]:
    of_cell = {SCHEDULER} if any(each.in_order for each in needed) else set[str]()
    return of_cell | {
        name for each in needed for name in (each.queue, each.host_group, each.pe_local, each.pe_mpi, each.master)
    }


def _show(found: Sequence[Difference], applied: Sequence[str]) -> None:
    if not found:
        echo("all is there: nothing to do")
    for difference in found:
        echo(difference.shown)
        if not difference.missing and difference.name not in applied:
            echo(f"`init` does not change it; to change it as shown: --apply {difference.name}")
        echo()


def _document(found: Sequence[Difference], done: Sequence[Difference], saved: Path) -> dict[str, object]:
    kept = str(saved) if any(not difference.missing for difference in done) else None
    return {
        "schema": 1,
        "differences": [
            {
                "kind": difference.kind,
                "name": difference.name,
                "missing": difference.missing,
                "difference": difference.shown,
                "done": difference in done,
            }
            for difference in found
        ],
        "saved": kept,
    }
