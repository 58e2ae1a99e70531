"""A cluster without what most readers of it do not look at, so that it is the same from one pass to the next although
loads or jobs have changed.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType

from autoscaler.core.model.cluster import Cluster, ExecutionHost
from autoscaler.core.readable.remembered import PerObject

_NAME = attrgetter("name")
_WITHOUT_LOADS = PerObject[ExecutionHost, ExecutionHost]()
_WITHOUT_JOBS = PerObject[ExecutionHost, ExecutionHost]()


def without_loads(cluster: Cluster) -> Cluster:
    """Its hosts have only their jobs and their access."""
    hosts = _WITHOUT_LOADS.each(cluster.hosts, map(_NAME, cluster.hosts), _without_load)
    return replace(cluster, hosts=hosts, set_aside=())


def without_jobs(cluster: Cluster) -> Cluster:
    """The configuration alone: its hosts have only their access, and nothing waits."""
    hosts = _WITHOUT_JOBS.each(cluster.hosts, map(_NAME, cluster.hosts), _without_job)
    return replace(cluster, hosts=hosts, job_categories=(), details=MappingProxyType({}), set_aside=())


def _without_load(host: ExecutionHost) -> ExecutionHost:
    return ExecutionHost(host.name, host.instances, access=host.access)


def _without_job(host: ExecutionHost) -> ExecutionHost:
    return ExecutionHost(host.name, (), access=host.access)
