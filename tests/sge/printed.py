"""Grid Engine's outputs as tests write them down: what a test does not name is as a healthy small cluster prints it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NAMESPACE = "http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd"


def waiting_job(
    number: object = 7,
    *,
    prio: str = "0.55500",
    name: str = "job",
    owner: str = "ann",
    state: str = "qw",
    time: str = "<JB_submission_time>2026-11-21T09:04:23</JB_submission_time>",
    slots: object = 1,
    tasks: str = "",
    more: str = "",
    attributes: str = ' state="pending"',
) -> str:
    """One waiting `job_list`; `more` stands where requests stand."""
    listed = f"      <tasks>{tasks}</tasks>\n" if tasks else ""
    return (
        f"    <job_list{attributes}>\n"
        f"      <JB_job_number>{number}</JB_job_number>\n"
        f"      <JAT_prio>{prio}</JAT_prio>\n"
        f"      <JB_name>{name}</JB_name>\n"
        f"      <JB_owner>{owner}</JB_owner>\n"
        f"      <state>{state}</state>\n"
        f"      {time}\n"
        f"      <slots>{slots}</slots>\n{listed}"
        f"      <full_job_name>{name}</full_job_name>\n      {more}\n"
        "      <binding>NONE</binding>\n"
        "    </job_list>\n"
    )


def running_job(
    number: object = 3, *, owner: str = "ann", state: str = "r", slots: object = 1, tasks: str = "", more: str = ""
) -> str:
    """One `job_list` of a queue instance."""
    return waiting_job(
        number,
        owner=owner,
        state=state,
        slots=slots,
        tasks=tasks,
        more=more,
        time="<JAT_start_time>2026-11-21T09:00:00</JAT_start_time>",
        attributes=' state="running"',
    )


def queue_list(
    name: str = "main.q@w1", *jobs: str, used: object = 0, reserved: object = 0, total: object = 4, state: str = ""
) -> str:
    """One Queue-List."""
    states = f"<state>{state}</state>\n" if state else ""
    return (
        f"    <Queue-List>\n      <name>{name}</name>\n      <qtype>BIP</qtype>\n"
        f"      <slots_used>{used}</slots_used>\n      <slots_resv>{reserved}</slots_resv>\n"
        f"      <slots_total>{total}</slots_total>\n      <load_avg>0.01000</load_avg>\n"
        f"      <arch>lx-amd64</arch>\n{states}{''.join(jobs)}    </Queue-List>\n"
    )


def qstat(waiting: Iterable[str] = (), queues: Iterable[str] = (), *, namespace: str = NAMESPACE) -> bytes:
    """A whole `qstat -f -r -xml`."""
    sections = f"  <queue_info>\n{''.join(queues)}  </queue_info>\n  <job_info>\n{''.join(waiting)}  </job_info>\n"
    return f"<?xml version='1.0'?>\n<job_info  xmlns:xsd=\"{namespace}\">\n{sections}</job_info>\n".encode()


def host(
    name: str = "w1",
    *queues: str,
    load: Mapping[str, str] | None = None,
    column: str = "0.01",
    more: str = "",
) -> str:
    """One host of qhost; `column` is its load as the plain listing shows it, `-` for a silent host."""
    values = {"load_avg": "0.010000", "arch": "lx-amd64"} if load is None else load
    resources = "".join(f"   <resourcevalue name='{n}' dominance='hl'>{v}</resourcevalue>\n" for n, v in values.items())
    return (
        f" <host name='{name}'>\n   <hostvalue name='load_avg'>{column}</hostvalue>\n"
        f"{resources}{more}{''.join(queues)} </host>\n"
    )


def queue_of_host(name: str = "main.q", *, used: int = 0, reserved: int = 0, total: int = 4, state: str = "") -> str:
    """A queue instance as qhost shows it."""
    values = {"qtype_string": "BIP", "slots_used": used, "slots": total, "slots_resv": reserved, "state_string": state}
    lines = "".join(f"   <queuevalue qname='{name}' name='{n}'>{v}</queuevalue>\n" for n, v in values.items())
    return f" <queue name='{name}'>\n{lines} </queue>\n"


def qhost(*hosts: str) -> bytes:
    """A whole `qhost -q -F -xml`."""
    unknown = host("global", load={}, column="-")
    return f"<?xml version='1.0'?>\n<qhost xmlns:xsd=\"qhost.xsd\">\n{unknown}{''.join(hosts)}</qhost>\n".encode()
