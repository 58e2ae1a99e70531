"""Counts Grid Engine commands: of a first and of a later pass, and of workers that join and leave together.

A counting runner answers as 8.1.9 does, for a cell of several queues, parallel environments and host groups; all
callers are the real code. How long the commands take depends on qmaster, so it is not measured. Exits 1 if a bar is
passed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

from autoscaler.core.demand.eligibility import details_wanted
from autoscaler.engine.observe import Observer
from autoscaler.process import Completed
from autoscaler.providers.fake import FakeCloud, FakeProvider, FakeSettings
from autoscaler.sge.admin import Administrator
from autoscaler.sge.batches import AT_ONCE, Batches, NewHost
from autoscaler.sge.cluster import Outputs
from autoscaler.store.store import Store
from bench.generate import NOW, Mix, generate
from bench.world import world

UNCHANGED_BAR = 3
JOINING = 200
EDITS_BAR = 2 * -(-JOINING // AT_ONCE)
"""Of host group and queue together."""
REMOVAL_BAR = JOINING + 10 * -(-JOINING // AT_ONCE)
"""Commands for as many workers that leave: an edit of the queue for each, as 8.1.9 has none for several, and ten for
all of them together.
"""
QUEUES, PES, HOST_GROUPS = 4, 10, 12


@dataclass
class CountingRunner:
    """Answers from recorded texts, and confirms each change."""

    outputs: Outputs
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], **_: object) -> Completed:
        self.asked.append(tuple(argv))
        match argv[0]:
            case "qstat":
                answer = self.outputs.qstat
            case "qhost":
                answer = self.outputs.qhost or b""
            case _:
                answer = self._shown(argv) if argv[1].startswith("-s") else _changed(argv).encode()
        return Completed(tuple(argv), 0, answer, b"", 0.0)

    def _shown(self, argv: Sequence[str]) -> bytes:
        starts = [place for place, word in enumerate(argv) if word.startswith("-s")]
        parts = [argv[start:end] for start, end in zip(starts, [*starts[1:], len(argv)], strict=True)]
        return "".join(self.outputs.qconf["_".join(part).removeprefix("-")] for part in parts).encode()


def _changed(argv: Sequence[str]) -> str:
    match list(argv):
        case ["qconf", "-Ae", *files]:
            names = [Path(file).read_text(encoding="utf-8").split()[1] for file in files if file != "-Ae"]
            return "".join(f'root@master added "{name}" to exechost list\n' for name in names)
        case ["qmod", switch, *targets]:
            word = {"-d": "disabled", "-e": "enabled"}[switch]
            names = [target.partition("@")[2] for target in targets]
            return "".join(f'root@master changed state of "main.q@{name}" ({word})\n' for name in names)
        case ["qconf", "-de", names]:
            return "".join(f'root@master removed "{name}" from execution host list\n' for name in names.split(","))
        case ["qconf", "-rattr", "exechost", _, _, *names]:
            return "".join(f'root@master modified "{name}" in exechost list\n' for name in names)
        case [*_, name]:
            return f'root@master modified "{name}" in list\n'
        case _:
            return ""


def cell() -> Outputs:
    """A small listing and a configuration of usual size."""
    outputs = generate(Mix(jobs=100, arrays=False, seed=1))
    queues = ["main.q", *(f"queue{number}.q" for number in range(1, QUEUES))]
    pes = ["local", "mpi", *(f"pe{number}" for number in range(2, PES))]
    groups = ["@allhosts", *(f"@group{number}" for number in range(1, HOST_GROUPS))]
    own = dict(outputs.qconf)
    texts = {
        "sc": "slots s INT <= YES YES 1 1000\narch a RESTRING == YES NO NONE 0\n",
        "se_global": "hostname global\ncomplex_values NONE\n",
        "srqs": "{\n   name few\n   enabled FALSE\n   limit to slots=9\n}\n",
        "sconf": "#global:\nmax_unheard 00:05:00\n",
        "sckptl": "no ckpt interface definition defined\n",
        "sql": "".join(f"{name}\n" for name in queues),
        "spl": "".join(f"{name}\n" for name in pes),
        "shgrpl": "".join(f"{name}\n" for name in groups),
        **{f"sq_{name}": f"qname {name}\nhostlist NONE\npe_list NONE\nslots 0\n" for name in queues},
        **{f"sp_{name}": f"pe_name {name}\nslots 9\nallocation_rule $fill_up\n" for name in pes},
        **{f"shgrp_{name}": f"group_name {name}\nhostlist NONE\n" for name in groups},
    }
    return Outputs(outputs.qstat, outputs.qhost, texts | own)


def passes() -> tuple[int, int, int]:
    """Commands of a first pass, of the next over an unchanged cell, and of one after workers of ours joined."""
    outputs = cell()
    runner, store = CountingRunner(outputs), Store.open(None)
    provider = FakeProvider(FakeSettings(), cell="bench", cloud=FakeCloud(clock=NOW.timestamp))
    observer = Observer(runner, provider, store, world(outputs).policy, details_wanted, UTC, clock=NOW.timestamp)
    try:
        first, unchanged = _asked(runner, observer.observe), _asked(runner, observer.observe)
        runner.outputs = with_workers(outputs, [f"worker{number}" for number in range(JOINING)])
        return first, unchanged, _asked(runner, observer.observe)
    finally:
        store.close()


def with_workers(outputs: Outputs, names: Sequence[str]) -> Outputs:
    """The configuration with these workers enrolled as well."""
    slots = ",".join(("0", *(f"[{name}=8]" for name in names)))
    texts = {
        "sel": outputs.qconf["sel"] + "".join(f"{name}\n" for name in names),
        "sq_main.q": outputs.qconf["sq_main.q"].replace("slots 16\n", f"slots {slots}\n"),
        "shgrp_@allhosts": outputs.qconf["shgrp_@allhosts"].rstrip("\n") + f" {' '.join(names)}\n",
    }
    return Outputs(outputs.qstat, outputs.qhost, {**outputs.qconf, **texts})


def joins(workers: int) -> Counter[str]:
    """Commands for workers that join together, and how many of them edit shared objects."""
    runner = CountingRunner(cell())
    batches = Batches(Administrator(runner))
    hosts = [NewHost(f"worker{number}", 8, (("h_vmem", "32G"),)) for number in range(workers)]
    for start in range(0, workers, AT_ONCE):
        some = hosts[start : start + AT_ONCE]
        if len(batches.enrol(some, "main.q", "@allhosts")) < len(some) or len(
            batches.enable([host.name for host in some])
        ) < len(some):
            raise RuntimeError("not every worker joined: the answers of this benchmark are wrong")
    counts = Counter(" ".join(call[:3]) for call in runner.asked if call[1] in ("-aattr", "-rattr"))
    return Counter({"commands": len(runner.asked)}) + counts


def removals(workers: int) -> Counter[str]:
    """Commands for workers that leave together, and how many of them edit shared objects."""
    names = [f"worker{number}" for number in range(workers)]
    outputs = with_workers(cell(), names)
    shown = {"sq_*": outputs.qconf["sq_main.q"], **dict.fromkeys(("ss", "sh", "sconfl"), "master\n")}
    runner = CountingRunner(Outputs(outputs.qstat, outputs.qhost, {**outputs.qconf, **shown}))
    batches = Batches(Administrator(runner))
    for start in range(0, workers, AT_ONCE):
        outcomes = batches.remove(dict.fromkeys(names[start : start + AT_ONCE]))
        if not all(outcome.removed for outcome in outcomes.values()):
            raise RuntimeError("not every worker was removed: the answers of this benchmark are wrong")
    counts = Counter(" ".join(call[:3]) for call in runner.asked if call[1] in ("-dattr", "-purge"))
    return Counter({"commands": len(runner.asked)}) + counts


def _asked(runner: CountingRunner, work: Callable[[], object]) -> int:
    before = len(runner.asked)
    work()
    return len(runner.asked) - before


def main() -> int:
    first, unchanged, after_joins = passes()
    print(f"Grid Engine commands, {QUEUES} queues, {PES} parallel environments, {HOST_GROUPS} host groups")
    print(f"  first pass          {first:5}")
    print(f"  unchanged pass      {unchanged:5}")
    print(f"  pass after joins    {after_joins:5}")
    joined = joins(JOINING)
    edits = joined["qconf -aattr hostgroup"] + joined["qconf -rattr queue"]
    print(f"  {JOINING} workers join    {joined['commands']:5}, of which edit")
    print(f"    host group        {joined['qconf -aattr hostgroup']:5}")
    print(f"    queue             {joined['qconf -rattr queue']:5}")
    left = removals(JOINING)
    print(f"  {JOINING} workers leave   {left['commands']:5}, of which edit")
    print(f"    host group        {left['qconf -dattr hostgroup']:5}")
    print(f"    queue             {left['qconf -purge queue']:5}")
    kept = max(unchanged, after_joins) <= UNCHANGED_BAR and edits <= EDITS_BAR and left["commands"] <= REMOVAL_BAR
    bars = f"{UNCHANGED_BAR} in a pass but the first, {EDITS_BAR} edits of joins, {REMOVAL_BAR} commands of removals"
    print(f"  bars: {bars}: {'kept' if kept else 'PASSED OVER'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
