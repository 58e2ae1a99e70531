"""The queues that are served: switches for a queue and its dry run, and the meaning of further queues on Cloud
Pipeline.

There a suffixed queue is scaled only if `CP_CAP_AUTOSCALE_n` is true, inherits every setting that it does not set from
the queue without a suffix, is named after its instance type by default, and has the host group `@QUEUE`.

It also warns of limits that several queues multiply, and of limits that contradict each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from pydantic import TypeAdapter, ValidationError

from autoscaler.settings.process_settings import Process
from autoscaler.settings.queue_settings import QueueSettings

AUTOSCALE, DRY_RUN = "CP_CAP_AUTOSCALE", "CP_CAP_AUTOSCALE_DRY_RUN"
DISABLE_DEFAULT = "CP_CAP_SGE_DISABLE_DEFAULT_QUEUE"
_NAME, _GROUP = "CP_CAP_SGE_QUEUE_NAME", "CP_CAP_SGE_HOSTLIST_NAME"
_TYPE, _HYBRID, _FAMILY = (f"CP_CAP_AUTOSCALE_{each}" for each in ("INSTANCE_TYPE", "HYBRID", "HYBRID_FAMILY"))
_SWITCH = re.compile(rf"(?P<name>{AUTOSCALE}|{DRY_RUN})_(?P<suffix>[1-9]\d{{0,8}})")
_BOOLEAN = TypeAdapter(bool)

Sections = dict[str, dict[str, str]]
"""By suffix ('' for the first queue), environment name without suffix → text."""


def is_switch(name: str) -> bool:
    """Whether it switches one queue on, or its dry run."""
    return _SWITCH.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Served:
    """The result for all queues that have a setting."""

    suffixes: tuple[str, ...]
    """The suffixes of served queues; if none is served, of all, and nothing is scaled."""
    scales: bool
    dry_run: bool
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass
class Switches:
    """Suffixed switches of single queues; without a suffix these settings apply to the whole process."""

    on: dict[str, bool] = field(default_factory=dict)
    dry: dict[str, bool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def take(self, key: str, text: str) -> bool:
        """Store a switch; return whether this key is one."""
        match = _SWITCH.fullmatch(key)
        if match is None:
            return False
        value = _boolean(key, text, self.problems)
        if value is not None:
            (self.on if match["name"] == AUTOSCALE else self.dry)[match["suffix"]] = value
        return True


def served(process: Mapping[str, str], sections: Sections, switches: Switches, *, cloud_pipeline: bool) -> Served:
    """The served queues, by the settings of the process and of each queue. Does not change `sections`."""
    problems, notes = list(switches.problems), []
    enabled, dry = (_boolean(env, process[env], problems) if env in process else None for env in (AUTOSCALE, DRY_RUN))
    disabled = _boolean(DISABLE_DEFAULT, process[DISABLE_DEFAULT], problems) if DISABLE_DEFAULT in process else False
    further = [suffix for suffix in _by_number(sections) if suffix]
    on = [suffix for suffix in further if switches.on.get(suffix, enabled is not False and not cloud_pipeline)]
    if disabled and not further:
        problems.append(f"{DISABLE_DEFAULT} leaves no queue to serve: set {_NAME}_1 to the name of a further queue")
    # As with the launcher: if single queues are switched on, the first one must be switched on as well.
    default_on = not (cloud_pipeline and any(switches.on.values()))
    if not disabled and (default_on if enabled is None else enabled):
        on.insert(0, "")
    if cloud_pipeline:
        notes += [
            f"the autoscaler does not scale queue {_named(suffix, sections)}: {AUTOSCALE}_{suffix} is not true"
            for suffix in further
            if suffix not in on
        ]
    live = [suffix for suffix in on if not switches.dry.get(suffix, bool(dry))]
    left_out = [suffix for suffix in on if suffix not in live] if live else []
    notes += [
        f"queue {_named(suffix, sections)} has a dry run ({DRY_RUN}{'_' if suffix else ''}{suffix}) and others have "
        "none: the autoscaler leaves it out, and launches and terminates nothing for it"
        for suffix in left_out
    ]
    return Served(
        suffixes=tuple(live or on or [suffix for suffix in _by_number(sections) if not suffix or sections[suffix]]),
        scales=bool(on),
        dry_run=not live if on else bool(dry),
        notes=tuple(notes),
        problems=tuple(problems),
    )


def as_launched(sections: Sections, instance_size: str) -> dict[str, dict[str, tuple[str, str]]]:
    """The settings that Cloud Pipeline's launcher adds to further queues: by suffix and name, the value and its source.

    `instance_size`: the master's instance type. Queues that would have the same name are numbered.
    """
    further = [suffix for suffix in _by_number(sections) if suffix]
    common = {env: text for env, text in sections.get("", {}).items() if env not in (_NAME, _GROUP)}
    names = [sections[suffix].get(_NAME) or _derived(sections[suffix], instance_size) for suffix in further]
    added: dict[str, dict[str, tuple[str, str]]] = {}
    for suffix, name in zip(further, _numbered(names), strict=True):
        own = sections[suffix]
        more = {env: (text, f"inherited ({env})") for env, text in common.items() if env not in own}
        if name and own.get(_NAME) != name:
            more[_NAME] = (name, "derived")
        if name and own.get(_GROUP) != f"@{name}":
            more[_GROUP] = (f"@{name}", "derived")
        added[suffix] = more
    return added


def _derived(own: Mapping[str, str], instance_size: str) -> str:
    """The name of a queue that has none; '' if there is no instance type."""
    if _TYPE in own:
        return f"{own[_TYPE]}.q"
    family = own.get(_FAMILY, instance_size) if _HYBRID in own else ""
    family = "-".join(re.findall(r"[\w.]+", family))  # several are a list, with wildcards
    return f"{family}.family.q" if family else f"{instance_size}.q" if instance_size else ""


def _numbered(names: Sequence[str]) -> list[str]:
    """`a.q`, `a.q` → `a.1.q`, `a.2.q`: all of that name, the first too."""
    several = {name: count(1) for name, times in Counter(names).items() if name and times > 1}
    numbered = (f"{name.removesuffix('.q')}.{next(several[name])}.q" if name in several else name for name in names)
    return list(numbered)


def _named(suffix: str, sections: Sections) -> str:
    return sections[suffix].get(_NAME) or ("main.q" if not suffix else f"_{suffix}")


def _by_number(sections: Sections) -> list[str]:
    return sorted(sections, key=lambda suffix: int(suffix or 0))


def _boolean(env: str, text: str, problems: list[str]) -> bool | None:
    try:
        return _BOOLEAN.validate_python(text)
    except ValidationError:
        problems.append(f"{env} = {text!r}: write true or false")
        return None


_Read = Callable[[QueueSettings], float | None]
_CAPS: tuple[tuple[str, str, str, _Read], ...] = (
    ("CP_CAP_AUTOSCALE_WORKERS", "workers", "CP_CAP_AUTOSCALE_TOTAL_WORKERS", lambda queue: queue.workers),
    ("CP_CAP_AUTOSCALE_MAX_CORES", "cores", "CP_CAP_AUTOSCALE_TOTAL_CORES", lambda queue: queue.max_cores),
    (
        "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR",
        "an hour",
        "CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR",
        lambda queue: queue.max_price_per_hour,
    ),
)


def multiplied(process: Process, queues: Mapping[str, QueueSettings]) -> Iterator[str]:
    """A warning for each limit that applies to every queue separately, with the sum, unless a cell's limit is lower."""
    totals = (process.total_workers, process.total_cores, process.total_price_per_hour)
    for (env, unit, total_env, read), total in zip(_CAPS, totals, strict=True):
        each = {queue.queue: read(queue) for queue in queues.values()}
        set_ = [cap for cap in each.values() if cap is not None]
        if len(queues) < 2 or not set_:
            continue
        free = [name for name, cap in each.items() if cap is None]
        if total is not None and (free or total < sum(set_)):
            continue
        parts = ", ".join(f"{name} {cap:g}" for name, cap in each.items() if cap is not None)
        if unit == "an hour":
            unit = f"{process.currency} an hour" if process.currency else "an hour in the currency of your prices"
        whole = f"together {sum(set_):g} {unit}" if not free else f"{', '.join(free)} without a limit"
        yield f"{env} applies to each queue separately: {parts}; {whole}. {total_env} limits the whole cell"


def contradictory(process: Process, queues: Mapping[str, QueueSettings]) -> Iterator[str]:
    """An error if the queues' minimum exceeds the limit of the whole cell."""
    floors = sum(queue.min_workers for queue in queues.values())
    if process.total_workers is not None and floors > process.total_workers:
        yield (
            f"CP_CAP_AUTOSCALE_MIN_WORKERS of all queues together ({floors}) "
            f"is above CP_CAP_AUTOSCALE_TOTAL_WORKERS ({process.total_workers})"
        )
