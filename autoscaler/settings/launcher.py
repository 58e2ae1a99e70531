"""Variables under our prefixes that Cloud Pipeline's launcher sets in a master's container and that are no settings,
with their meaning here. Those with an effect, or with one fixed answer, are rows of the settings.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

PREFIXES = ("CP_CAP_SGE_", "CP_CAP_GE_")
"""Besides CP_CAP_AUTOSCALE_. Names under these are ours or the launcher's, so misspelt ones can be reported."""
_TYPE_OF_PARAMETER = "_PARAM_TYPE"
"""Ending of the variables that describe the type of a run's parameters."""
_ITS_OWN = (
    "only the launcher uses it: it controls how the launcher writes and logs the profiles of its queues, which the "
    "autoscaler does not read"
)
_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "CP_CAP_SGE_PROFILE_GENERATION_": _ITS_OWN,
        "CP_CAP_SGE_PROFILE_CONFIGURATION_": _ITS_OWN,
        "CP_CAP_SGE_UTILITY_": "only the platform's `sge` tool uses it, for its log and the copies that it keeps of "
        "profiles",
        "CP_CAP_SGE_PREINSTALLED": "only the launcher uses it: whether the image has Grid Engine already",
        "CP_CAP_SGE_MASTER_ENV_FILE": "only the launcher uses it, for the environment of its Grid Engine; the "
        "autoscaler takes that from SGE_ROOT and SGE_CELL",
        "CP_CAP_SGE_VERSION": "it selects the Grid Engine package that the launcher installs; the autoscaler serves "
        "whichever runs",
        "CP_CAP_SGE_GPU_LOCK_MONITOR_": "the launcher itself goes on to watch the locks of GPU devices",
        "CP_CAP_GE_RESOURCE_NAME_CLUSTER_ADDITIONAL": "the provider reports which hosts are workers, and the "
        "autoscaler changes no load formula",
        "CP_CAP_GE_TRANSLATE_REQUESTS_TO_PIPE": "the autoscaler copies no job requests into the parameters of worker "
        "runs",
        "CP_CAP_AUTOSCALE_DNS_HOSTS_RESOLVE_": "only the platform's own tools wait for a name to resolve; the "
        "autoscaler terminates a worker that has not joined after CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT",
        "CP_CAP_AUTOSCALE_RESOLVE_": "the autoscaler writes a worker's name into CP_CAP_AUTOSCALE_HOSTS_FILE before "
        "it enrols the worker, so it waits for no lookup; it terminates a worker that has not joined after "
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT",
    }
)
"""By name, or by prefix if it ends with an underscore."""


def describes_a_parameter(name: str) -> bool:
    """Whether a variable only describes the type of another."""
    return name.endswith(_TYPE_OF_PARAMETER)


def meaning(name: str) -> str | None:
    """The meaning of such a variable here; None: the launcher is not known to set it."""
    plain = re.sub(r"_\d+$", "", name)
    return next(
        (text for known, text in _MEANINGS.items() if plain == known or (known[-1] == "_" and plain.startswith(known))),
        None,
    )


def close_to(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one is likely to mean. Names of the same prefix are compared without it:
    a long common prefix would make all names similar.
    """
    suffix = match[0] if (match := re.search(r"_[1-9]\d*$", name)) else ""
    plain = name.removesuffix(suffix)
    prefix = next((each for each in ("CP_CAP_AUTOSCALE_", *PREFIXES) if plain.startswith(each)), "")
    rests = {each.removeprefix(prefix): each for each in known if each.startswith(prefix)}
    close = difflib.get_close_matches(plain.removeprefix(prefix), rests, n=1, cutoff=0.7)
    if not close and prefix:  # the right name under the other prefix: CP_CAP_SGE_WORKERS
        close = difflib.get_close_matches(plain, known := list(known), n=1, cutoff=0.8)
        rests = {each: each for each in known}
    return rests[close[0]] + suffix if close else None
