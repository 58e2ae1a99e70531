"""Request workers of node arrays. An update replaces all earlier requests of its set, and lapses unless it is repeated.

The service at `CP_CAP_AUTOSCALE_URL` or at the socket `CP_CAP_AUTOSCALE_SOCKET` is asked; if neither is set, the one
that listens on this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autoscaler.jetpack.service import AutoscaleError, Rejected, Service, Unreachable

__all__ = ["AutoscaleError", "Rejected", "Unreachable", "scale_by_jobs", "set", "update"]

STANDARD = "standard"
FIVE_MINUTES = 300


def set(  # noqa: A001 - the name is CycleCloud's
    name: str,
    corecount: int | None = None,
    count: int | None = None,
    request_set: str = STANDARD,
    expiration_interval: float = FIVE_MINUTES,
) -> dict[str, Any]:
    """Request a number of vCPUs, or of workers, of one node array; returns and raises as `update` does.

    One of the two is required: without it, a slip would end all requests of the set.
    """
    if corecount is None and count is None:
        raise Rejected(f"{name}: give corecount or count; 0 ends the request")
    given = {"Name": name, "TargetCoreCount": corecount, "TargetCount": count}
    array = {key: value for key, value in given.items() if value is not None}
    return update([array], request_set=request_set, expiration_interval=expiration_interval)


def update(
    arrays: Iterable[Mapping[str, Any]],
    request_set: str = STANDARD,
    expiration_interval: float = FIVE_MINUTES,
) -> dict[str, Any]:
    """Request exactly these node arrays for a time: the set's requests for arrays that are no longer named end.

    Returns what was kept: `request_set`, `expires_at` (Unix seconds), `arrays` (names), `note` ('' unless nobody acts
    on it now). Raises Rejected, whose message begins with the place of the error (`[1].TargetCount: …`), and
    Unreachable if no service answers; nothing was changed then, unless the answer was lost: asking again is safe.
    """
    # The service refuses anything but a list, and says what to write.
    given: Any = arrays
    several = isinstance(given, Iterable) and not isinstance(given, Mapping | str | bytes)
    wanted = list(given) if several else given
    document = {"arrays": wanted, "request_set": request_set, "expiration_interval": expiration_interval}
    return Service.find().call("POST", "/autoscale", document)


def scale_by_jobs(
    jobs: Iterable[Mapping[str, Any]],
    array_definitions: Iterable[Mapping[str, Any]] = (),
    *,
    request_set: str = STANDARD,
    expiration_interval: float = FIVE_MINUTES,
) -> dict[str, Any]:
    """Request workers for these jobs: vCPUs (`request_cpus`, 1) of each job's `nodearray` (`execute`) added up; for
    jobs that are `grouped`, one group of that many vCPUs each. `array_definitions`: further attributes, by `Name`.
    """
    cores: dict[str, int] = {}
    groups: dict[tuple[str, int], int] = {}
    for job in jobs:
        name, cpus = job.get("nodearray") or "execute", int(job.get("request_cpus") or 1)
        if job.get("grouped"):
            groups[name, cpus] = groups.get((name, cpus), 0) + 1
        else:
            cores[name] = cores.get(name, 0) + cpus
    defined = {array["Name"]: dict(array) for array in array_definitions}
    arrays = [{**defined.get(name, {}), "Name": name, "TargetCoreCount": count} for name, count in cores.items()]
    arrays += [
        {**defined.get(name, {}), "Name": name, "TargetGroupCount": count, "GroupCoreCount": size}
        for (name, size), count in groups.items()
    ]
    return update(arrays, request_set=request_set, expiration_interval=expiration_interval)
