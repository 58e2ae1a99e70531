"""Random small cells, as the texts that Grid Engine is configured with. The same seed gives the same cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from autoscaler.lab.private_root import render

HOSTS = {"h1": 2, "h2": 4, "h3": 6}
"""Persistent execution hosts and the slots of each."""
QUEUES = ("main.q", "b.q")
CKPTS = ("blcr", "dmtcp")
"""Checkpointing environments."""
_DURATIONS = ("INFINITY", "0:10:0")
QTYPES = (*("BATCH INTERACTIVE",) * 6, "BATCH", "INTERACTIVE", "NONE")
PES = {"local": "$pe_slots", "mpi": "$fill_up", "rr": "$round_robin", "fp2": "2", "fp3": "3", "team": "$fill_up"}
_OFTEN = tuple(pe for pe in PES if pe != "team")
USERS = ("root", "daemon", "games")
LIST = "some"
GROUP = "@x"
OUTER = "@y"
"""A host group that has GROUP as its member."""
CALENDAR = "soon"
"""Closes its queues half an hour after a world is made, for an hour."""
COMPLEXES = (
    "lic lic INT <= YES YES 0 0",
    "tok tok INT <= YES YES 0 0",
    "once once INT <= YES JOB 0 0",
    "ram ram MEMORY <= YES YES 0 0",
    "colour col STRING == YES NO NONE 0",
    "size size INT <= YES NO 0 0",
    "must must BOOL == FORCED NO 0 0",
    "toll toll INT <= FORCED YES 0 0",
)
"""Beside those that Grid Engine ships; `tok` has a default if a world sets it."""


@dataclass(frozen=True, slots=True)
class World:
    """One cell: files for `qconf` by name, the queues to use, and what runs there before anything is asked."""

    files: Mapping[str, str]
    script: str
    """Shell, run in a directory with the files: makes any world into this one."""
    running: tuple[tuple[str, ...], ...]
    """Options of `qsub`, one job each."""


def a_world(random: Random) -> World:
    members = tuple(sorted(random.sample(sorted(HOSTS), random.choice((1, 2)))))
    default = random.choice((0, 0, 1))
    files = {
        "complexes": "\n".join(_complexes(default)) + "\n",
        "group": f"group_name {GROUP}\nhostlist {' '.join(members)}\n",
        "outer": f"group_name {OUTER}\nhostlist {GROUP}\n",
        "scheduler": f"max_reservation {random.choice((0, 0, 3))}\ndefault_duration {random.choice(_DURATIONS)}\n",
    }
    files["list"] = f"name {LIST}\ntype ACL\nfshare 0\noticket 0\nentries {random.choice(('daemon', 'daemon,games'))}\n"
    of_pe = "team" if random.random() < 0.8 else random.choice(tuple(PES))
    of_host = random.choice(tuple(HOSTS)) if random.random() < 0.12 else ""
    of_queue = random.choice(QUEUES) if random.random() < 0.03 else ""
    for pe, rule in PES.items():
        text = render("pe", name=pe, allocation_rule=rule, control_slaves="TRUE")
        values = {"slots": str(random.choice((4, 6, 9, 20, 999))), **_listed(random, pe == of_pe)}
        files[f"pe_{pe}"] = _with(text, values)
    for host, slots in HOSTS.items():
        values = {"slots": str(slots)} if random.random() < 0.7 else {}
        values |= _values(random, ("lic", "tok", "once", "ram"), 0.35) | _fixed(random, 0.3) | _forced(random, 0.08)
        text = render("exechost", name=host, complex_values=_assignments(values))
        files[f"host_{host}"] = _with(text, _listed(random, host == of_host))
    for queue in QUEUES:
        text = render("queue", private="/tmp")
        changes = {
            "qname": queue,
            "hostlist": random.choice(("@allhosts", "@allhosts", f"{GROUP} h3", f"{OUTER} h3", "h1 h2")),
            "seq_no": str(random.randint(0, 2)),
            "slots": _per_host(random, lambda: str(random.choice((1, 2, 3, 4))), 0.4),
            "pe_list": _per_host(random, lambda: _pes(random), 0.4),
            "complex_values": _per_host(random, lambda: _queue_values(random), 0.3),
            "h_rt": _per_host(random, lambda: random.choice(("INFINITY", "INFINITY", "1:0:0")), 0.2),
            "qtype": _per_host(random, lambda: random.choice(QTYPES), 0.05),
            "calendar": _per_host(random, lambda: random.choice(("NONE", "NONE", "NONE", CALENDAR)), 0.1),
            "ckpt_list": _per_host(random, lambda: _some(random, CKPTS, 0.6), 0.1),
            **_listed(random, queue == of_queue),
        }
        files[f"queue_{queue}"] = _with(text, changes)
    files["quotas"] = "\n".join(_quota(random, name) for name in ("one", "two")[: random.choice((1, 1, 2))])
    running = tuple(_running(random) for _ in range(random.randint(0, 3)))
    return World(files, _SCRIPT, running)


def a_plain_world(
    members: str = "h3", hosts: Mapping[str, str] = MappingProxyType({}), forced: str = "", **queue: str
) -> World:
    """A cell where all is as it is by default but for these attributes of main.q and `complex_values` of hosts.
    `forced`: a complex of those that Grid Engine ships, made FORCED.
    """
    world = a_world(Random("plain"))
    files = {name: text for name, text in world.files.items() if not name.startswith(("pe_", "host_", "queue_"))}
    files |= {
        f"pe_{pe}": render("pe", name=pe, allocation_rule=rule, control_slaves="TRUE") for pe, rule in PES.items()
    }
    for host, slots in HOSTS.items():
        files[f"host_{host}"] = render("exechost", name=host, complex_values=hosts.get(host, f"slots={slots}"))
    for name in QUEUES:
        changes = {"qname": name, "slots": "4" if name == "main.q" else "0", "pe_list": " ".join(PES)}
        changes |= queue if name == "main.q" else {}
        files[f"queue_{name}"] = _with(render("queue", private="/tmp"), changes)
    files |= {"complexes": "\n".join((*COMPLEXES, "")), "group": f"group_name {GROUP}\nhostlist {members}\n"}
    files |= {"outer": f"group_name {OUTER}\nhostlist {GROUP}\n", "scheduler": ""}
    files["quotas"] = "{\nname one\ndescription NONE\nenabled FALSE\nlimit to slots=99\n}\n"
    as_shipped = "cat shipped complexes"
    made = f"""awk '$1 == "{forced}" {{ $5 = "FORCED" }} 1' shipped complexes"""
    return World(files, _SCRIPT.replace(as_shipped, made if forced else as_shipped), ())


_CKPT = " ".join(
    f"'{line}'"
    for line in (
        "interface userdefined",
        *(f"{what}_command none" for what in ("ckpt", "migr", "restart", "clean")),
        "ckpt_dir /tmp",
        "signal none",
        "when sx",
    )
)
_SCRIPT = f"""
for n in one two; do qconf -drqs $n; done
printf '%s\\n' "calendar_name {CALENDAR}" "year NONE" \\
    "week $(date -d '+30 min' +%H:%M:%S)-$(date -d '+90 min' +%H:%M:%S)=off" > calendar; qconf -Mcal calendar
qconf -ssconf | grep -vE '^(max_reservation|default_duration) ' > schedd
(echo 'max_reservation 0'; echo 'default_duration INFINITY'; cat scheduler) | tac | awk '!seen[$1]++' >> schedd
qconf -Msconf schedd
cat shipped complexes > all; qconf -Mc all; qconf -Mu list; qconf -Mhgrp group; qconf -Mhgrp outer
for n in {" ".join(PES)}; do qconf -Mp pe_$n; done
for n in {" ".join(HOSTS)}; do qconf -Me host_$n; done
for n in {" ".join(QUEUES)}; do qconf -Mq queue_$n; done
qconf -Arqs quotas
"""
FIRST = f"""
for n in {" ".join(CKPTS)}; do printf '%s\n' "ckpt_name $n" {_CKPT} > ckpt_$n; qconf -Ackpt ckpt_$n; done
qconf -sc > shipped; cat shipped complexes > all; qconf -Mc all; qconf -Au list; qconf -Ahgrp group; qconf -Ahgrp outer
printf '%s\\n' "calendar_name {CALENDAR}" "year NONE" "week NONE" > calendar; qconf -Acal calendar
for n in {" ".join(PES)}; do qconf -Ap pe_$n; done
for n in {" ".join(QUEUES)}; do qconf -Aq queue_$n; done
"""
"""Makes the objects that worlds change, in a directory with the files of one."""


def _complexes(default: int) -> list[str]:
    return [line.replace("YES YES 0", f"YES YES {default}") if line.startswith("tok ") else line for line in COMPLEXES]


def _with(text: str, values: Mapping[str, str]) -> str:
    """A Grid Engine object with other values of some attributes."""
    lines = [line.split(maxsplit=1) for line in text.splitlines()]
    return "".join(f"{name} {values.get(name, value)}\n" for name, value in lines)


def _listed(random: Random, listed: bool) -> dict[str, str]:
    return {random.choice(("user_lists", "user_lists", "xuser_lists")): LIST} if listed else {}


def _values(random: Random, names: Sequence[str], often: float) -> dict[str, str]:
    return {
        name: random.choice(("2G", "4G", "6G")) if name == "ram" else str(random.randint(0, 5))
        for name in names
        if random.random() < often
    }


def _fixed(random: Random, often: float) -> dict[str, str]:
    values = {"colour": random.choice(("red", "blue")), "size": str(random.randint(1, 4))}
    return {name: value for name, value in values.items() if random.random() < often}


def _forced(random: Random, often: float) -> dict[str, str]:
    """What only jobs that request it may use."""
    values = {"must": random.choice(("TRUE", "FALSE")), "toll": str(random.randint(0, 3))}
    return {name: value for name, value in values.items() if random.random() < often}


def _assignments(values: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items()) or "NONE"


def _queue_values(random: Random) -> str:
    return _assignments(
        {**_values(random, ("lic", "tok", "once", "ram"), 0.3), **_fixed(random, 0.12), **_forced(random, 0.02)}
    )


def _pes(random: Random) -> str:
    return _some(random, PES, 0.75)


def _some(random: Random, names: Iterable[str], often: float) -> str:
    return " ".join(name for name in names if random.random() < often) or "NONE"


def _per_host(random: Random, value: object, often: float) -> str:
    """A value, perhaps with another for a host or the host group."""
    assert callable(value)
    first = str(value())
    if random.random() >= often:
        return first
    place = random.choice((GROUP, OUTER, *HOSTS))
    return f"{first},[{place}={value()}]"


def _quota(random: Random, name: str) -> str:
    rules = []
    for _ in range(random.choice((1, 1, 2))):
        filters = " ".join(
            part
            for part, often in (
                (f"users {random.choice(('{*}', '*', 'daemon', '{daemon,games}', '!root'))}", 0.5),
                (f"pes {random.choice(('*', '{*}', 'mpi', 'fp2,fp3'))}", 0.2),
                (f"queues {random.choice(('main.q', '{*}', 'b.q', '!b.q'))}", 0.3),
                (f"hosts {random.choice(('{*}', '{*}', 'h1', GROUP, OUTER, '!h3', '{@x}', '{h1,h3}'))}", 0.4),
            )
            if random.random() < often
        )
        limit = random.choice((f"slots={random.randint(2, 9)}", f"lic={random.randint(1, 6)}", "ram=8G"))
        if "hosts {" in filters and random.random() < 0.4:
            limit = random.choice(("slots=$num_proc", "slots=$num_proc*2", "slots=1"))
        rules.append(f"limit {filters} to {limit}")
    return "{\n" + "\n".join((f"name {name}", "description NONE", "enabled TRUE", *rules)) + "\n}\n"


def _running(random: Random) -> tuple[str, ...]:
    options: list[str] = ["-q", f"*@{random.choice(sorted(HOSTS))}"] if random.random() < 0.7 else []
    if random.random() < 0.4:
        options += ["-pe", random.choice(("local", "mpi")), str(random.randint(1, 3))]
    if random.random() < 0.4:
        options += ["-l", random.choice(("lic=1", "tok=1", "once=1", "ram=1G"))]
    return tuple(options)


def a_request(random: Random) -> tuple[str, ...]:
    """Options of `qsub` for one job that is asked about."""
    options: list[str] = []
    if random.random() < 0.55:
        name = random.choice((*_OFTEN, *_OFTEN, *PES, "m*", "fp*", "*", "[lm]*"))
        least = random.randint(1, 9)
        slots = str(least) if random.random() < 0.75 else f"{least}-{least + random.randint(0, 4)}"
        options += ["-pe", name, slots]
        if random.random() < 0.2:
            options += ["-masterq", random.choice((*QUEUES, "b.q@h2", f"main.q@{OUTER}", "*@h1", "main.q@h3,b.q@h1"))]
    asked = [
        (f"lic={random.randint(1, 3)}", 0.25),
        (f"tok={random.randint(1, 2)}", 0.15),
        (f"once={random.randint(1, 3)}", 0.15),
        (f"ram={random.choice(('1G', '1.5G', '3G'))}", 0.2),
        (f"colour={random.choice(('red', 'blue', 'r*', '!red'))}", 0.12),
        (f"size={random.randint(1, 4)}", 0.08),
        (f"must={random.choice(('1', '1', '0'))}", 0.06),
        (f"toll={random.choice((0, 1, 1, 2, 2))}", 0.06),
        (f"h_rt={random.choice(('600', '7200'))}", 0.1),
        (f"arch={random.choice(('lx-amd64', 'lx-*', 'sol-*'))}", 0.04),
        (f"h={random.choice(('h1', 'h2|h3', '!h1'))}", 0.12),
    ]
    chosen = [text for text, often in asked if random.random() < often]
    options += ["-l", ",".join(chosen)] if chosen else []
    if random.random() < 0.2:
        options += [
            "-q",
            random.choice(("main.q", "b.q", "*.q", f"main.q@{GROUP}", f"*@{OUTER}", "*@h2", "b.q@h3", "main.q,b.q@h1")),
        ]
    if random.random() < 0.08:
        options += ["-t", "1-3"]
    if random.random() < 0.15:
        options += ["-ckpt", random.choice(CKPTS)]
    return tuple(options)
