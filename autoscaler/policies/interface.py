"""The interface of autoscale policies: a policy reads a snapshot and the history, and returns targets of node arrays.

It can do nothing else. Its answer becomes the request set `policy:<name>`, so limits, pauses and the circuit breaker
apply to it as to every caller. The plan that follows uses a snapshot with that set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from autoscaler.core.model.request_sets import POLICY_PREFIX, RequestSet
from autoscaler.core.outcome.sample import Sample
from autoscaler.core.snapshot import Snapshot
from autoscaler.providers.settings import ExtensionSettings

Arrays = Sequence[Mapping[str, Any]]
"""A list of node arrays as `jetpack.autoscale.update` takes it: `[{"Name": "execute", "TargetCount": 2}]`."""


class Past(Protocol):
    """The monitor's history."""

    def samples(self, since: float, until: float | None = None) -> Sequence[Sample]:
        """The samples from `since` to `until` (None: now), in Unix seconds, oldest first, as fine as they are kept: 10
        s for the last day, minutes for a week, hours for 400 days.
        """
        ...


class AutoscalePolicy(Protocol):
    """Made once as `Class(settings)`; called before every plan on a thread of its own, one call at a time."""

    name: ClassVar[str]
    """Lower-case letters, digits and `_`."""
    Settings: ClassVar[type[ExtensionSettings]]
    """Its options, under the environment prefix `CP_CAP_AUTOSCALE_POLICY_<NAME>_`."""

    def requests(self, snapshot: Snapshot, past: Past) -> Arrays:
        """All its requests; an empty list requests nothing. If it raises any exception, or does not answer, its former
        requests hold for five minutes at most.

        `snapshot` is that of this pass and must not be changed. A pass waits for half a second. A later answer counts
        in the next pass, and starts it if the answer has changed.
        """
        ...


def set_of(name: str) -> str:
    """The request set of a policy."""
    return POLICY_PREFIX + name


def set_before(name: str, snapshot: Snapshot) -> RequestSet | None:
    """A policy's set in this observation; None: it is empty. So a policy need not remember anything itself."""
    return next((one for one in snapshot.requests.sets if one.name == set_of(name)), None)
