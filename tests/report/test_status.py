"""`status` shows the numbers of the pass that it names, not of the last one that had news."""

from __future__ import annotations

from autoscaler.core.model.memory import Memory
from autoscaler.core.outcome.sample import Sample
from autoscaler.report.status import Now, status, status_pairs
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.core.building import NOW

OLD = {"waiting": 65, "counted": 60, "fitting": 1, "workers": {"persistent": 1}}


def test_counts_are_those_of_the_last_pass_and_not_of_the_last_news() -> None:
    store = Store.open(None)
    store.history.add_pass(85, NOW, "pass 85: 65 tasks wait", OLD)
    store.samples.keep_last(Sample(NOW + 30, waiting=38, counted=30, fitting=2, persistent=3))
    store.memory.save(Memory(passes=99, observed_at=NOW + 30), NOW + 30)
    shown = status(store, Now(NOW + 31, "cell", "local", True, None))
    names = ("pass", "waiting", "counted", "fitting", "persistent")
    assert [shown[name] for name in names] == [99, 38, 30, 2, 3]


def test_without_a_sample_counts_are_those_of_the_last_news() -> None:
    store = Store.open(None)
    store.history.add_pass(85, NOW, "pass 85: 65 tasks wait", OLD)
    shown = status(store, Now(NOW + 31, "cell", "local", True, None))
    assert [shown[name] for name in ("waiting", "counted", "fitting", "persistent")] == [65, 60, 1, 1]


def test_who_keeps_or_drains_a_worker_is_said() -> None:
    store = Store.open(None)
    store.overrides.ask(Verb.DRAIN, who="boss (page)", at=NOW, host="w1")
    store.overrides.ask(Verb.KEEP, who="eve", at=NOW, host="w2")
    shown = status(store, Now(NOW + 1, "cell", "local", True, None))
    assert shown["asked_by"] == {"w1": "boss (page)", "w2": "eve"}
    said = dict(status_pairs(shown))
    assert said["drained by command"] == "w1 (by boss (page))"
    assert said["kept by command"] == "w2 (by eve)"
