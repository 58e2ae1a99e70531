"""Findings outlive the process, each with its question, and older stores get the table for them."""

from __future__ import annotations

from pathlib import Path

from autoscaler.core.model.evidence import Answer, Evidence, Finding
from autoscaler.store import evidence
from autoscaler.store.store import Store

OLD = Finding(12, "as asked", 100.0, Answer.SATISFIABLE, "verification: found suitable queue(s)")
NEW = Finding(12, "asked otherwise", 200.0, Answer.UNSATISFIABLE, "verification: no suitable queues")
OTHER = Finding(13, "as asked", 150.0, Answer.NONE)


def test_the_newest_answer_about_a_job_counts(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    store = Store.open(file)
    store.evidence.find([OLD, OTHER])
    store.evidence.find([NEW])
    store.close()
    assert Store.open(file).evidence.load(0) == Evidence(answers={12: NEW, 13: OTHER})


def test_an_old_answer_is_ignored() -> None:
    store = Store.open(None)
    store.evidence.find([NEW, OTHER])
    assert list(store.evidence.load(150.0).answers) == [12]


def test_old_answers_are_forgotten_with_the_history() -> None:
    store = Store.open(None)
    store.evidence.find([NEW, OTHER])
    store.forget_old(200.0 + evidence.KEPT_FOR)
    assert list(store.evidence.load(0).answers) == [12]
