"""What a simulated Grid Engine prints of its jobs and hosts, in the texts of 8.1.9."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.sge.printed import host, qhost, qstat, queue_list, queue_of_host, running_job, waiting_job
from tests.soak.jobs import MAIN, OTHER, OTHER_SLOTS, PES, Instance, Job, Run

if TYPE_CHECKING:
    from tests.soak.cell import Cell

TRANSFER = 2.0
"""Seconds that a job is shown as being started, at least."""


def listing(cell: Cell, owners: str = "*", *, requests: bool = True) -> str:
    """`qstat -u OWNERS -s a -r -f -xml`; without `requests` no `-r`."""
    listed = [job for job in cell.jobs if owners == "*" or job.owner in owners.split(",")]
    shown = _whole if requests else _brief
    queues = [
        queue_list(
            f"{at[0]}@{at[1]}",
            *(shown(_running(cell, job, run, run.on[at])) for job in listed for run in job.runs if at in run.on),
            used=_used(cell, at),
            reserved=int(at[0] == MAIN and at[1] in cell.reserved),
            total=cell.total(at),
            state=_states(cell, at),
        )
        for at in sorted(cell.instances_now)
    ]
    return qstat([shown(_waiting(cell, job)) for job in listed if job.waiting], queues).decode()


def _whole(element: str) -> str:
    return element


def _brief(element: str) -> str:
    """A job's element as it is printed without `-r`."""
    return element.partition("      <full_job_name>")[0] + "    </job_list>\n"


def hosts(cell: Cell) -> str:
    """`qhost -q -F -xml`."""
    return qhost(*(_host(cell, name) for name in cell.hosts)).decode()


def details(cell: Cell, numbers: set[int]) -> str:
    """`qstat -j NUMBERS -xml`."""
    elements = "".join(
        f"<element><JB_job_number>{job.number}</JB_job_number>"
        f"<JB_execution_time>{int(job.start_after or 0)}</JB_execution_time>"
        f"<JB_restart>{ {None: 0, True: 1, False: 2}[job.rerun] }</JB_restart>"
        f"<JB_ja_task_concurrency>{job.concurrency or 0}</JB_ja_task_concurrency></element>"
        for job in cell.jobs
        if job.number in numbers
    )
    return f"<?xml version='1.0'?>\n<detailed_job_info><djob_info>{elements}</djob_info></detailed_job_info>\n"


def queues(cell: Cell) -> dict[str, str]:
    """`qconf -sq NAME`, `*` included."""
    own = ",".join(["0", *(f"[{name}={slots}]" for name, slots in cell.slots.items())])
    lists = {MAIN: " ".join((cell.group, *cell.attached)), OTHER: cell.group}
    pes = " ".join(PES) if cell.groups is None else cell.groups.pe_list()
    main = f"qname {MAIN}\nhostlist {lists[MAIN]}\nslots {own}\npe_list {pes}\nrerun FALSE\n"
    other = f"qname {OTHER}\nhostlist {lists[OTHER]}\nslots {OTHER_SLOTS}\npe_list NONE\nrerun FALSE\n"
    return {MAIN: main, OTHER: other, "*": f"{main}\n{other}"}


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _states(cell: Cell, at: Instance) -> str:
    orphaned = "" if at[1] in cell.members or at[1] in cell.attached else "o"
    disabled = "d" if at in cell.off else ""
    return disabled + ("" if cell.reports(at[1]) else "u") + ("E" if at in cell.broken else "") + orphaned


def _used(cell: Cell, at: Instance) -> int:
    return sum(run.on.get(at, 0) for _, run in cell.runs)


def _running(cell: Cell, job: Job, run: Run, slots: int) -> str:
    state = "dr" if run.leaves_at is not None else "s" if run.suspended else "r"
    on_its_way = cell.now() - run.began < TRANSFER or not run.hosts <= run.delivered.keys()
    state = "t" if state == "r" and on_its_way else state
    state = "h" + state if job.held_by_operator else state
    shown = running_job(
        job.number, owner=job.owner, state=state, slots=slots, tasks=str(run.task or ""), more=_requests(job)
    )
    return shown.replace("2026-11-21T09:00:00", _at(run.began))


def _waiting(cell: Cell, job: Job) -> str:
    depends = job.waits_for in {other.number for other in cell.jobs}
    unable = job.held or job.held_by_operator or depends
    unseen = cell.now() - job.submitted < TRANSFER or (job.start_after or 0) > cell.now()
    waits = f"<predecessor_jobs>{job.waits_for}</predecessor_jobs>" if depends else ""
    return waiting_job(
        job.number,
        owner=job.owner,
        prio="0.00000" if unable or unseen else "0.55500",
        state="Eqw" if job.failed else "hqw" if unable else "qw",
        time=f"<JB_submission_time>{_at(job.submitted)}</JB_submission_time>",
        slots=job.slots,
        tasks=_task_list(job.waiting) if job.array else "",
        more=_requests(job) + waits,
    )


def _host(cell: Cell, name: str) -> str:
    instances = [
        queue_of_host(
            at[0],
            used=_used(cell, at),
            reserved=int(at[0] == MAIN and name in cell.reserved),
            total=cell.total(at),
            state=_states(cell, at),
        )
        for at in cell.instances_of(name)
    ]
    slots, memory = cell.values(name)
    used = [(job, run.on[at]) for job, run in cell.runs for at in run.on if at[1] == name]
    left = memory - sum(job.memory * count for job, count in used)
    free = slots - sum(count for _, count in used)
    more = (
        f"   <resourcevalue name='h_vmem' dominance='hc'>{left:.3f}G</resourcevalue>\n"
        f"   <resourcevalue name='slots' dominance='hc'>{free:.6f}</resourcevalue>\n"
    )
    for pair in cell.hosts[name].split(","):
        if pair.startswith("group_id="):
            group = pair.partition("=")[2]
            more += f"   <resourcevalue name='group_id' dominance='hf'>{group}</resourcevalue>\n"
    if cell.reports(name):
        return host(name, *instances, more=more)
    return host(name, *instances, load={}, column="-", more=more)


def _requests(job: Job) -> str:
    lines = []
    if job.memory:
        lines.append(f'<hard_request name="h_vmem" resource_contribution="0.000000">{job.memory}G</hard_request>')
    if job.foreign_host is not None:
        lines.append(f'<hard_request name="hostname" resource_contribution="0.0">{job.foreign_host}</hard_request>')
    if job.pe is not None:
        lines.append(f'<requested_pe name="{job.pe}">{job.slots}</requested_pe>')
    if job.queue is not None:
        lines.append(f"<hard_req_queue>{job.queue}</hard_req_queue>")
    return "".join(lines)


def _task_list(tasks: list[int]) -> str:
    whole = len(tasks) > 1 and tasks[-1] - tasks[0] == len(tasks) - 1
    return f"{tasks[0]}-{tasks[-1]}:1" if whole else ",".join(map(str, tasks))
