"""Rules of every executor."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from autoscaler.core.actions import WorkerAction
from autoscaler.engine.actor import OfProvider
from autoscaler.engine.executors.execute import execute
from autoscaler.engine.executors.together import batches_of
from autoscaler.providers.fake import FakeProvider
from autoscaler.store.journal import Journalled
from tests.act.test_launch import Bench
from tests.report.one_of_each import ONE_OF_EACH

ON_THE_LOOPS_THREAD = [one for one in ONE_OF_EACH if isinstance(one, WorkerAction) and not isinstance(one, OfProvider)]


class Hung:
    """A provider that must not be called on the loop's thread."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} of the provider is called on the loop's thread: the action belongs to OfProvider")


@pytest.mark.parametrize("action", ON_THE_LOOPS_THREAD, ids=lambda one: one.kind)
def test_an_action_on_the_loops_thread_calls_no_provider(action: WorkerAction, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.provider = cast("FakeProvider", Hung())
    bench.restart()
    assert execute(action, bench.actor._context, {}).action == action


def test_batches_have_one_kind_of_action_each_in_order() -> None:
    """Hosts to enable and hosts to disable next to each other are two batches."""
    kinds = {action.kind: action for action in ONE_OF_EACH}
    words = ("enable", "enable", "disable", "disable", "remove", "remove", "terminate", "terminate")
    plan = [Journalled(number, kinds[word]) for number, word in enumerate(words)]
    assert [[item.id for item in batch] for batch in batches_of(plan)] == [[0, 1], [2, 3], [4, 5], [6], [7]]
