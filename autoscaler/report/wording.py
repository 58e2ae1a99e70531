"""The sentence of a reason: the template of its row filled with its facts, then the sentences of its trail.

`{fact}` is replaced by the fact; durations (`…_s`), times (`…_at`) and lists are formatted for people. A part in square
brackets is left out if one of its facts is missing or unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from autoscaler.core.model.reasons import Fact, Reason
from autoscaler.core.policy import PROFILE_OF
from autoscaler.plain_text import plain
from autoscaler.report.reasons.table import REASONS

NAMED = 3
"""At most this many names or causes stand in one part of a line."""
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "max_workers": "CP_CAP_AUTOSCALE_WORKERS",
        "autoscale": "CP_CAP_AUTOSCALE",
        "watch_only": "CP_CAP_AUTOSCALE_WATCH_ONLY",
        "max_cores": "CP_CAP_AUTOSCALE_MAX_CORES",
        "max_price_per_hour": "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR",
        "total_workers": "CP_CAP_AUTOSCALE_TOTAL_WORKERS",
        "total_cores": "CP_CAP_AUTOSCALE_TOTAL_CORES",
        "total_price_per_hour": "CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR",
        "max_cores_per_worker": "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE",
        "instance_type": "CP_CAP_AUTOSCALE_INSTANCE_TYPE",
        "family": "CP_CAP_AUTOSCALE_HYBRID_FAMILY",
    }
)
"""The setting behind each field of the policy."""

_OPTIONAL = re.compile(r"\[([^\]]*)\]")
_FACT = re.compile(r"\{(\w+)\}")
_ONE = re.compile(r"(?<![\w.,:=-])1 (core|group|host|job|slot|task|vCPU|worker)s\b")


def text(reason: Reason) -> str:
    """The sentence of a reason and, after semicolons, those of its trail."""
    sentence = filled(REASONS[reason.code].sentence, dict(reason.facts))
    return "; ".join((sentence, *(text(link) for link in reason.trail)))


def few(names: Sequence[str]) -> str:
    """`a, b, c and 9 more`: names for one line."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def filled(template: str, facts: Mapping[str, Fact]) -> str:
    """A template with its facts; `1 slots` becomes `1 slot`."""
    words = _OPTIONAL.sub(lambda found: _optional(found[1], facts), template)
    jobs = facts.get("jobs")
    if isinstance(jobs, tuple) and len(jobs) == 1:
        words = words.replace("jobs {jobs}", "job {jobs}")
    return _ONE.sub(r"1 \1", _FACT.sub(lambda found: shown(found[1], facts.get(found[1])), words))


def facts_of(template: str) -> tuple[frozenset[str], frozenset[str]]:
    """The required and the optional facts of a template."""
    optional = frozenset(name for part in _OPTIONAL.findall(template) for name in _FACT.findall(part))
    return frozenset(_FACT.findall(_OPTIONAL.sub("", template))), optional


def shown(name: str, value: Fact) -> str:
    """A fact for people. Control characters in names are escaped, so that they cannot end the line."""
    if value is None:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_setting") and isinstance(value, tuple):
        return _setting(*value)
    if isinstance(value, tuple):
        return plain(", ".join(value)) if value else "none"
    if isinstance(value, str):
        return plain(value)
    if name.endswith("_s"):
        return duration(value)
    if name.endswith("_at"):
        return instant(value)
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """Six digits, but all digits before the point: 1500000, not 1.5e+06."""
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"


def _setting(limit: str, place: str) -> str:
    """The setting's name, with the suffix of the node array's queue (`execute_1`), or with the queue of its profile."""
    if limit.startswith("total_") or limit == "autoscale":  # of a profile, which has no suffixes
        return SETTINGS[limit]
    if place.startswith(PROFILE_OF):
        return f"{SETTINGS[limit]} of {place}"
    suffix = place.partition("_")[2]
    return SETTINGS[limit] + (f"_{suffix}" if suffix.isdigit() else "")


def instant(seconds: float) -> str:
    """A time, given as Unix seconds, as sentences show it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def instant_of(text: str) -> str:
    """The same for a time in a document (ISO 8601 with offset)."""
    return instant(datetime.fromisoformat(text).timestamp())


def count(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def whole_set(offers: Iterable[tuple[int, str]]) -> str:
    """`2 m5.large, 1 c5.xlarge and 1 r5.large`: all workers of a set, by count and instance type."""
    *others, last = (f"{number} {type_}" for number, type_ in offers)
    return f"{', '.join(others)} and {last}" if others else last


def workers_of(part: Mapping[str, Any]) -> str:
    """The same of a launch (its first set), a set or an order in a document; '' of anything else."""
    first = (part.get("candidates") or (part,))[0]
    if "instance_type" not in first or "count" not in first:
        return ""
    return whole_set((each["count"], each["instance_type"]) for each in (first, *first.get("besides", ())))


def duration(seconds: float) -> str:
    """Two units at most: `0.5s`, `30s`, `2m30s`, `11m`, `1h05m`, `3h`, `2d`."""
    whole = round(seconds)
    if 0 < abs(seconds) < 1:
        return f"{seconds:.1g}s"
    if abs(whole) < 60:
        return f"{whole}s"
    if whole < 600 and whole % 60:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86_400:
        minutes = whole % 3600 // 60
        return f"{whole // 3600}h" + (f"{minutes:02}m" if minutes else "")
    return f"{whole // 86_400}d"


def _optional(part: str, facts: Mapping[str, Fact]) -> str:
    """A bracketed part if all its facts are known and not empty, else ''."""
    return part if all(facts.get(name) not in (None, "", ()) for name in _FACT.findall(part)) else ""


def so_far(seconds: float, limit: float) -> str:
    """`20s of 30s`. A time below the limit is never shown as equal to it."""
    whole, whole_limit = duration(seconds), duration(limit)
    if seconds < limit and whole == whole_limit:
        whole = duration(float(int(seconds)))
        if whole == whole_limit or not int(seconds):
            return f"nearly {whole_limit}"
    return f"{whole} of {whole_limit}"
