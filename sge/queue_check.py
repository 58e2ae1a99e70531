"""Whether workers of the autoscaled queues would start the waiting jobs: reported by `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from autoscaler.core.model.cluster import BATCH, Queue
from autoscaler.core.placement.queue_instances import queue_at
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.sge.checks import Finding, Level
from autoscaler.sge.qconf import containing_groups, read_host_group, read_names, read_queue

WHAT = "queue types"
_REMEDY = "`qconf -mattr queue qtype BATCH QUEUE` and `qconf -aattr queue ckpt_list NAME QUEUE`; see queue_conf(5)"


def queue_finding(texts: Mapping[str, str], arrays: Sequence[NodeArrayPolicy]) -> Finding:
    """The finding. `texts`: the configuration by file stem."""
    queues = list(_on_workers(texts, arrays))
    odd = [queue for queue in queues if BATCH not in queue.qtype]
    problems = [
        f"{queue.name} starts {_instead(queue)} on workers (qtype {' '.join(queue.qtype) or 'NONE'})" for queue in odd
    ]
    listed = {name for queue in queues for name in queue.ckpt_list}
    nowhere = [name for name in read_names(texts.get("sckptl", "")) if name not in listed]
    if nowhere and queues:
        problems.append(f"no autoscaled queue has {', '.join(nowhere)} in its ckpt_list: such jobs get no worker")
    nothing = [queue for queue in odd if not queue.pe_list and not queue.ckpt_list]
    if problems:
        return Finding(WHAT, Level.FAIL if nothing else Level.WARN, "; ".join(dict.fromkeys(problems)), _REMEDY)
    return Finding(WHAT, Level.OK, "the queues that are autoscaled start batch jobs")


def _on_workers(texts: Mapping[str, str], arrays: Sequence[NodeArrayPolicy]) -> Iterator[Queue]:
    """The queues of these node arrays on their workers; one that cannot be read is reported elsewhere."""
    groups: dict[str, tuple[str, ...]] = {}
    for stem, text in texts.items():
        with suppress(ValueError, KeyError):
            groups |= [read_host_group(text)] if stem.startswith("shgrp_") else []
    above = containing_groups(groups)
    for array in arrays:
        with suppress(ValueError, KeyError):
            yield queue_at(read_queue(texts[f"sq_{array.queue}"]), (array.host_group, *above.get(array.host_group, ())))


def _instead(queue: Queue) -> str:
    kinds = [*(("parallel jobs",) if queue.pe_list else ()), *(("checkpointing jobs",) if queue.ckpt_list else ())]
    return f"only {' and '.join(kinds)}" if kinds else "no job that waits"
