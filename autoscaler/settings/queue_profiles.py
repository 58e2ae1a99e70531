"""One environment for a whole cell, made of those of the processes that Cloud Pipeline's launcher starts, one a queue.

Each process has the settings of its own queue without suffix, as its profile exports them, and the suffixed variables
of the run as well, which mean nothing there. The result has each queue under a suffix of its own, inherits nothing from
queue to queue, and is read like any other environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from autoscaler.settings.loading import CLOUD_PIPELINE, PROFILES_ENV, PROVIDER_ENV, is_secret
from autoscaler.settings.policies import array_name
from autoscaler.settings.process_settings import Process
from autoscaler.settings.queue_settings import QueueSettings
from autoscaler.settings.queues import AUTOSCALE, DISABLE_DEFAULT, DRY_RUN, as_launched
from autoscaler.settings.rows import rows

NAME, GROUP = "CP_CAP_SGE_QUEUE_NAME", "CP_CAP_SGE_HOSTLIST_NAME"
STATIC, DEFAULT = "CP_CAP_SGE_QUEUE_STATIC", "CP_CAP_SGE_QUEUE_DEFAULT"
WATCH_ONLY, VERBOSE, POLL = "CP_CAP_AUTOSCALE_WATCH_ONLY", "CP_CAP_AUTOSCALE_VERBOSE", "CP_CAP_AUTOSCALE_POLLING_DELAY"
COMMAND = "CP_CAP_AUTOSCALE_CMD_TEMPLATE"
TAKE_OVER = "CP_CAP_AUTOSCALE_CLOUD_PIPELINE_TAKE_OVER"
LEAST = tuple(f"CP_CAP_AUTOSCALE_{name}" for name in ("TOTAL_WORKERS", "TOTAL_CORES", "TOTAL_PRICE_PER_HOUR", "BUDGET"))
"""Limits of the whole cell: the least that any queue has holds."""
MAIN = "main.q"
_PREFIX = "CP_CAP_"
_SUFFIXED = re.compile(r"(?P<name>CP_CAP_(?:SGE|AUTOSCALE)(?:_\D+)*)_(?P<suffix>\d{1,9})")
"""As the launcher tells the variables of a suffixed queue."""
_SURE, _LIKELY, _OTHER = range(3)
LONGEST = 9
"""Digits of the number of a queue."""
_YES = ("true", "yes", "on", "1", "t", "y")
_NO = ("false", "no", "off", "0", "f", "n")
_OF_QUEUE, _OF_PROCESS = frozenset(rows(QueueSettings)), frozenset(rows(Process))
_OWN = frozenset((DRY_RUN, VERBOSE, POLL, AUTOSCALE, "CP_CAP_AUTOSCALE_DRY_INIT", DISABLE_DEFAULT))
"""Settings of a process for which each queue's own counts, in one way or another."""
_OF_LOG = frozenset(
    f"CP_CAP_AUTOSCALE_{name}"
    for name in ("LOGDIR", "TASK", "LOGGING_FORMAT", "LOGGING_LEVEL_RUN", "LOGGING_LEVEL_FILE", "LOGGING_LEVEL_CONSOLE")
)
"""Settings that each process uses for the log of its own queue."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings of one queue, as its process has them."""

    queue: str
    settings: Mapping[str, str]
    away: bool = False
    """Its process has ended and may come back, as while `sge configure` verifies. Meanwhile the queue is not served,
    and its settings of the whole cell still hold.
    """


def own_profile(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process without the suffixed variables of the run's other queues, and with the platform's
    defaults where they differ from ours.
    """
    own = {name: value for name, value in environ.items() if not _SUFFIXED.fullmatch(name)}
    chosen = {name: value for name, value in own.items() if value != ""}
    platform = {NAME: MAIN, STATIC: "false", DEFAULT: "false", AUTOSCALE: "false", PROVIDER_ENV: CLOUD_PIPELINE}
    return {**own, **{name: value for name, value in platform.items() if name not in chosen}, PROFILES_ENV: "true"}


def composed(environ: Mapping[str, str], profiles: Sequence[Profile], numbers: Mapping[str, str]) -> dict[str, str]:
    """The environment of the one that decides for the cell. `environ`: its own, for secrets and for what is no setting
    of a queue; `numbers`: the suffix of each queue.
    """
    first, present = _first(profiles, numbers), [each for each in profiles if not each.away]
    kept = {name: value for name, value in environ.items() if not name.startswith(_PREFIX) or is_secret(name)}
    result = kept | {name: text for name, text in first.settings.items() if _of_cell(name)}
    result |= {PROFILES_ENV: "true", PROVIDER_ENV: first.settings.get(PROVIDER_ENV, CLOUD_PIPELINE)}
    result |= {name: found[0] for name in LEAST if (found := _least(name, profiles))}
    result[AUTOSCALE] = "true"
    if all(numbers[each.queue] for each in present):
        result[DISABLE_DEFAULT] = "true"
    for profile in present:
        end = f"_{numbers[profile.queue]}" if numbers[profile.queue] else ""
        own = own_profile(profile.settings)
        result |= {f"{name}{end}": text for name, text in own.items() if name in _OF_QUEUE}
        result[f"{DRY_RUN}{end}"] = _unread(own.get(DRY_RUN)) or str(is_true(own.get(DRY_RUN))).lower()
        result[f"{AUTOSCALE}{end}"] = _unread(own[AUTOSCALE]) or "true"
        if not is_true(own[AUTOSCALE]):
            result[f"{WATCH_ONLY}{end}"] = "true"
        if end:
            # Without this, the provider would take that of the first queue.
            result.setdefault(f"{COMMAND}{end}", QueueSettings.model_fields["command_template"].default)
    if result[PROVIDER_ENV] == CLOUD_PIPELINE:
        result[TAKE_OVER] = ",".join(f"{each.queue}={array_name(numbers[each.queue])}" for each in present)
    if delays := [text for each in present if (text := each.settings.get(POLL))]:
        result[POLL] = min(delays, key=_number)
    loud = [each.settings.get(VERBOSE) for each in present]
    result[VERBOSE] = next(filter(None, map(_unread, loud)), str(any(map(is_true, loud))).lower())
    return result


def differing_profiles(profiles: Sequence[Profile], numbers: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """A queue and a sentence, for each setting of the whole cell of which that queue has not the value that holds."""
    first, away = _first(profiles, numbers), {each.queue for each in profiles if each.away}
    for name in sorted({name for profile in profiles for name in profile.settings}):
        if name not in _OF_PROCESS or not _of_cell(name) or name in _OF_LOG:
            continue
        there, queue = first.settings.get(name, ""), first.queue
        least = ""
        if name in LEAST and (found := _least(name, profiles)):
            (there, queue), least = found, ", the least of all"
        why = f"as queue {queue}{', whose process is away,' if queue in away else ''} has it{least}"
        for profile in profiles:
            here = profile.settings.get(name, "")
            if profile.queue != queue and here != there and profile.queue not in away:
                yield (
                    profile.queue,
                    f"{name} holds for the whole cell: {there or 'not set'}, {why}; "
                    f"queue {profile.queue} has {here or 'none'}",
                )


def numbered(profiles: Sequence[Profile], known: Mapping[str, str]) -> dict[str, str]:
    """The suffix of each queue, the same for as long as a run lives: as `known` has it, else as the run's own variables
    number it; '' for the launcher's first queue. Node arrays are named by it.
    """
    numbers = {queue: suffix for queue, suffix in known.items() if queue}
    for profile in sorted(profiles, key=lambda each: (_rank(each), each.queue)):
        if profile.queue in numbers:
            continue
        suffix = _in_run(profile)
        if suffix is None or len(suffix) > LONGEST:  # `sge create` numbers by the time
            rank = _rank(profile)
            plain = rank == _SURE or (rank == _LIKELY and "" not in numbers.values())
            suffix = "" if plain else str(1000 + crc32(profile.queue.encode()) % 9_000_000)
        while suffix in numbers.values():
            suffix = str(int(suffix or 1000) + 1)
        numbers[profile.queue] = suffix
    return numbers


def _rank(profile: Profile) -> int:
    """How surely this is the launcher's first queue. Its name and that of its host group may be those that the run
    gives it; what the launcher then still adds to this profile alone is that it is static and the default. Each further
    queue has the host group of its name.
    """
    group = profile.settings.get(GROUP, "")
    if profile.queue == MAIN or group == "@allhosts":
        return _SURE
    if _in_run(profile) is not None:
        return _OTHER
    added = all(is_true(profile.settings.get(name)) for name in (STATIC, DEFAULT))
    return _LIKELY if added or (group and group != f"@{profile.queue}") else _OTHER


def _first(profiles: Sequence[Profile], numbers: Mapping[str, str]) -> Profile:
    """The launcher's first queue, or what is nearest to it: settings of the whole cell are those of this one. Without
    one it is that of the lowest suffix, as the run has them; those of `sge create` come last.
    """
    return min(
        profiles,
        key=lambda each: (numbers[each.queue] != "", _rank(each), int(numbers[each.queue] or 0), each.queue),
    )


def first_queue(profiles: Sequence[Profile], numbers: Mapping[str, str]) -> tuple[str, bool]:
    """The queue whose settings of the whole cell hold; and whether it is the launcher's first."""
    first = _first(profiles, numbers).queue
    return first, not numbers[first]


def _least(name: str, profiles: Sequence[Profile]) -> tuple[str, str] | None:
    """The least value of a limit of the whole cell, and the queue that has it; None if no queue has one. What is no
    number comes first: it is refused then.
    """
    texts = [(text, each.queue) for each in profiles if (text := each.settings.get(name, "").strip())]
    return min(texts, key=lambda each: _number(each[0], none=float("-inf")), default=None)


def _in_run(profile: Profile) -> str | None:
    """The suffix under which the run's own variables have this queue."""
    sections: dict[str, dict[str, str]] = {}
    for name, text in profile.settings.items():
        match = _SUFFIXED.fullmatch(name)
        if match and text and int(match["suffix"]):
            sections.setdefault(str(int(match["suffix"])), {})[match["name"]] = text
    for suffix, added in as_launched(sections, profile.settings.get("instance_size", "")).items():
        if (added[NAME][0] if NAME in added else sections[suffix].get(NAME)) == profile.queue:
            return suffix
    return None


def _of_cell(name: str) -> bool:
    """Whether it is no setting of a queue, and not one for which each queue's own counts."""
    return name not in _OF_QUEUE and name not in _OWN and _SUFFIXED.fullmatch(name) is None


def is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() in _YES


def _unread(text: str | None) -> str:
    """A value that is neither yes nor no: it is left as it is, so that whoever reads the settings refuses it."""
    return text if text and text.strip() and text.strip().lower() not in (*_YES, *_NO) else ""


def _number(text: str, none: float = float("inf")) -> float:
    """`none`: for what is no number."""
    try:
        return float(text)
    except ValueError:
        return none
