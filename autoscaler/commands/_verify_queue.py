"""What is wrong with the settings of one queue, for `sge configure` and the start of its process: each with its help.

It asks the platform, and touches no lock, state or log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from autoscaler.commands._instance_types import no_type_fits, offers_in_time, unknown_types
from autoscaler.commands.context import Invocation
from autoscaler.errors import AutoscalerError, NotObservable, SettingsError
from autoscaler.providers.interface import Provider
from autoscaler.providers.registry import load, none_chosen, settings_of
from autoscaler.providers.settings import main_names
from autoscaler.report.log import queue_log_problems
from autoscaler.settings import Settings, master_type_problem
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
    except SettingsError as error:
        return tuple(with_help(str(error)))
    try:
        provider = provider_of(invocation)
    except SettingsError as error:
        return tuple(with_help(str(error), _help_of(settings.process.provider)))
    wrong = [problem for queue in settings.queues.values() if (problem := master_type_problem(queue))]
    for queue in settings.queues.values():
        wrong += queue_log_problems(settings.process, invocation.environ, queue.queue)
    if wrong:
        return tuple(line for problem in wrong for line in with_help(problem))
    try:
        return tuple(line for problem in _asked(settings, provider) for line in with_help(problem))
    except NotObservable as error:
        raise Unsure(f"the platform does not answer, so instance types are not checked: {error}") from error


def provider_of(invocation: Invocation) -> Provider:
    """The provider, to ask and to write logs. It launches nothing, so it needs no cell and no tag of one. Raises
    SettingsError.
    """
    settings = invocation.settings
    if settings.process.provider is None:
        raise none_chosen()
    return load(settings.process.provider, settings.for_provider(invocation.environ), "")


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
    yield from unknown_types(settings, buckets)
    yield from no_type_fits(settings, buckets)


def _help_of(provider: str | None) -> Mapping[str, str]:
    """The help of a provider's own settings, under the names that its errors show."""
    try:
        model = settings_of(provider or "")
    except SettingsError:
        return {}
    return {env: model.model_fields[field].description or "" for env, field in main_names(model).items()}


def with_help(text: str, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Each line of an error, and under it the help of the settings that it names; `more`: of further ones, with which a
    line begins.
    """
    for line in text.splitlines():
        plain = line.strip().removeprefix("- ")
        yield plain
        begin = re.split(r"[ :=]", plain, maxsplit=1)[0]
        for name in dict.fromkeys((*((begin,) if begin in more else ()), *_NAMES.findall(line))):
            if said := more.get(name) or _HELP.get(name):
                yield f"  {name}: {said}"
