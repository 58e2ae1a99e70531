"""In any history every step of a worker has its row in the table of transitions, and its phases follow the rows:
machines freeze, die, fall silent and are interrupted, people interfere, and the autoscaler is killed anywhere.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis.stateful import initialize

from autoscaler.core.workers.phases import Phase
from tests.core.transition_rows import by_its_row, described, phases_after, recorded_steps
from tests.properties.test_lost import Lost
from tests.samples import examples


class Histories(Lost):
    """The same cell; after every pass the steps are compared with the table."""

    @initialize()
    def begin_with_no_worker(self) -> None:
        self.expected: dict[str, frozenset[Phase]] = {}

    def _pass(self) -> None:
        with recorded_steps() as steps:
            super()._pass()
        expected = getattr(self, "expected", {})
        for step in steps:
            worker_id, phase = step.worker.worker.id, step.worker.phase
            assert by_its_row(step), described(step)
            assert phase in expected.get(worker_id, {phase}), f"{phase} does not follow: {described(step)}"
            expected[worker_id] = phases_after(step)


TestHistories: Any = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(10), stateful_step_count=40, deadline=None)
