"""Reads the facts for the checks of `doctor`. Changes nothing; that something cannot be read is a fact as well."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC

from autoscaler.core.actions import PROBE_HOST_PREFIX
from autoscaler.errors import CommandError, GridEngineNotObservable, GridEngineRefused
from autoscaler.process import Runner
from autoscaler.sge import qstat
from autoscaler.sge.admin import Administrator
from autoscaler.sge.checks import Facts, Finding, Resolved, manager_rights
from autoscaler.sge.prepare import Preparation, differences, read_present
from autoscaler.sge.qconf import read_attributes, read_names

TIMEOUT = 10.0
NAMES_AT_MOST = 50
"""This many hosts are looked up; a name service that fails for all fails for these."""
_QMASTER_TIME = re.compile(r"start time:.*\((\d+)\).*?run time \[s\]:\s*(\d+)", re.DOTALL)


def gather(
    runner: Runner,
    environ: Mapping[str, str],
    wanted: Callable[[str], Sequence[Preparation]],
    *,
    now: Callable[[], float],
    qevent: bool,
) -> Facts:
    """All facts. `wanted`: the preparations, given the master's name; `now`: this host's clock."""
    root, cell = environ.get("SGE_ROOT", ""), environ.get("SGE_CELL", "") or "default"
    port, common = environ.get("SGE_QMASTER_PORT", ""), f"{root}/{cell}/common"
    user = _output(runner, "id", "-un").strip()
    host = _output(runner, "hostname").strip()
    administrator = Administrator(runner, timeout=TIMEOUT)
    try:
        # A scheduler that has just started, or was stopped by `qconf -kt`, is on no host.
        shown = read_names(administrator.show("-sss")) or read_names(_output(runner, "cat", f"{common}/act_qmaster"))
        master = next(iter(shown), "").lower()
        preparations = wanted(master)
        hosts = tuple(name for name in read_names(administrator.show("-sel")) if not name.startswith(PROBE_HOST_PREFIX))
        return Facts(
            root=root,
            cell=cell,
            port=port,
            master=master,
            user=user,
            host=host,
            managers=read_names(administrator.show("-sm")),
            admin_hosts=read_names(administrator.show("-sh")),
            submit_hosts=read_names(administrator.show("-ss")),
            execution_hosts=hosts,
            ignore_fqdn=_ignore_fqdn(_output(runner, "cat", f"{common}/bootstrap")),
            names=_names(runner, tuple(dict.fromkeys((master, *hosts)))),
            clock_skew=_clock_skew(runner, master, port, now),
            configuration=read_attributes(administrator.show("-sconf")),
            qevent=qevent,
            defaults=_defaults(runner, common, environ.get("HOME", "")),
            slots_up=_slots_up(_output(runner, *qstat.COMMAND)),
            differences=differences(preparations, read_present(administrator, preparations)),
        )
    except (GridEngineNotObservable, CommandError) as error:
        return Facts(root=root, cell=cell, port=port, user=user, host=host, unreachable=str(error))


def rights(runner: Runner, environ: Mapping[str, str]) -> Finding | None:
    """Whether this process may make execution hosts; None: qmaster does not answer."""
    root, cell = environ.get("SGE_ROOT", ""), environ.get("SGE_CELL", "") or "default"
    administrator = Administrator(runner, timeout=TIMEOUT)
    try:
        return manager_rights(
            Facts(
                user=_output(runner, "id", "-un").strip(),
                host=_output(runner, "hostname").strip(),
                managers=read_names(administrator.show("-sm")),
                admin_hosts=read_names(administrator.show("-sh")),
                ignore_fqdn=_ignore_fqdn(_output(runner, "cat", f"{root}/{cell}/common/bootstrap")),
            )
        )
    except (GridEngineNotObservable, GridEngineRefused, CommandError):
        return None


def _output(runner: Runner, *argv: str) -> str:
    """The output of a command; '' if it failed or is not installed."""
    try:
        completed = runner(argv, timeout=TIMEOUT)
    except CommandError:
        return ""
    return completed.stdout.decode("utf-8", "replace") if completed.returncode == 0 else ""


def _ignore_fqdn(bootstrap: str) -> bool | None:
    value = read_attributes(bootstrap).get("ignore_fqdn", "").lower()
    return value in ("true", "1", "yes") if value else None


def _names(runner: Runner, hosts: Sequence[str]) -> tuple[Resolved, ...]:
    with ThreadPoolExecutor(max_workers=8) as threads:
        return tuple(threads.map(lambda host: _resolve(runner, host), hosts[:NAMES_AT_MOST]))


def _resolve(runner: Runner, host: str) -> Resolved:
    address = next(iter(_output(runner, "getent", "ahostsv4", host).split()), None)
    if address is None:
        return Resolved(host, None, None)
    names = _output(runner, "getent", "hosts", address).split()[1:]
    same = next((name for name in names if name.lower() == host.lower()), None)
    return Resolved(host, address, same or next(iter(names), None))


def _clock_skew(runner: Runner, master: str, port: str, now: Callable[[], float]) -> float | None:
    """The qmaster reports when it started and how long it has run: together, its present time."""
    if not port:
        service = _output(runner, "getent", "services", "sge_qmaster").split()
        port = service[1].partition("/")[0] if len(service) > 1 else ""
    if not port:
        return None
    match = _QMASTER_TIME.search(_output(runner, "qping", "-info", master, port, "qmaster", "1"))
    return int(match[1]) + int(match[2]) - now() if match else None


def _defaults(runner: Runner, common: str, home: str) -> dict[str, str]:
    paths = [f"{common}/sge_request", f"{common}/sge_qstat"]
    paths += [f"{home}/.sge_request", f"{home}/.sge_qstat"] if home else []
    texts = {path: _output(runner, "cat", path) for path in paths}
    return {path: text for path, text in texts.items() if text}


def _slots_up(listing: str) -> int:
    """Slots of queue instances without any state letter."""
    try:
        instances = qstat.read_qstat(listing.encode(), UTC).instances
    except GridEngineNotObservable:
        return 0
    return sum(instance.slots for instance in instances if not instance.states)
