"""However many workers seem broken, and for however long: few are quarantined at a time, and in the end all of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.actions import Disable
from autoscaler.core.model.evidence import Evidence, Health, JobFailure
from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.plan import plan
from autoscaler.core.scale_down.quarantine import SHARE, WINDOW
from autoscaler.core.snapshot import Snapshot
from tests.core.building import NOW, AWorker, a_snapshot, a_worker
from tests.samples import examples

KINDS = ("well", "black hole", "unhealthy", "in error")
PASSES = 10


def evidence(kinds: list[str], now: float) -> Evidence:
    """What each worker shows now, and shows as long as it is there."""
    failures = [
        JobFailure(f"w{n}", job, now - 10, "18 : shepherd returned an error", "ann")
        for n, kind in enumerate(kinds)
        if kind == "black hole"
        for job in (1, 2, 3)
    ]
    health = {
        f"i-w{n}": Health(f"i-w{n}", now - 5, healthy=False, sick_since=now - 65)
        for n, kind in enumerate(kinds)
        if kind == "unhealthy"
    }
    return Evidence(failures=tuple(failures), health=health)


def world(kinds: list[str], quarantined: set[str], now: float, before: Memory | None) -> Snapshot:
    """All run a job; quarantined ones are disabled."""
    things: list[AWorker] = []
    for n, kind in enumerate(kinds):
        name = f"w{n}"
        states = ("d" if name in quarantined else "") + ("E" if kind == "in error" else "")
        mark = Disabling.BROKEN if name in quarantined else None
        things.append(a_worker(name, used=1, states=states, mark=mark))
    snapshot = a_snapshot(*things, now=now, health_check=("/opt/check",))
    return replace(snapshot, memory=before or snapshot.memory, evidence=evidence(kinds, now))


@settings(max_examples=examples(20), deadline=None)
@given(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=9), step=st.sampled_from((60.0, 300.0, WINDOW)))
def test_at_most_a_share_of_workers_is_quarantined_in_any_window(kinds: list[str], step: float) -> None:
    quarantined: dict[str, float] = {}
    memory: Memory | None = None
    for number in range(PASSES):
        now = NOW + number * step
        made = plan(world(kinds, set(quarantined), now, memory))
        memory = made.memory
        new = [action.host for action in made.actions if isinstance(action, Disable)]
        assert all(kinds[int(host[1:])] != "well" and host not in quarantined for host in new)
        quarantined |= dict.fromkeys(new, now)
        recent = [host for host, at in quarantined.items() if now - at < WINDOW]
        assert len(recent) <= max(1, int(SHARE * len(kinds)))
    if step == WINDOW:
        assert set(quarantined) == {f"w{n}" for n, kind in enumerate(kinds) if kind != "well"}
