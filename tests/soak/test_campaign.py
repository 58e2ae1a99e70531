"""The campaign of `make soak`: seeded histories of jobs, troubles, people and kills of the process, under the rules.

SOAK_SEED and SOAK_HISTORIES choose others than usual. A history that breaks a rule is reported with the fewest events
that still break it.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.campaign import History, Played, kind, play, shorten
from tests.soak.conftest import MET

FIRST = int(os.environ.get("SOAK_SEED", "0"))
HISTORIES = int(os.environ.get("SOAK_HISTORIES", "120"))
FOUND = (979, 5150015, 86420017, 86420215)
"""Seeds beyond those that once broke a rule."""
STEPS = 100
"""Events of one history; the passes until all has settled come on top."""


@pytest.fixture(scope="module")
def directories() -> Iterator[Iterator[Path]]:
    """Fresh ones where a commit need not wait for a disk."""
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None, prefix="sge-autoscaler-soak-") as made:
        yield (Path(made) / str(number) for number in itertools.count())


@pytest.mark.parametrize("seed", sorted({*range(FIRST, FIRST + HISTORIES), *(FOUND if FIRST == 0 else ())}))
def test_no_rule_is_broken_and_every_history_converges(seed: int, directories: Iterator[Path]) -> None:
    history = History.of(seed, STEPS)
    played = _played(history, directories)
    MET.update(played.world.injected, steps=played.steps, histories=1, findings=bool(played.broken))
    assert not played.broken, _reported(history, played, directories)


def _played(history: History, directories: Iterator[Path]) -> Played:
    directory = next(directories)
    directory.mkdir()
    return play(history, directory / "store.sqlite")


def _reported(history: History, played: Played, directories: Iterator[Path]) -> str:
    first = played.broken[0]

    def fails(shorter: History) -> bool:
        broken = _played(shorter, directories).broken
        return bool(broken) and kind(broken[0]) == kind(first)

    short = shorten(replace(history, events=history.events[: played.steps]), fails)
    return "\n  ".join((f"seed {history.seed} after {played.steps} steps:", *played.broken, "as in", repr(short)))
