"""Builds what serves a cell: lock, store, observer, actor, loop. For `run`, `once` and `stop`."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from socket import gethostbyname

from autoscaler import CONFIG_ENV, audit
from autoscaler.api.auto_stop import Endpoint
from autoscaler.background import on_thread
from autoscaler.commands._observation import observer_of
from autoscaler.commands._service import cluster, password_file, socket_path, token_file
from autoscaler.commands.context import Invocation, with_platform
from autoscaler.constraints.rule_files import RuleFiles
from autoscaler.constraints.rules import load_rules
from autoscaler.core.plan import plan
from autoscaler.core.policy import Policy
from autoscaler.core.requests.arrays import family_of, in_force
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.actor import Actor
from autoscaler.engine.admissions import Admissions
from autoscaler.engine.boot_script import LOAD_SENSOR, ORDER_IN_METADATA, WITH_METADATA, WorkerBoot
from autoscaler.engine.cell_lease import CellLease, own_lease
from autoscaler.engine.cost_keeper import CostKeeper
from autoscaler.engine.event_keeper import EventKeeper
from autoscaler.engine.execution import ExecutionContext
from autoscaler.engine.health_checks import HealthChecks
from autoscaler.engine.host_list import HostList
from autoscaler.engine.host_names import WorkerNames
from autoscaler.engine.in_use import InUse
from autoscaler.engine.job_failures import Failures
from autoscaler.engine.job_owners import Notices
from autoscaler.engine.listeners import load as load_listeners
from autoscaler.engine.log_level import LogLevelOverride
from autoscaler.engine.loop import Loop
from autoscaler.engine.measured_elsewhere import MeasuredElsewhere
from autoscaler.engine.meter import Meter
from autoscaler.engine.monitor import Monitor
from autoscaler.engine.notifications import Notifications, NotificationSettings
from autoscaler.engine.observe import Observer
from autoscaler.engine.outcome_log import OutcomeLog
from autoscaler.engine.pass_listener import PassListener
from autoscaler.engine.pass_reporter import PassReporter
from autoscaler.engine.qmaster_guard import QmasterGuard
from autoscaler.engine.steady_clock import SteadyClock
from autoscaler.engine.systemd import Notifier
from autoscaler.engine.wakeup import Wakeup
from autoscaler.engine.worker_values import configuration_of
from autoscaler.errors import SettingsError
from autoscaler.hosts_file import OF_WORKERS, PASSING
from autoscaler.hosts_helper import names_at
from autoscaler.outside_files import read_text
from autoscaler.policies.policy_requests import VALID, Policies
from autoscaler.policies.registry import load as load_policies
from autoscaler.policies.registry import unclaimed
from autoscaler.process import SystemRunner
from autoscaler.providers.interface import HasHostList, HasRunLog, Provider, ShowsUse
from autoscaler.report.admission_file import AdmissionFile
from autoscaler.report.log import configure_log
from autoscaler.report.run_log import RunLog
from autoscaler.settings import Settings, master_type_problem
from autoscaler.settings.guarded_files import exposed_files
from autoscaler.settings.loading import PROFILES_ENV
from autoscaler.settings.policies import array_name
from autoscaler.settings.reloading import only_with_restart
from autoscaler.settings.sharing import given
from autoscaler.sge.admin import Administrator
from autoscaler.sge.batches import Batches
from autoscaler.sge.groups import Groups
from autoscaler.sge.jsv_setup import JsvFiles
from autoscaler.sge.leases import Leases
from autoscaler.sge.lookup import Lookup
from autoscaler.sge.probe_hosts import ProbeHosts
from autoscaler.sge.scheduler_words import ask_scheduler
from autoscaler.store.database import Role
from autoscaler.store.identity import cell_secret
from autoscaler.store.journal import OrderRecord
from autoscaler.store.lock import hold, lock_directory
from autoscaler.store.store import Store
from autoscaler.strict_modes import exposure, owner_name
from autoscaler.worker_configuration import of_node_array, order_key, write

log = logging.getLogger("autoscaler.run")
OWN_PATIENCE = 2
"""Boot timeouts that a machine waits to be enrolled before it ends itself. The autoscaler must give it up before: only
then it counts as failed.
"""
RUN_TAG = "sge-autoscaler-cell"
"""Tag of the master run that holds the cell's tag: by it the autoscaler finds workers again if the cell's files are
lost.
"""


@dataclass(frozen=True, slots=True)
class Around:
    """What Cloud Pipeline's processes of queues do instead of `serving` itself: they hold the cell's lock, and write
    the log of each queue.
    """

    report: Callable[[PassReporter], PassListener]
    """Makes what reports each pass, from the reporter that keeps its history."""


@contextlib.contextmanager
def held_cell(invocation: Invocation) -> Iterator[None]:
    """Keep other autoscalers of this machine away from the cell until the end of the block. Raises LockHeld,
    SettingsError.
    """
    own, path = str(invocation.state_directory.resolve()), str(socket_path(invocation))
    with hold(invocation.cell, lock_directory(), state=own, socket_path=path):
        yield


@contextlib.contextmanager
def serving(invocation: Invocation, *, json_log: bool = False, around: Around | None = None) -> Iterator[Loop]:
    """A loop that serves this cell alone until the end of the block. `json_log`: requested on the command line, so it
    stays when the settings are read again. Raises LockHeld, SettingsError.
    """
    settings = invocation.settings
    refuse_unusable(settings)
    refuse_exposed_files(invocation, settings)
    dry_run = settings.process.dry_run
    listeners = load_listeners(settings.process.listeners)
    with contextlib.ExitStack() as stack:
        if not dry_run and around is None:
            stack.enter_context(held_cell(invocation))
        store = Store.open(None if dry_run else invocation.store_file)
        stack.callback(store.close)
        store.database.role = Role.OWNER
        _keep_settings(store, invocation)
        provider = invocation.provider(make_tag=not dry_run)
        run_log = None if dry_run else _run_log(provider, invocation, tells=around is None)
        if run_log is not None:
            stack.callback(run_log.close)
        report_former_tags(store, invocation)
        wakeup = Wakeup()
        stack.callback(wakeup.close)
        elsewhere = MeasuredElsewhere(provider, store.notifications.delivery)
        meter = Meter(store.measures, invocation.oldest_price, elsewhere.add)
        guard = QmasterGuard(invocation.runner, on_command=meter.command)
        lease = None if dry_run else stack.enter_context(_lease(invocation, wakeup))
        clock = SteadyClock(store)
        context = replace(_execution_context(invocation, store, provider, guard), clock=clock)
        if lease is not None:
            context = replace(context, may_act=lease.check)
        accounting = invocation.common / "accounting"
        observer = _guarded_observer(invocation, store, provider, guard, wakeup)
        observer.clock = clock
        reporter = PassReporter(store, settings.process.verbose, invocation.zone, silent=around is not None)
        log_level = LogLevelOverride(store.overrides, reporter, settings.process)
        notifications = _notifications(invocation, store, clock)
        stack.callback(notifications.close)
        loop = Loop(
            observer=observer,
            decide=plan if lease is None else lease.guarded(plan),
            actor=Actor(context, on_late=wakeup.ring),
            store=store,
            poll=settings.process.polling_delay,
            wakeup=wakeup,
            notifier=Notifier(invocation.environ),
            dry_run=dry_run,
            reload=_reload(invocation, run_log, observer, notifications, log_level, json_log=json_log),
            cost_kept=settings.process.cost_kept,
            guard=guard,
            asks_policies=bool(settings.process.policies),
        )
        for listener in (
            log_level,
            reporter if around is None else around.report(reporter),
            OutcomeLog(),
            *_of_platform(provider, invocation),
            HealthChecks(invocation.runner, store.health, clock, on_sick=wakeup.ring),
            Monitor(store.samples, meter.sampled),
            meter,
            CostKeeper(store, accounting),
            EventKeeper(store.events, accounting),
            notifications,
            _admissions(invocation),
            *listeners,
        ):
            loop.attach(listener)
        yield loop


def _guarded_observer(
    invocation: Invocation, store: Store, provider: Provider, guard: QmasterGuard, wakeup: Wakeup
) -> Observer:
    """An observer that also calls the autoscale policies, counts failed jobs, and limits the load on qmaster."""
    observer = observer_of(invocation, store, provider)
    observer.runner = guard
    observer.policies = _policies(invocation, store, wakeup)
    observer.ask_scheduler = partial(ask_scheduler, guard)
    observer.gather = Failures(invocation.common / "accounting", store.starts, lambda: store.memory.saved_at).gather
    return observer


def _execution_context(
    invocation: Invocation, store: Store, provider: Provider, guard: QmasterGuard
) -> ExecutionContext:
    """The context of executors."""
    process = invocation.settings.process
    administrator = Administrator(guard, timeout=process.grid_engine_timeout)
    lookup = Lookup(guard, process.grid_engine_timeout)
    return ExecutionContext(
        grid_engine=administrator,
        provider=provider,
        store=store,
        tag=invocation.tag(make=False),
        boot_script=partial(boot_script, invocation, store, joins=not provider.enrols_itself),
        clock=time.time,
        executor=on_thread,
        scheduler=ProbeHosts(guard, names_at(process.hosts_file, PASSING)),
        jobs=lookup.jobs,
        array_settings=partial(array_settings, invocation, store),
        order_key=partial(key_in_metadata, invocation),
        load_sensor=LOAD_SENSOR if process.provider in WITH_METADATA else "",
        groups=Groups(administrator),
        batches=Batches(administrator),
        owners=Notices(process.notify_owner, lookup, invocation.runner),
    )


def _lease(invocation: Invocation, wakeup: Wakeup) -> AbstractContextManager[CellLease]:
    """Keeps an autoscaler on another machine away from this cell. Its commands have a fixed rate,
    so the guard does not limit them.
    """
    leases = Leases(Administrator(invocation.runner, timeout=invocation.settings.process.grid_engine_timeout))
    return CellLease(leases, own_lease(lock_directory()), wakeup.ring).kept()


def _policies(invocation: Invocation, store: Store, wakeup: Wakeup) -> Callable[[Snapshot, Policy], Snapshot]:
    """The chosen autoscale policies. Raises SettingsError if one cannot be made."""
    process, values = invocation.settings.process, invocation.settings.for_provider(invocation.environ)
    chosen = load_policies(process.policies, values)
    if strange := unclaimed(chosen, values):
        log.warning(strange)
    valid = max(VALID, 3 * process.polling_delay)
    deadline = process.policies_deadline
    return Policies(chosen, store, deadline, valid, on_late=wakeup.ring, cluster=cluster(invocation)).ask


def notification_settings(settings: Settings) -> NotificationSettings:
    """The settings of notifications to operators."""
    process = settings.process
    return NotificationSettings(
        process.notifications,
        process.trusted_group,
        process.notify_resolved,
        process.notify_interval,
        process.notify_limit_after,
    )


def _notifications(invocation: Invocation, store: Store, clock: Callable[[], float]) -> Notifications:
    return Notifications(
        store.notifications,
        SystemRunner(),
        invocation.cell.title,
        notification_settings(invocation.settings),
        clock,
        invocation.oldest_price,
        invocation.zone,
    )


def _admissions(invocation: Invocation) -> Admissions:
    place = JsvFiles(invocation.common, invocation.cell.slug)
    return Admissions(AdmissionFile(place.file, place.cell, lambda: place.installed))


def _run_log(provider: Provider, invocation: Invocation, *, tells: bool = True) -> RunLog | None:
    """Writes the log into the run log of the platform too, if it keeps one. `tells`: False if others write it."""
    if not isinstance(provider, HasRunLog):
        return None
    run_log = RunLog(provider.tell)
    if tells:
        run_log.attach(invocation.settings.process.log_level_run)
    run_log.first(lambda: provider.mark({RUN_TAG: invocation.tag(make=False)}))
    return run_log


def _of_platform(provider: Provider, invocation: Invocation) -> Iterator[PassListener]:
    """What keeps workers' names resolvable here if the cloud's DNS does not, since a worker needs that before it can
    join by itself; what keeps them in the platform's list of hosts; and what shows there which machines are in use.
    """
    process = invocation.settings.process
    path, grace = process.hosts_file, process.order_grace
    if not process.dns_hosts and (path is not None or provider.enrols_itself):
        yield WorkerNames(names_at(path, OF_WORKERS), time.time, grace)
    if isinstance(provider, HasHostList) and provider.host_list is not None:
        listed = HostList(provider.host_list, invocation.store_file.with_suffix(".hostlist"))
        yield WorkerNames(listed, time.time, grace, harm="the list of the cluster's hosts lacks workers")
    if isinstance(provider, ShowsUse):
        yield InUse(provider, process.active_timeout, on_thread)


def refuse_unusable(settings: Settings) -> None:
    """Raise SettingsError if these settings allow no launch at all."""
    _hook(settings.process.worker_bootstrap)
    problems = [problem for queue in settings.queues.values() if (problem := master_type_problem(queue))]
    if problems:
        raise SettingsError("; ".join(problems))


def refuse_exposed_files(invocation: Invocation, settings: Settings) -> None:
    """Raise SettingsError if others could write files that we rely on, with the command that corrects each."""
    problems = exposed_files(settings, invocation.environ)
    for what, path in own_files(invocation):
        found = exposure(path, group=settings.process.trusted_group, private=True)
        problems += (
            [] if found is None else [f"{what} {path} is not used, since others could change or read it: {found}"]
        )
    if problems:
        raise SettingsError("\n  - ".join(("others may write files that the autoscaler relies on:", *problems)))


def own_files(invocation: Invocation) -> Iterator[tuple[str, Path]]:
    """The existing files of the state directory."""
    store = invocation.store_file
    yield "the store", store
    for suffix in (".sqlite-wal", ".sqlite-shm", ".calls", ".sessions", ".secret"):
        if (path := store.with_suffix(suffix)).exists():
            yield "the secret" if suffix == ".secret" else "the store", path
    if invocation.settings.process.http_passwords is None:
        yield "the password file", password_file(invocation)
    yield "the token file", token_file(invocation)


def boot_script(invocation: Invocation, store: Store, order: OrderRecord, *, joins: bool = True) -> str:
    """The boot script of an order's machines: they join this cell, unless their own image does that, and get their
    worker configuration.
    """
    definitions = store.requests.load(order.ordered_at).arrays
    boot = worker_boot(invocation, order.node_array)
    elsewhere = boot.provider in ORDER_IN_METADATA
    values = of_node_array(
        configuration_of(order.node_array, definitions),
        cluster=cluster(invocation),
        node_array=order.node_array,
        group_id="" if elsewhere else order.group_id,
    )
    boot = replace(boot, configuration=write(values))
    if (endpoint := auto_stop_endpoint(invocation)) is not None:
        url = endpoint.url(invocation.cell.master)
        key = order_key(order_secret(invocation), order.id)
        boot = replace(boot, stop_url=url) if elsewhere else replace(boot, stop_url=f"{url}/{order.id}", stop_key=key)
    return boot.script() if joins else boot.configuration_script()


def key_in_metadata(invocation: Invocation, order: OrderRecord) -> str:
    """The secret by which an order's machines may ask to stop, if they read it in their metadata; else ''."""
    provider = invocation.settings.process.provider
    if provider not in ORDER_IN_METADATA or auto_stop_endpoint(invocation) is None:
        return ""
    return order_key(order_secret(invocation), order.id)


def array_settings(invocation: Invocation, store: Store, node_array: str) -> Mapping[str, str]:
    """The operator's settings for a node array, or for the array that a caller's array extends."""
    requests = store.requests.load(time.time())
    array = in_force(invocation.policy, requests, (node_array,)).node_array(node_array)
    return invocation.settings.array_settings(node_array if array is None else family_of(array))


def worker_boot(invocation: Invocation, node_array: str) -> WorkerBoot:
    """The values that each machine of a node array needs to join this cell."""
    cell, process = invocation.cell, invocation.settings.process
    return WorkerBoot(
        sge_root=cell.root,
        cell=cell.cell,
        master=cell.master,
        master_address=_address(cell.master),
        qmaster_port=cell.port,
        execd_port=invocation.port("sge_execd"),
        bootstrap=_text(invocation.common / "bootstrap"),
        provider=process.provider or "",
        join_within=OWN_PATIENCE * _boot_timeout(invocation, node_array) + 60,
        lease=process.lease,
        longest_lease=process.longest_lease,
        mount=process.worker_mount or "",
        install=process.worker_install,
        hook=_hook(process.worker_bootstrap),
    )


def _hook(path: Path | None) -> str:
    """The operator's own script for workers. Raises SettingsError if it cannot be run."""
    if path is None:
        return ""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the script CP_CAP_AUTOSCALE_WORKER_BOOTSTRAP={path}: {error}") from error
    if not text.startswith("#!") or "\0" in text:
        raise SettingsError(
            f"CP_CAP_AUTOSCALE_WORKER_BOOTSTRAP={path} is not a script: its first line names no program (#!)"
        )
    return text.rstrip("\n")


def _boot_timeout(invocation: Invocation, node_array: str) -> float:
    """How long the autoscaler waits for a machine of this node array; for arrays that callers made, the longest."""
    timeouts = {array_name(suffix): queue.boot_timeout for suffix, queue in invocation.settings.queues.items()}
    path = invocation.settings.process.rules
    with contextlib.suppress(SettingsError):  # the reader of rules reports errors and keeps the former rules
        given = None if path is None else load_rules(path).boot_timeout
        if given is not None:
            timeouts = {name: given.of(name) for name in timeouts}
    return timeouts.get(node_array, max(timeouts.values()))


def auto_stop_endpoint(invocation: Invocation) -> Endpoint | None:
    """The address at which workers may ask to stop; None: nothing listens."""
    written = invocation.settings.process.auto_stop
    return Endpoint.parse(written) if written else None


def order_secret(invocation: Invocation) -> bytes:
    """The secret from which the keys of this cell's orders are derived."""
    return cell_secret(invocation.store_file.with_suffix(".secret"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _address(master: str) -> str:
    """The master's address as it resolves here; '' if it does not resolve, or only to the loopback."""
    try:
        address = gethostbyname(master)
    except OSError:
        return ""
    return "" if address.startswith("127.") else address


def _keep_settings(store: Store, invocation: Invocation) -> None:
    """Store the settings from now on, and tell the system's log which of them are new."""
    before, now = store.service_settings.load(), given(invocation.environ)
    store.service_settings.keep(now, time.time())
    file = invocation.environ.get(CONFIG_ENV)
    owner = None if file is None else owner_name(Path(file))
    names = sorted(name for name in {*now, *(before or {})} if now.get(name) != (before or {}).get(name))
    if before is not None and names and PROFILES_ENV not in now:  # else the process of each queue names its own
        log.info("settings that changed: %s", ", ".join(names))
        audit.changed(owner or invocation.who, f"settings changed: {', '.join(names)}" + (f" ({file})" if file else ""))


def report_former_tags(store: Store, invocation: Invocation) -> None:
    """Warn of machines that were ordered under another tag a moment ago: nobody ends them."""
    tag = invocation.tag(make=False)
    recent = store.journal.orders(time.time() - invocation.settings.process.order_grace)
    for former in sorted({record.cell for record in recent} - {"", tag}):
        log.warning(
            "machines of the cell's former tag %s do not count any more, and are neither listed nor ended: with "
            "CP_CAP_AUTOSCALE_TAG=%s they are the cell's own again",
            former,
            former,
        )


def _reload(
    invocation: Invocation,
    run_log: RunLog | None,
    observer: Observer,
    notifications: Notifications,
    log_level: LogLevelOverride,
    *,
    json_log: bool,
) -> Callable[[], tuple[Policy, float]]:
    def reload() -> tuple[Policy, float]:
        settings = invocation.read_settings({})
        settings = with_platform(settings, invocation.read_settings, invocation.environ)
        refuse_unusable(settings)
        refuse_exposed_files(invocation, settings)
        location = observer.rule_files.location if observer.rule_files is not None else ""
        rule_files = RuleFiles.load(
            settings.process.rules,
            settings.process.vm_sizes,
            location=location,
            group=settings.process.trusted_group,
        )
        policy = settings.policy(master=invocation.cell.master, currency=invocation.currency())
        if fixed := only_with_restart(invocation.settings.process, settings.process):
            log.warning("these settings change only with a restart: %s", ", ".join(fixed))
        configure_log(settings.process, invocation.environ, as_json=json_log or None)
        if run_log is not None:
            run_log.attach(settings.process.log_level_run)
        _keep_settings(observer.store, invocation)
        # From here on nothing fails: after an error the former rules stay in force with the former settings.
        observer.rule_files = rule_files
        notifications.settings = notification_settings(settings)
        log_level.reporter.verbose = settings.process.verbose
        log_level.reloaded(settings.process)
        return policy, settings.process.polling_delay

    return reload
