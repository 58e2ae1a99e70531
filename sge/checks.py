"""Finds what will go wrong on this Grid Engine before anything is launched, with a remedy for each.

A check is a function from `Facts` to one `Finding`; `sge.facts` reads the facts. Nothing here asks or changes anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType

from autoscaler.sge.configuration import RUNS
from autoscaler.sge.jsv_setup import State
from autoscaler.sge.prepare import Difference


class Level(StrEnum):
    """How bad it is: `fail` stops workers or jobs, `warn` will surprise somebody."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The subject, the finding, and the remedy ('' if none is needed)."""

    what: str
    level: Level
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The address of a host by the name service, and the name of that address."""

    host: str
    address: str | None
    back: str | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts for all checks. If `unreachable` is set, only facts that need no qmaster are filled in."""

    root: str = ""
    """SGE_ROOT and SGE_CELL of this process, '' if not set."""
    cell: str = ""
    port: str = ""
    unreachable: str = ""
    """Why the qmaster gave no answer; '' if it did."""
    master: str = ""
    user: str = ""
    host: str = ""
    managers: tuple[str, ...] = ()
    admin_hosts: tuple[str, ...] = ()
    submit_hosts: tuple[str, ...] = ()
    execution_hosts: tuple[str, ...] = ()
    ignore_fqdn: bool | None = None
    """From the cell's bootstrap file; None: it could not be read."""
    names: tuple[Resolved, ...] = ()
    clock_skew: float | None = None
    """Seconds by which the qmaster is ahead; None: not known."""
    configuration: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """`qconf -sconf`, '' for none."""
    qevent: bool = False
    """Whether the program is installed."""
    defaults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Text of each existing defaults file (sge_request, sge_qstat, .sge_request): path → text."""
    slots_up: int = 0
    """Slots of queue instances that could take a job now: a submission is verified against them."""
    differences: tuple[Difference, ...] = ()
    verifier: State | None = None
    """None: the qmaster uses none."""


def check_all(facts: Facts) -> tuple[Finding, ...]:
    """Every check that can be made: without a qmaster, only the one that reports this."""
    return tuple(check(facts) for check in (ALWAYS if facts.unreachable else (*ALWAYS, *WITH_MASTER)))


def answers(facts: Facts) -> Finding:
    """Whether the qmaster of this cell answers at all."""
    root = f"SGE_ROOT={facts.root}" if facts.root else "SGE_ROOT not set"
    place = f"{root}, cell {facts.cell or 'default'}, port {facts.port or 'by service name'}"
    if "denied" in facts.unreachable:
        remedy = f"on an admin host: qconf -ah {facts.host}"
        return Finding("qmaster", Level.FAIL, f"{facts.unreachable} ({place})", remedy)
    if facts.unreachable:
        there = "make sure that sge_qmaster runs, that SGE_QMASTER_PORT is its port, and that this host can reach it"
        away = not facts.root or RUNS in facts.unreachable
        remedy = f"source $SGE_ROOT/$SGE_CELL/common/settings.sh{f'; {there}' if away else ''}"
        return Finding("qmaster", Level.FAIL, f"{facts.unreachable} ({place})", remedy)
    return Finding("qmaster", Level.OK, f"{facts.master} answers ({place})")


def manager_rights(facts: Facts) -> Finding:
    """Only a manager on an admin host may change queues and hosts."""
    missing = []
    if facts.user not in facts.managers:
        missing.append((f"{facts.user} is not a manager", f"qconf -am {facts.user}"))
    if not _among(facts.host, facts.admin_hosts, facts):
        missing.append((f"{facts.host} is not an admin host", f"qconf -ah {facts.host}"))
    if not missing:
        return Finding("manager rights", Level.OK, f"{facts.user} is a manager, {facts.host} an admin host")
    return Finding(
        "manager rights",
        Level.FAIL,
        " and ".join(what for what, _ in missing),
        f"as a manager, on an admin host: {'; '.join(remedy for _, remedy in missing)}",
    )


def submit_host(facts: Facts) -> Finding:
    """Users submit here, and Grid Engine verifies doubtful jobs for us from here."""
    if _among(facts.host, facts.submit_hosts, facts):
        return Finding("submit host", Level.OK, f"{facts.host} is a submit host")
    return Finding(
        "submit host",
        Level.WARN,
        f"{facts.host} is not a submit host, so nobody can submit jobs there",
        f"qconf -as {facts.host}",
    )


def names_resolve(facts: Facts) -> Finding:
    """A host whose name and address do not lead to each other joins under another name, or not at all."""
    unresolved = [name.host for name in facts.names if name.address is None]
    astray = [
        f"{name.host} is {name.address}, which is {name.back or 'nobody'}"
        for name in facts.names
        if name.address is not None and not _same(name.back or "", name.host, facts)
    ]
    if not unresolved and not astray:
        return Finding("host names", Level.OK, _resolving(len(facts.names)))
    problems = ([f"no address for {', '.join(unresolved)}"] if unresolved else []) + astray
    return Finding(
        "host names",
        Level.FAIL if facts.master in unresolved else Level.WARN,
        "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else ""),
        "add name and address of these hosts to DNS or /etc/hosts, on the master and on the workers",
    )


def full_names(facts: Facts) -> Finding:
    """With ignore_fqdn false, `w1` and `w1.example.org` are two hosts, and a worker under the wrong one is lost."""
    if facts.ignore_fqdn is None:
        return Finding(
            "short and full names",
            Level.WARN,
            "the cell's bootstrap file could not be read",
            "make sure that this user can read $SGE_ROOT/$SGE_CELL/common/bootstrap",
        )
    if facts.ignore_fqdn:
        return Finding("short and full names", Level.OK, "ignore_fqdn is true: domains do not matter")
    full = [host for host in facts.execution_hosts if "." in host]
    if full and len(full) < len(facts.execution_hosts):
        return Finding(
            "short and full names",
            Level.WARN,
            f"ignore_fqdn is false, and of {len(facts.execution_hosts)} hosts {len(full)} have full names",
            "let the provider name workers the way `qconf -sel` prints them, or set ignore_fqdn true in the bootstrap "
            "file (and restart sge_qmaster)",
        )
    kind = "full" if full else "short"
    return Finding("short and full names", Level.OK, f"ignore_fqdn is false, and all hosts have {kind} names")


def clock(facts: Facts) -> Finding:
    """Ages and timeouts compare Grid Engine's times with ours."""
    if facts.clock_skew is None:
        return Finding("clocks", Level.WARN, "qmaster's time is not known", "install qping")
    ahead = f"the qmaster is {abs(facts.clock_skew):.0f} s {'ahead' if facts.clock_skew > 0 else 'behind'}"
    if abs(facts.clock_skew) <= CLOCK_TOLERANCE:
        return Finding("clocks", Level.OK, f"within {CLOCK_TOLERANCE:.0f} s of the qmaster's")
    level = Level.FAIL if abs(facts.clock_skew) > CLOCK_LIMIT else Level.WARN
    return Finding("clocks", level, ahead, "run chrony or ntpd on both hosts")


def max_unheard(facts: Facts) -> Finding:
    """After so long without a report Grid Engine gives a host no more jobs."""
    unheard = _seconds(facts.configuration.get("max_unheard", ""))
    report = _seconds(facts.configuration.get("load_report_time", ""))
    if unheard is None or report is None:
        return Finding("max_unheard", Level.WARN, "its value is not understood", "see `qconf -sconf`")
    found = f"max_unheard is {unheard:.0f} s, hosts report every {report:.0f} s"
    if unheard < 2 * report:
        return Finding(
            "max_unheard",
            Level.FAIL,
            f"{found}: hosts that are alive count as lost",
            "qconf -mconf: at least twice the latter",
        )
    if unheard > UNHEARD_LIMIT:
        return Finding(
            "max_unheard",
            Level.WARN,
            f"{found}: for this long the scheduler sends jobs to dead hosts",
            f"qconf -mconf: 00:05:00 or less (limit {UNHEARD_LIMIT:.0f} s)",
        )
    return Finding("max_unheard", Level.OK, found)


def reschedule_unknown(facts: Facts) -> Finding:
    """Grid Engine itself starts jobs of a silent host elsewhere, though the first may still run: twice."""
    text = facts.configuration.get("reschedule_unknown", "")
    seconds = _seconds(text) or 0.0
    if seconds == 0:
        return Finding("reschedule_unknown", Level.OK, "off: Grid Engine does not start a silent host's jobs twice")
    return Finding(
        "reschedule_unknown",
        Level.WARN,
        f"{text}: after this time Grid Engine starts rerunnable jobs of a silent host again, while the first "
        "ones may still run there",
        "qconf -mconf: reschedule_unknown 00:00:00",
    )


def events(facts: Facts) -> Finding:
    """Without events everything works, but a job waits for the next poll."""
    if not facts.qevent:
        return Finding(
            "events",
            Level.WARN,
            "qevent is not installed: the autoscaler sees new jobs only by polling",
            "install gridengine-client",
        )
    if not (_among(facts.host, facts.submit_hosts, facts) or _among(facts.host, facts.admin_hosts, facts)):
        return Finding("events", Level.WARN, f"{facts.host} may not listen to events", f"qconf -as {facts.host}")
    return Finding("events", Level.OK, "qevent is here and may listen")


def default_options(facts: Facts) -> Finding:
    """Options that every submission carries unseen, and every qstat."""
    harmful = []
    for path, text in facts.defaults.items():
        for option, value in _options(text):
            if path.endswith("request") and option == "-w" and value == "e":
                harmful.append(f"{path}: `-w e` refuses every job while no host is up")
            if path.endswith("request") and option == "-now" and value.startswith("y"):
                harmful.append(f"{path}: `-now y` drops every job that no host takes at once")
            if path.endswith("qstat") and option in ("-s", "-q", "-l", "-pe", "-U", "-g"):
                harmful.append(f"{path}: `{option} {value}`".rstrip(" `") + "` hides jobs from everybody, us included")
    if not harmful:
        return Finding("default options", Level.OK, f"none that hurt in {_files(len(facts.defaults))}")
    remedy = "take these options out (`-w w` warns without refusing)"
    return Finding("default options", Level.FAIL, "; ".join(harmful), remedy)


def empty_cluster(facts: Facts) -> Finding:
    """A job that must start at once cannot wait for a worker."""
    if facts.slots_up:
        return Finding("empty cluster", Level.OK, f"{facts.slots_up} slots are up without any worker")
    return Finding(
        "empty cluster",
        Level.WARN,
        "no slot is up: `qsub -w e`, `qrsh`, `qlogin`, `-now y` and DRMAA (which validates by default) fail now "
        "and launch nothing; plain `qsub` works",
        "use `qsub -w n`, `qrsh -now n`, in DRMAA the native specification `-w n`; or keep slots up with "
        "CP_CAP_SGE_MASTER_CORES or CP_CAP_AUTOSCALE_MIN_WORKERS",
    )


def prepared(facts: Facts) -> Finding:
    """The changes that `init` would make."""
    if not facts.differences:
        return Finding("preparation", Level.OK, "queue, host group and parallel environments exist")
    missing = [f"{each.kind} {each.name}" for each in facts.differences if each.missing]
    other = [f"{each.kind} {each.name}" for each in facts.differences if not each.missing]
    problems = ([f"missing: {', '.join(missing)}"] if missing else []) + (
        [f"`init` would change {', '.join(other)}"] if other else []
    )
    remedy = "run `sge-autoscaler init`" + ("; it shows what --apply would change" if other else "")
    return Finding("preparation", Level.FAIL if missing else Level.WARN, "; ".join(problems), remedy)


def submission_verifier(facts: Facts) -> Finding:
    """A server-side JSV gets every submission, and may change or refuse it."""
    verifier = facts.verifier
    if verifier is None:
        return Finding("jsv_url", Level.OK, "no server-side verifier (`sge-autoscaler init --jsv` makes one)")
    if not verifier.runs:
        return Finding(
            "jsv_url",
            Level.FAIL,
            f"Grid Engine refuses every submission: {verifier.script} is missing or not executable",
            "`sge-autoscaler init --jsv` installs it again; `qconf -mconf` with jsv_url none removes the need for it",
        )
    if not verifier.ours:
        return Finding(
            "jsv_url",
            Level.WARN,
            f"{verifier.script} verifies every submission and may change or refuse it",
            "make sure that it accepts jobs that no present host can run",
        )
    if not verifier.current:
        return Finding(
            "jsv_url",
            Level.WARN,
            "the verifier is of another version and accepts every job",
            "sge-autoscaler init --jsv",
        )
    if not verifier.fresh:
        return Finding(
            "jsv_url",
            Level.WARN,
            "the verifier accepts every job, because the autoscaler has made no recent observation",
            "make sure that `sge-autoscaler run` runs and may write there",
        )
    return Finding("jsv_url", Level.OK, "Grid Engine refuses jobs that can never run, at submission")


Check = Callable[[Facts], Finding]
ALWAYS: tuple[Check, ...] = (answers,)
WITH_MASTER: tuple[Check, ...] = (
    manager_rights,
    submit_host,
    prepared,
    names_resolve,
    full_names,
    clock,
    max_unheard,
    reschedule_unknown,
    events,
    default_options,
    empty_cluster,
    submission_verifier,
)
CLOCK_TOLERANCE = 2.0
"""Seconds: Grid Engine's own times are whole seconds."""
CLOCK_LIMIT = 60.0
UNHEARD_LIMIT = 900.0


def _same(one: str, other: str, facts: Facts) -> bool:
    one, other = one.lower(), other.lower()
    if facts.ignore_fqdn is False:
        return one == other
    return one.partition(".")[0] == other.partition(".")[0]


def _among(host: str, hosts: tuple[str, ...], facts: Facts) -> bool:
    return any(_same(host, each, facts) for each in hosts)


def _seconds(text: str) -> float | None:
    """`00:05:00`, `5:0` or `300`."""
    parts = text.strip().split(":")
    if not all(re.fullmatch(r"\d+", part) for part in parts):
        return None
    return float(sum(int(part) * 60**power for power, part in enumerate(reversed(parts))))


def _options(text: str) -> list[tuple[str, str]]:
    """Options of a defaults file with the word after each; comments are left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    try:
        words = shlex.split(" ".join(lines))
    except ValueError:
        words = " ".join(lines).split()
    return [(word, value) for word, value in pairwise([*words, ""]) if word.startswith("-")]


def _resolving(names: int) -> str:
    return "1 name resolves both ways" if names == 1 else f"{names} names resolve both ways"


def _files(count: int) -> str:
    return "1 file of default options" if count == 1 else f"{count} files of default options"
