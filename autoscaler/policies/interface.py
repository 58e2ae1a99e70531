"""What an autoscale policy is: it looks at a snapshot and at the history, and says what node arrays should hold.

That is all it can do. What it wants becomes the request set `policy:<name>`, so limits, pauses and the circuit breaker
hold for it as for every caller, and the plan that follows rests on a snapshot in which the set stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from autoscaler.core.model.request_sets import POLICY_PREFIX, RequestSet
from autoscaler.core.outcome.sample import Sample
from autoscaler.core.snapshot import Snapshot
from providers.settings import ExtensionSettings

Arrays = Sequence[Mapping[str, Any]]
"""A list of node arrays as `jetpack.autoscale.update` takes it: `[{"Name": "execute", "TargetCount": 2}]`."""


class Past(Protocol):
    """The monitor's history."""

    def samples(self, since: float, until: float | None = None) -> Sequence[Sample]:
        """What is known from `since` to `until` (None: now), as Unix seconds, oldest first, in rows as fine as are
        still kept for that time: 10 s of the last day, minutes of a week, hours of 400 days.
        """
        ...


class AutoscalePolicy(Protocol):
    """Made once as `Class(settings)`, asked before every plan on a thread of its own, one question at a time."""

    name: ClassVar[str]
    """Lower-case letters, digits and `_`."""
    Settings: ClassVar[type[ExtensionSettings]]
    """Its options, under the environment prefix `CP_CAP_AUTOSCALE_POLICY_<NAME>_`."""

    def requests(self, snapshot: Snapshot, past: Past) -> Arrays:
        """All that it wants now; an empty list wants nothing. It may raise anything: what it wanted before then holds
        for five minutes at most, as it does when no answer comes.

        `snapshot` is this pass's, to be read only. A pass waits for half a second; an answer that comes later counts at
        the next one, which it wakes if it is news.
        """
        ...


def set_of(name: str) -> str:
    """The request set of a policy."""
    return POLICY_PREFIX + name


def set_before(name: str, snapshot: Snapshot) -> RequestSet | None:
    """What a policy's set holds as of this observation; None: nothing. So it need not remember anything itself."""
    return next((one for one in snapshot.requests.sets if one.name == set_of(name)), None)
