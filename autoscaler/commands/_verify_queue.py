"""What is wrong with the settings of one queue, for `sge configure` and the start of its process: each with its help.

It asks the platform, and touches no lock, state or log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from autoscaler.commands._instance_types import offers_in_time, unknown_types
from autoscaler.commands.context import Invocation
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.errors import AutoscalerError, NotObservable, SettingsError
from autoscaler.providers.interface import Provider
from autoscaler.settings import Settings, master_type_problem
from autoscaler.settings.policies import node_array_policy
from autoscaler.settings.process_settings import Process
from autoscaler.settings.queue_settings import QueueSettings
from autoscaler.settings.rows import rows

_HELP: Mapping[str, str] = {
    env: model.model_fields[name].description or ""
    for model in (Process, QueueSettings)
    for env, name in rows(model).items()
}
_NAMES = re.compile(r"\bCP_CAP_[A-Z_]+[A-Z]\b")


class Unsure(NotObservable):
    """The platform did not answer, so that what it would say is not known."""


def problems(invocation: Invocation) -> tuple[str, ...]:
    """What a person must correct before this queue can be served. Raises Unsure; what was found until then is in it."""
    try:
        settings = invocation.settings
        provider = invocation.provider()
    except SettingsError as error:
        return tuple(with_help(str(error)))
    wrong = [problem for queue in settings.queues.values() if (problem := master_type_problem(queue))]
    if wrong:
        return tuple(line for problem in wrong for line in with_help(problem))
    try:
        return tuple(line for problem in _asked(settings, provider) for line in with_help(problem))
    except NotObservable as error:
        raise Unsure(f"the platform does not answer, so instance types are not checked: {error}") from error


def _asked(settings: Settings, provider: Provider) -> Iterator[str]:
    fatal = [problem for problem in provider.check() if problem.fatal]
    yield from (f"{problem.what}; {problem.remedy}" for problem in fatal)
    if fatal:
        return
    try:
        buckets = offers_in_time(provider)
    except NotObservable:
        raise
    except AutoscalerError as error:
        yield f"the platform does not list its instance types: {error}"
        return
    unknown = tuple(unknown_types(settings, buckets))
    yield from unknown
    if not unknown:
        for suffix, queue in settings.queues.items():
            yield from no_type_fits(node_array_policy(queue, suffix, settings.process), buckets)


def no_type_fits(array: NodeArrayPolicy, buckets: tuple[Bucket, ...]) -> Iterator[str]:
    """That no type of a hybrid queue has as few cores as its cap, with the smallest one."""
    family = array.family or next((b.type.family for b in buckets if b.type.name == array.instance_type), "")
    types = {bucket.type.vcpus: bucket.type.name for bucket in buckets if bucket.type.family == family}
    cap = array.max_cores_per_worker
    if array.hybrid and cap and types and min(types) > cap:
        yield (
            f"CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE = {cap}: no type of family {family} has so few cores; the "
            f"smallest is {types[min(types)]} with {min(types)}"
        )


def with_help(text: str) -> Iterator[str]:
    """Each line of an error, and under it the help of the settings that it names."""
    for line in text.splitlines():
        yield line.strip().removeprefix("- ")
        for name in dict.fromkeys(_NAMES.findall(line)):
            if _HELP.get(name):
                yield f"  {name}: {_HELP[name]}"
