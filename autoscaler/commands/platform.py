"""`sge-autoscaler platform`: let Cloud Pipeline itself start this autoscaler, in place of its own."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoscaler.commands._output import echo, json_option, print_result
from autoscaler.commands._shim import SET_UP, Repo, prepare_image
from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError

if TYPE_CHECKING:
    from autoscaler.engine.queue_register import QueueProcess, QueueRegister

UNINSTALL_LOG = "sge-autoscaler.uninstall.log"
_REPO = click.option(
    "--repo",
    type=click.Path(path_type=Path, file_okay=False),
    help="The run's CommonRepo. Default: COMMON_REPO_DIR, else RUN_DIR/CommonRepo, else /usr/local/CommonRepo.",
)


@click.group("platform")
def command() -> None:
    """Let Cloud Pipeline start this autoscaler in place of its own."""


@command.command()
@_REPO
@json_option
def install(repo: Path | None, as_json: bool) -> None:
    """Put our shim where the platform starts its autoscaler, and keep the platform's own script beside it.

    Processes that run already are not affected: `sge restart QUEUE` starts ours for a queue. For Kubernetes and Slurm
    the shim starts the platform's own, as before.
    """
    found = Repo.of(repo, os.environ)
    done = found.install()
    with contextlib.suppress(SettingsError):  # an image has no Grid Engine yet
        if _end_drain(Invocation(os.environ)):
            done += "; our workers are no longer given back"
    print_result(f"{done}; `sge restart QUEUE` starts it for a queue", as_json=as_json, repo=str(found.folder))


@command.command()
@_REPO
@json_option
def status(repo: Path | None, as_json: bool) -> int:
    """Say whether the shim is in place, and which processes serve which queue. Exit code 1: it is not in place, or
    the platform's own script is lost.
    """
    found = Repo.of(repo, os.environ)
    place = found.place
    invocation = Invocation(os.environ)
    processes, deciding = _processes(invocation)
    first = _settings_of(invocation, processes)
    lines = [f"{found.script}: {place}"]
    lines += [
        f"queue {each.queue}: process {each.pid}{' decides for the cell' if each.queue == deciding else ''}"
        for each in processes
    ]
    lines += [f"settings of the whole cell are those of queue {first}"] if first else []
    if as_json:
        queues = [{"queue": each.queue, "pid": each.pid} for each in processes]
        facts = {"repo": str(found.folder), "installed": found.installed, "queues": queues, "deciding": deciding}
        facts["settings_of"] = first
        print_result(place, as_json=True, done=False, **facts)
    else:
        echo("\n".join(lines))
    return 0 if found.installed and not found.lost else 1


def _register(invocation: Invocation) -> QueueRegister:
    from autoscaler.engine.queue_register import QueueRegister
    from autoscaler.store.lock import lock_directory

    return QueueRegister.of(invocation.cell, lock_directory())


def _settings_of(invocation: Invocation, processes: Sequence[QueueProcess]) -> str | None:
    """The queue whose settings of the whole cell hold."""
    from autoscaler.commands._queue_process import profiles_of
    from autoscaler.settings.queue_profiles import first_queue, numbered

    if not processes:
        return None
    register = _register(invocation)
    profiles = profiles_of(processes, register, invocation.environ)
    return first_queue(profiles, numbered(profiles, register.numbers()))[0]


def _processes(invocation: Invocation) -> tuple[Sequence[QueueProcess], str | None]:
    """The processes of this cell's queues, and the queue whose process decides."""
    try:
        processes = _register(invocation).processes()
    except SettingsError:
        return (), None
    pid = invocation.running.pid if invocation.running is not None else None
    return processes, next((each.queue for each in processes if each.pid == pid), None)


@command.command()
@_REPO
@click.option("--keep-workers", is_flag=True, help="Leave our workers as they are. They cost until somebody ends them.")
@json_option
def uninstall(repo: Path | None, keep_workers: bool, as_json: bool) -> None:
    """Put the platform's own script back, byte for byte.

    `sge restart QUEUE` then starts that for a queue. It knows nothing of our workers, so they are given back meanwhile:
    `sge-autoscaler stop --drain` runs in the background until the last one is empty and gone. It ends no job.
    """
    found = Repo.of(repo, os.environ)
    done = found.uninstall()
    drains = None if keep_workers else _drain(Invocation(os.environ))
    said = f"{done}; our workers are given back in the background, see {drains}" if drains else done
    print_result(said, as_json=as_json, repo=str(found.folder), log=None if drains is None else str(drains))


def _drain(invocation: Invocation) -> Path | None:
    """Start what gives our workers back, with the settings of all queues that ours ever served here; returns its log.
    None: there is nothing to give back.
    """
    from autoscaler.process import PythonProgram, python_environment, start
    from autoscaler.settings.queue_profiles import TAKE_OVER, Profile, composed, numbered

    try:
        register = _register(invocation)
    except SettingsError:  # no Grid Engine
        return None
    processes = register.last()
    if not processes:
        return None
    register.note_leaving(processes)
    profiles = [Profile(each.queue, each.settings) for each in processes]
    environ = composed(invocation.environ, profiles, numbered(profiles, register.numbers()))
    environ.pop(TAKE_OVER, None)  # from now on the platform's own workers are its own again
    log = uninstall_log(environ, register.directory)
    drain = PythonProgram.module("autoscaler.commands.main", "stop", "--drain")
    child = start(drain.argv, env=python_environment(environ), cwd=Path("/"), output=log)
    register.note_drain(child.pid, log)
    return log


def uninstall_log(environ: Mapping[str, str], otherwise: Path) -> Path:
    """Where the giving back of workers logs; `otherwise`: the folder if it cannot in LOG_DIR."""
    folders = (Path(environ.get("LOG_DIR") or "/var/log"), otherwise)
    return next(filter(_can_be_written, (folder / UNINSTALL_LOG for folder in folders)), Path(os.devnull))


def _can_be_written(log: Path) -> bool:
    """Whether it is or becomes a file at whose end one can write: nothing that stands there may keep workers from being
    given back.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(log, flags, 0o644)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(handle).st_mode)
    finally:
        os.close(handle)


def _end_drain(invocation: Invocation) -> bool:
    """End what an `uninstall` began: its stop, so that workers serve again, and the process that carries it out and
    keeps the cell's lock. Returns whether there was one.
    """
    from autoscaler.settings.queue_profiles import Profile, composed, numbered

    register = _register(invocation)
    leaving = register.leaving()
    if leaving:
        profiles = [Profile(each.queue, each.settings) for each in leaving]
        served = Invocation(composed(invocation.environ, profiles, numbered(profiles, register.numbers())))
        cancel_drain(register, served)
    register.forget_leaving()
    return bool(leaving)


def cancel_drain(register: QueueRegister, served: Invocation) -> None:
    """End the process first: one that has just begun would ask for its stop after we cancelled it."""
    from autoscaler.store.overrides import Verb

    register.end_drain()
    if served.store_file.exists():
        with served.store() as store:
            store.overrides.end(Verb.STOP_DRAIN, who=served.who, at=time.time())


@command.command()
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path("/usr/local/bin"),
    show_default=True,
    help="A folder on PATH before the platform's own.",
)
@json_option
def image(folder: Path, as_json: bool) -> None:
    """Let all runs of an image start this autoscaler: for its Dockerfile, after the installation.

    It puts a `sge_setup_master` into /usr/local/bin, which installs the shim in each run and goes on with the
    platform's own.
    """
    print_result(prepare_image(folder), as_json=as_json, path=str(folder / SET_UP))


@command.command(hidden=True)
@click.argument("script", required=False)
def serve(script: str | None) -> int:
    """What the shim starts: the process of the queue in CP_CAP_SGE_QUEUE_NAME. SCRIPT: by which the platform's tools
    find it.
    """
    from autoscaler.commands._queue_process import OwnQueue, QueueServing
    from autoscaler.commands._verify_queue import Unsure, problems
    from autoscaler.garbage import share_one_arena
    from autoscaler.settings.queue_profiles import is_true

    own = OwnQueue(os.environ)
    verifying = is_true(os.environ.get("CP_CAP_AUTOSCALE_DRY_INIT"))
    try:
        wrong = problems(own.invocation)
    except Unsure as error:
        wrong = (str(error),) if verifying else ()
    if verifying:
        echo("\n".join(wrong or (f"the settings of queue {own.name} are valid", *own.unknown(), *own.differs())))
        return 1 if wrong else 0
    if wrong:
        own.refuse(wrong)
        return 1
    share_one_arena()
    return QueueServing(own).run()
