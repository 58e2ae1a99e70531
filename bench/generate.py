"""A busy cluster as Grid Engine 8.1.9 prints it, made up from a seed.

Waiting jobs: 55 % single-slot, 25 % on one host (2-16 slots), 15 % spread (8-64 slots), 5 % arrays of 1,000 tasks; a
third request memory. Running: full hosts of 16 slots. The element layout, indentation and order of children are those
of `qstat -r -f -xml`; waiting jobs stand by priority, as Grid Engine lists them.

With `unique`, every waiting job has a run time and a memory limit of its own, as workflow managers request them. With
another `turn` the same jobs wait and run, and only those values change that change between two passes of a busy cell in
which nothing is submitted, starts or ends: usage moves the priorities of all jobs of an owner (one owner's keep their
order), and hosts report other loads.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime

from autoscaler.sge.reading import Outputs

NOW = datetime(2026, 3, 2, 12, 0, 0, tzinfo=UTC)
SLOTS = 16
_OWNERS = tuple(f"user{n:02d}" for n in range(40))
_MEMORY = ("1G", "2G", "4G", "8G", "16G")
_NAMES = ("align_sample", "STDIN", "simulate-grid", "blastp.nr.chunk", "fit&amp;score", "render", "call_variants_chr")
_PEAK = 3 * 86400
"""Seconds over which the jobs were submitted."""


@dataclass(frozen=True, slots=True)
class Mix:
    """The sizes of a generated cluster."""

    jobs: int = 50_000
    hosts: int = 100
    arrays: bool = True
    unique: bool = False
    turn: int = 0
    seed: int = 1


def generate(mix: Mix) -> Outputs:
    """The outputs of one reading. The same mix gives the same bytes."""
    dice, turn = random.Random(mix.seed), random.Random(mix.seed * 1000 + mix.turn)
    shares = [turn.random() for _ in _OWNERS]
    hosts = [f"ip-10-0-{n // 250}-{n % 250}" for n in range(mix.hosts)]
    running = "".join(_queue_list(dice, turn, host, number) for number, host in enumerate(hosts))
    jobs = [_waiting_job(dice, 100_000 + n, mix, shares) for n in range(mix.jobs)]
    waiting = "".join(job for _, job in sorted(jobs, key=lambda job: -job[0]))
    qstat = (
        "<?xml version='1.0'?>\n"
        '<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">\n'
        f"  <queue_info>\n{running}  </queue_info>\n  <job_info>\n{waiting}  </job_info>\n</job_info>\n"
    )
    return Outputs(qstat=qstat.encode(), qhost=_qhost(turn, hosts).encode(), qconf=_configuration(hosts))


def _time(dice: random.Random) -> str:
    moment = datetime.fromtimestamp(NOW.timestamp() - dice.randrange(1, _PEAK), UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _waiting_job(dice: random.Random, number: int, mix: Mix, shares: list[float]) -> tuple[float, str]:
    """Its priority and its element. `shares`: each owner's share in this turn."""
    name = f"{dice.choice(_NAMES)}_{number}"
    kind = dice.random()
    slots, tasks, pe = 1, "", ""
    if kind < 0.25:
        slots = dice.choice((2, 4, 8, 16))
        pe = f'      <requested_pe name="local">{slots}</requested_pe>\n'
    elif kind < 0.40:
        slots = dice.choice((8, 16, 24, 32, 48, 64))
        pe = f'      <requested_pe name="mpi">{slots}</requested_pe>\n'
    elif kind < 0.45 and mix.arrays:
        tasks = "      <tasks>1-1000:1</tasks>\n"
    memory = ""
    owner = dice.randrange(len(_OWNERS))
    queue = "      <hard_req_queue>main.q</hard_req_queue>\n" if owner % 2 else ""
    if dice.random() < 1 / 3:
        asked = dice.choice(_MEMORY)
        memory = _hard("mem_free", asked)
    if mix.unique:
        memory = _hard("h_rt", str(3600 + number)) + _hard("h_vmem", f"{512 + number % 37}.{number}M") + memory
    priority = 0.2 + 0.6 * shares[owner] + 0.1 * dice.random()
    return priority, (
        '    <job_list state="pending">\n'
        f"      <JB_job_number>{number}</JB_job_number>\n"
        f"      <JAT_prio>{priority:.5f}</JAT_prio>\n"
        f"      <JB_name>{name}</JB_name>\n"
        f"      <JB_owner>{_OWNERS[owner]}</JB_owner>\n"
        "      <state>qw</state>\n"
        f"      <JB_submission_time>{_time(dice)}</JB_submission_time>\n"
        f"      <slots>{slots}</slots>\n{tasks}"
        f"      <full_job_name>{name}</full_job_name>\n{pe}{memory}{queue}"
        "      <binding>NONE</binding>\n"
        "    </job_list>\n"
    )


def _hard(name: str, value: str) -> str:
    return f'      <hard_request name="{name}" resource_contribution="0.000000">{value}</hard_request>\n'


def _queue_list(dice: random.Random, turn: random.Random, host: str, index: int) -> str:
    jobs = "".join(_running_job(dice, turn, 1000 + index * SLOTS + n) for n in range(SLOTS))
    return (
        "    <Queue-List>\n"
        f"      <name>main.q@{host}</name>\n"
        "      <qtype>BIP</qtype>\n"
        f"      <slots_used>{SLOTS}</slots_used>\n"
        "      <slots_resv>0</slots_resv>\n"
        f"      <slots_total>{SLOTS}</slots_total>\n"
        f"      <load_avg>{turn.uniform(10, 17):.5f}</load_avg>\n"
        "      <arch>lx-amd64</arch>\n"
        f"{jobs}    </Queue-List>\n"
    )


def _running_job(dice: random.Random, turn: random.Random, number: int) -> str:
    name = dice.choice(_NAMES)
    return (
        '      <job_list state="running">\n'
        f"        <JB_job_number>{number}</JB_job_number>\n"
        f"        <JAT_prio>{turn.uniform(0.2, 0.9):.5f}</JAT_prio>\n"
        f"        <JB_name>{name}</JB_name>\n"
        f"        <JB_owner>{dice.choice(_OWNERS)}</JB_owner>\n"
        "        <state>r</state>\n"
        f"        <JAT_start_time>{_time(dice)}</JAT_start_time>\n"
        "        <slots>1</slots>\n"
        f"        <full_job_name>{name}</full_job_name>\n"
        "        <hard_req_queue>main.q</hard_req_queue>\n"
        "        <binding>NONE</binding>\n"
        "      </job_list>\n"
    )


_LOAD = {
    "load_avg": "12.410000",
    "load_short": "11.970000",
    "load_medium": "12.410000",
    "load_long": "12.300000",
    "arch": "lx-amd64",
    "num_proc": "16.000000",
    "mem_free": "22.694G",
    "swap_free": "0.000",
    "virtual_free": "22.694G",
    "mem_total": "62.541G",
    "swap_total": "0.000",
    "virtual_total": "62.541G",
    "mem_used": "39.847G",
    "swap_used": "0.000",
    "virtual_used": "39.847G",
    "cpu": "97.300000",
    "m_topology": "SCCCCCCCC",
    "m_topology_inuse": "SCCCCCCCC",
    "m_socket": "1.000000",
    "m_core": "8.000000",
    "m_thread": "16.000000",
    "np_load_avg": "0.775625",
    "np_load_short": "0.748125",
    "np_load_medium": "0.775625",
    "np_load_long": "0.768750",
}
_COLUMNS = {"arch_string": "lx-amd64", "num_proc": "16", "load_avg": "12.41", "mem_total": "62.5G", "mem_used": "39.8G"}


_CHANGING = ("load_avg", "load_short", "mem_free", "virtual_free", "mem_used", "cpu", "np_load_avg", "np_load_short")


def _loads(turn: random.Random) -> dict[str, str]:
    """The load report of one host in this turn."""
    changed = {
        name: f"{turn.uniform(1, 40):.3f}{_LOAD[name][-1] if _LOAD[name][-1] == 'G' else ''}" for name in _CHANGING
    }
    return {**_LOAD, **changed}


def _qhost(turn: random.Random, hosts: list[str]) -> str:
    unknown = "".join(f"   <hostvalue name='{name}'>-</hostvalue>\n" for name in _COLUMNS)
    columns = "".join(f"   <hostvalue name='{name}'>{value}</hostvalue>\n" for name, value in _COLUMNS.items())
    values = {"qtype_string": "BIP", "slots_used": SLOTS, "slots": SLOTS, "slots_resv": 0, "state_string": ""}
    queue = "".join(f"   <queuevalue qname='main.q' name='{n}'>{v}</queuevalue>\n" for n, v in values.items())
    body = ""
    for host in hosts:
        loads = _loads(turn)
        load = "".join(f"   <resourcevalue name='{n}' dominance='hl'>{v}</resourcevalue>\n" for n, v in loads.items())
        body += f" <host name='{host}'>\n{columns}{load} <queue name='main.q'>\n{queue} </queue>\n </host>\n"
    return f"<?xml version='1.0'?>\n<qhost>\n <host name='global'>\n{unknown} </host>\n{body}</qhost>\n"


def _configuration(hosts: list[str]) -> dict[str, str]:
    """Two PEs, one queue over all hosts; complexes as shipped."""
    return {
        "sq_main.q": f"qname main.q\nhostlist @allhosts\npe_list local mpi\nrerun FALSE\nslots {SLOTS}\n",
        "sp_local": "pe_name local\nslots 99999\nallocation_rule $pe_slots\n",
        "sp_mpi": "pe_name mpi\nslots 99999\nallocation_rule $fill_up\n",
        "shgrp_@allhosts": f"group_name @allhosts\nhostlist {' '.join(hosts)}\n",
        "sel": "\n".join(hosts) + "\n",
        "ssconf": "schedule_interval 0:0:15\n",
    }
