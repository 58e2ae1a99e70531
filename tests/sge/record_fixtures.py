"""Makes the recorded outputs of a real Grid Engine anew: `python tests/sge/record_fixtures.py [SCENARIO …]`.

Each scenario brings a private cell into a state; what Grid Engine then prints is written to `recorded/<scenario>/` in
the layout of a record folder. `messages` records what Grid Engine prints when a change is repeated or fails.
Needs root and Debian's Grid Engine packages; about 20 s. Numbers and times differ from run to run, nothing else.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from autoscaler import namespaces
from autoscaler.lab.cell import Cell, ExecHost

RECORDED = Path(__file__).parent / "recorded"
LISTS = {"-sql": "-sq", "-spl": "-sp", "-shgrpl": "-shgrp", "-sel": "-se", "-srqsl": "-srqs"}
SINGLE = ("-sc", "-sconf", "-ssconf", "-sel", "-sckptl", "-sql", "-spl", "-shgrpl", "-ss", "-sh", "-sm", "-so", "-srqs")
HOSTS = (
    ExecHost("w1", slots=4, complexes={"h_vmem": "16G"}),
    ExecHost("w2", slots=4, complexes={"h_vmem": "16G"}),
    ExecHost("w3", slots=8, complexes={"h_vmem": "32G"}),
)
SLEEP = ("-b", "y", "sleep", "600")
QUOTA = """{
   name         one_user
   description  "a user's share"
   enabled      TRUE
   limit        users {*} queues main.q to slots=14
}
"""


def jobs(cell: Cell) -> None:
    """Every kind of job: running, suspended, parallel, array, held, dependent, future, in error, refused by rules."""
    make_consumable(cell, "h_vmem")
    cell.out("qconf", "-Arqs", written(cell, "quota", QUOTA))
    serial = cell.submit("-N", "serial", "-l", "h_vmem=1G", *SLEEP)
    suspended = cell.submit("-N", "suspended", *SLEEP)
    cell.submit("-N", "spread", "-pe", "mpi", "9", *SLEEP)
    cell.submit("-N", "pieces", "-t", "1-9:2", "-tc", "2", *SLEEP)
    broken = cell.submit("-N", "broken", "-wd", "/nowhere", *SLEEP)
    wait(lambda: "Eqw" in cell.out("qstat", "-u", "*") and "spread" in cell.out("qstat", "-s", "r"))
    cell.out("qmod", "-sj", suspended)
    cell.out("qrsub", "-d", "3600", "-pe", "local", "1")
    cell.submit("-N", "held", "-h", *SLEEP)
    cell.submit("-N", "after", "-hold_jid", f"{serial},{broken}", *SLEEP)
    cell.submit("-N", "later", "-a", "203012312359.59", *SLEEP)
    cell.submit("-N", "range", "-pe", "mpi", "40-120", *SLEEP)
    cell.submit("-N", "open", "-pe", "mpi", "48-", *SLEEP)
    cell.submit("-N", "wild", "-pe", "m*", "64", *SLEEP)
    cell.submit("-N", "memory", "-l", "h_vmem=64G", "-pe", "local", "2", *SLEEP)
    cell.submit("-N", "soft", "-soft", "-l", "mem_free=1.5G", "-hard", "-l", "arch=lx-*", "-pe", "local", "32", *SLEEP)
    cell.submit("-N", "pinned", "-q", "main.q@w1", "-pe", "local", "16", *SLEEP)
    cell.submit("-N", "reserving", "-R", "y", "-pe", "mpi", "99", "-l", "h_rt=00:10:00", *SLEEP)
    cell.submit("-N", "limited", "-t", "1-70000:3", "-tc", "3", "-pe", "local", "16", *SLEEP)
    partly = cell.submit("-N", "partly_held", "-t", "1-10", "-pe", "local", "16", *SLEEP)
    cell.out("qhold", partly, "-t", "3-5")
    cell.submit("-N", "a<b>&c", "-pe", "local", "16", *SLEEP)
    cell.submit("-N", "rerun", "-r", "y", "-pe", "local", "16", *SLEEP)
    noted = cell.submit("-N", "low", "-p", "-100", "-pe", "local", "16", *SLEEP)
    cell.out("qalter", "-ac", "note=asks too much", noted)
    time.sleep(3)  # one more scheduler run, so that priorities are given


def states(cell: Cell) -> None:
    """Every state of a queue instance that can be had: disabled, suspended, in error, unknown, no execd, orphaned."""
    cell.configure(max_unheard="00:00:05")
    cell.submit("-N", "stays", "-q", "main.q@w4", *SLEEP)
    cell.submit("-N", "unheard", "-q", "main.q@w5", *SLEEP)
    wait(lambda: cell.out("qstat", "-s", "r").count(" r ") == 2)
    cell.enrol(ExecHost("ip-10-1-0-99", slots=64, complexes={"h_vmem": "256G"}))
    cell.out("qmod", "-d", "main.q@ip-10-1-0-99")
    cell.out("qmod", "-d", "main.q@w1")
    cell.out("qmod", "-s", "main.q@w2")
    cell.out("qconf", "-mattr", "queue", "prolog", "/bin/false", "main.q@w3")
    cell.submit("-N", "poison", "-q", "main.q@w3", *SLEEP)
    cell.out("qconf", "-mattr", "queue", "load_thresholds", "load_avg=-1", "main.q@w6")
    cell.end_host("w5")
    cell.out("qconf", "-purge", "queue", "slots", "main.q@w4")
    cell.out("qconf", "-dattr", "hostgroup", "hostlist", "w4", "@allhosts")
    wait(lambda: re.search(r"main.q@w5 .* a?u$", cell.out("qstat", "-f"), re.MULTILINE), 30)
    time.sleep(3)


def empty(cell: Cell) -> None:
    """A master without any execution host, and one job that waits for the first."""
    cell.submit("-N", "first", *SLEEP)
    time.sleep(3)


EXECHOST = """hostname {name}
load_scaling NONE
complex_values slots=8
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
"""


def questions(cell: Cell) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The commands to record, in order; a step of our own may come between two of them."""
    host = "ip-10-1-0-9"
    known = written(cell, "exechost", EXECHOST.format(name=host))
    nowhere = written(cell, "nowhere", EXECHOST.format(name="no-such-host"))
    group, own_slots = ("hostgroup", "hostlist", host, "@allhosts"), f"[{host}=8]"
    purge = ("qconf", "-purge", "queue", "slots", f"main.q@{host}")
    yield "disable a host nobody knows", ("qmod", "-d", f"*@{host}")
    yield "take a host nobody knows from the host group", ("qconf", "-dattr", *group)
    yield "purge slots of a host nobody knows", purge
    yield "remove a host nobody knows", ("qconf", "-de", host)
    yield "add a host whose name does not resolve", ("qconf", "-Ae", nowhere)
    yield "add a host", ("qconf", "-Ae", known)
    yield "add a host again", ("qconf", "-Ae", known)
    yield "modify a host", ("qconf", "-Me", known)
    yield "give it slots", ("qconf", "-aattr", "queue", "slots", own_slots, "main.q")
    yield "give it slots again", ("qconf", "-aattr", "queue", "slots", own_slots, "main.q")
    yield "put it into the host group", ("qconf", "-aattr", *group)
    yield "put it into the host group again", ("qconf", "-aattr", *group)
    yield "show it without an execd", ("qhost", "-h", host, "-q", "-F")
    yield "show its queue instances without an execd", ("qstat", "-f", "-q", f"*@{host}")
    yield "disable it", ("qmod", "-d", f"*@{host}")
    yield "disable it again", ("qmod", "-d", f"*@{host}")
    yield "enable it", ("qmod", "-e", f"*@{host}")
    yield "enable it again", ("qmod", "-e", f"*@{host}")
    namespaces.start_host(cell.tree, host)
    cell.start_execd(host)
    cell.wait_for_report(host)
    job = cell.submit("-q", f"main.q@{host}", *SLEEP)
    wait(lambda: " r " in cell.out("qstat", "-s", "r"))
    yield "remove a host that still has slots and group", ("qconf", "-de", host)
    yield "purge its slots", purge
    yield "purge its slots again", purge
    yield "take it from the host group", ("qconf", "-dattr", *group)
    yield "take it from the host group again", ("qconf", "-dattr", *group)
    yield "show the queue instance of a busy host that left the host group", ("qstat", "-f", "-q", f"*@{host}")
    yield "remove a busy host", ("qconf", "-de", host)
    yield "push back a job that is not rerunnable", ("qmod", "-rj", job)
    yield "delete a running job", ("qdel", job)
    yield "delete it again", ("qdel", job)
    wait(lambda: not cell.out("qstat"))
    yield "delete a job that is gone", ("qdel", job)
    yield "delete a job that never was", ("qdel", "999")
    yield "hold a job that never was", ("qhold", "999")
    yield "remove its local configuration", ("qconf", "-dconf", host)
    yield "remove the host", ("qconf", "-de", host)
    yield "remove the host again", ("qconf", "-de", host)
    yield "remove its local configuration again", ("qconf", "-dconf", host)
    yield "stop the execd of a host that was removed", ("qconf", "-ke", host)
    yield "remove it from the submit hosts", ("qconf", "-ds", host)
    yield "remove it from the admin hosts", ("qconf", "-dh", host)
    yield "show a job that never was", ("qstat", "-j", "999", "-xml")
    yield "account of a job that never was", ("qacct", "-j", "999")
    yield "list quota sets, none there", ("qconf", "-srqs")
    cell.stop_qmaster()
    yield "ask a qmaster that is down", ("qstat", "-xml")
    yield "change at a qmaster that is down", ("qconf", "-de", host)


def messages(cell: Cell) -> list[dict[str, object]]:
    """What Grid Engine prints, with its exit status, when a change was made already, or cannot be made."""
    recorded: list[dict[str, object]] = []
    for what, argv in questions(cell):
        ended = cell.runner(argv, timeout=30)
        shown = [text.decode().replace(str(cell.directory), "CELL") for text in (ended.stdout, ended.stderr)]
        words = [word.replace(str(cell.directory), "CELL") for word in argv]
        recorded.append(
            {"what": what, "argv": words, "returncode": ended.returncode, "stdout": shown[0], "stderr": shown[1]}
        )
    return recorded


def joins(cell: Cell) -> dict[str, object]:
    """How an execd joins: started before its host is known, and after; with and without making itself a daemon."""
    measured: dict[str, object] = {}
    for name, patience in (("ip-10-1-0-4", 2.0), ("ip-10-1-0-5", 30.0)):
        namespaces.start_host(cell.tree, name)
        began = time.monotonic()
        with cell.start(("sge_execd",), host=name, env={"SGE_ND": "1"}) as execd:
            while execd.poll() is None and time.monotonic() < began + patience:
                time.sleep(0.05)
            waited = f"execd of a host that is made known after {patience:g} s"
            if execd.poll() is not None:
                after = round(time.monotonic() - began, 1)
                measured[waited] = {"exit status": execd.poll(), "after": after, "said": list(execd.lines)}
                continue
            began = time.monotonic()
            cell.enrol(ExecHost(name))
            cell.wait_for_report(name)
            measured[waited] = {"heard after": round(time.monotonic() - began, 2)}
    for name, env in (("ip-10-1-0-6", {"SGE_ND": "1"}), ("ip-10-1-0-7", {})):
        namespaces.start_host(cell.tree, name)
        cell.enrol(ExecHost(name))
        began = time.monotonic()
        with cell.start(("setsid", "--fork", "sge_execd"), host=name, env=env):
            cell.wait_for_report(name)
        how = "SGE_ND=1 sge_execd" if env else "sge_execd"
        measured[f"seconds from {how} until heard, host known before"] = round(time.monotonic() - began, 2)
    return measured


def write(cell: Cell, folder: Path) -> None:
    """The cell as it is now, as a record folder."""
    (folder / "qconf").mkdir(parents=True, exist_ok=True)
    for stem, argv in outputs(cell).items():
        ended = cell.runner(argv, timeout=30)
        text = ended.stdout.replace(os.fsencode(cell.directory), b"/cell")
        text = text.replace(os.fsencode(Path(sys.executable).parent), b"/opt/sge-autoscaler/bin")
        if ended.returncode == 0:
            (folder / stem).write_bytes(text)
    (folder / "now").write_text(datetime.now().astimezone().isoformat(timespec="seconds") + "\n")
    (folder / "master").write_text("master\n")


def outputs(cell: Cell) -> dict[str, tuple[str, ...]]:
    """File name → argv that prints it."""
    numbers = ",".join(sorted(set(re.findall(r"^ +(\d+) ", cell.out("qstat", "-u", "*"), re.MULTILINE)), key=int))
    asked: dict[str, tuple[str, ...]] = {
        "qstat.xml": ("qstat", "-u", "*", "-r", "-f", "-xml"),
        "qhost.xml": ("qhost", "-q", "-F", "-xml"),
        "qstat-j.xml": ("qstat", "-j", numbers, "-xml"),
        "qconf/se_global.txt": ("qconf", "-se", "global"),
    }
    asked |= {f"qconf/{switch[1:]}.txt": ("qconf", switch) for switch in SINGLE}
    for lister, switch in LISTS.items():
        listed = cell.runner(("qconf", lister), timeout=30)
        for name in listed.stdout.decode().split() if listed.returncode == 0 else ():
            asked[f"qconf/{switch[1:]}_{name}.txt"] = ("qconf", switch, name)
    return asked


def make_consumable(cell: Cell, name: str) -> None:
    """Make a complex count down: columns 6 and 7 of `qconf -sc`.

    Left at the default 0, every job that does not ask for h_vmem is killed for using more than nothing.
    """
    rows = [line.split() for line in cell.out("qconf", "-sc").splitlines()]
    changed = [[*row[:5], "YES", "512M", *row[7:]] if row[0] == name else row for row in rows if row[0][0] != "#"]
    cell.out("qconf", "-Mc", written(cell, "complexes", "".join(" ".join(row) + "\n" for row in changed)))


def written(cell: Cell, name: str, text: str) -> str:
    file = cell.home / name
    file.write_text(text)
    return str(file)


def wait(reached: Callable[[], object], deadline: float = 20.0) -> None:
    end = time.monotonic() + deadline
    while not reached():
        if time.monotonic() > end:
            raise AssertionError("the state was not reached")
        time.sleep(0.1)


def main(wanted: list[str]) -> None:
    scenarios: dict[str, tuple[tuple[ExecHost, ...], Callable[[Cell], None]]] = {
        "jobs": (HOSTS, jobs),
        "states": ((*HOSTS, *(ExecHost(name) for name in ("w4", "w5", "w6"))), states),
        "empty": ((), empty),
    }
    asked = {"messages": messages, "joins": joins}
    for name in wanted or [*scenarios, *asked]:
        hosts, act = scenarios.get(name, ((), None))
        with Cell.up(hosts=hosts) as cell:
            if act is not None:
                act(cell)
                write(cell, RECORDED / name)
            else:
                (RECORDED / f"{name}.json").write_text(json.dumps(asked[name](cell), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
