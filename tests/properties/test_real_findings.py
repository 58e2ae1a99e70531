"""The soak of a real cell can fail: a broken rule is a finding, and an explained event only a note."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.findings import End, JournalAction, Records, RunPlace, Submitted, at_the_end
from tests.soak.records import read_ends
from tests.soak.traces import Trace, read_traces

WHOLE = Trace("7", "undefined", "w1", "401", "30", restarted=False, began=100.0, last=110.0, ended=True)
CUT = replace(WHOLE, ended=False)
ELSEWHERE = replace(WHOLE, host="w2", space="402")
AGAIN = replace(ELSEWHERE, restarted=True, began=130.0, last=140.0)
PUSHED = JournalAction(120.0, "reschedule", "w1", "i-1", ("7",), "LOST_JOBS_RESCHEDULED", "done")
MACHINE = RunPlace("i-1", "w1", 50.0, 112.0)
OTHER = RunPlace("i-2", "w3", 50.0, 102.0)
FENCED = JournalAction(108.0, "terminate", "w1", "i-1", (), "FENCED", "done")
KILLED = JournalAction(90.0, "kill", None, None, ("7",), "UNSATISFIABLE", "done")
GOOD = End("7", "undefined", "w1", 100.0, 110.0, 0)
FAILED = replace(GOOD, failed=21)


def records(*traces: Trace, rerun: bool | None = None, at: float = 0.0, **others: object) -> Records:
    return replace(Records({"7": Submitted(rerun, at)}, traces), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "rule"),
    (
        (records(WHOLE, replace(ELSEWHERE, began=105.0), rerun=True), "rule 7: at once"),
        (records(WHOLE, AGAIN, actions=(PUSHED,)), "rule 7: not rerunnable, and started again by us"),
        (
            records(WHOLE, AGAIN, actions=(PUSHED,), restarts=(115.0,)),
            "rule 7: not rerunnable, and started again by us",
        ),
        (records(WHOLE, AGAIN), "rule 7: not rerunnable, and started again, nobody knows why"),
        (records(CUT), "rule 1: cut short"),
        (records(CUT, places=(MACHINE,), actions=(FENCED,)), "rule 1: cut short"),
        (records(CUT, places=(MACHINE,), actions=(FENCED,), restarts=(105.0,)), "rule 1: cut short"),
        (records(CUT, places=(MACHINE,), disturbed={"i-2": 99.0}), "rule 1: cut short"),
        (records(CUT, places=(MACHINE,), rerun=True, actions=(replace(PUSHED, at=108.0),)), "rule 1: cut short"),
        (records(), "job 7 could run, is gone and never ran"),
        (records(ends=(FAILED,)), "job 7 could run, is gone and never ran"),
        (
            records(ends=(FAILED,), places=(MACHINE,), disturbed={"i-1": 99.0}, actions=(PUSHED,)),
            "job 7 could run, is gone",
        ),
        (
            records(WHOLE, AGAIN, rerun=True, actions=(PUSHED,), ends=(GOOD,)),
            "rule 7: its end was known",
        ),
        (records(WHOLE, actions=(KILLED,)), "rule 6: jobs 7 could run"),
        (records(WHOLE, jobs={"7": Submitted(unsatisfiable=True)}), "the cell ran job 7"),
    ),
)
def test_a_broken_rule_is_a_finding(what: Records, rule: str) -> None:
    assert [found[: len(rule)] for found in at_the_end(what).broken] == [rule]


@pytest.mark.parametrize(
    ("what", "note"),
    (
        (records(WHOLE), None),
        (records(WHOLE, ends=(GOOD, GOOD)), None),
        (records(CUT, AGAIN, rerun=True, places=(MACHINE,), disturbed={"i-1": 108.0}, actions=(PUSHED,)), None),
        (records(CUT, AGAIN, rerun=True, places=(MACHINE, OTHER), actions=(replace(PUSHED, worker_id="i-2"),)), None),
        (records(WHOLE, AGAIN, rerun=True, actions=(PUSHED,)), "nobody had heard of its end"),
        (records(WHOLE, AGAIN, restarts=(109.0,)), "started again by Grid Engine"),
        (
            records(WHOLE, AGAIN, restarts=(109.0,), actions=(replace(PUSHED, result="refused"),)),
            "started again by Grid",
        ),
        (records(CUT, places=(MACHINE,), actions=(FENCED,), silent={"i-1": 101.0}), "fenced, because Grid Engine"),
        (records(CUT, restarts=(105.0,)), "cut short by Grid Engine"),
        (records(CUT, deleted=frozenset({"7"})), None),
        (records(ends=(FAILED,), places=(MACHINE,), disturbed={"i-1": 99.0}), "job 7 was lost with the machine"),
        (records(at=80.0, restarts=(81.0,)), "job 7 was lost with the qmaster"),
        (records(WHOLE, deleted=frozenset({"7"}), actions=(KILLED,)), None),
        (records(WHOLE, ends=(GOOD, replace(GOOD, end=111.0))), "accounting has 2 ends of 7"),
    ),
)
def test_an_explained_event_is_only_a_note(what: Records, note: str | None) -> None:
    found = at_the_end(what)
    assert (found.broken, [each[: len(note or "")] for each in found.notes]) == ((), [note] if note else [])


def test_the_trace_of_a_killed_process_has_no_end_and_its_last_time(tmp_path: Path) -> None:
    lines = "began 100.5 w1 401 30 1\nlives 100.6\nlives 101\n"
    (tmp_path / "7.2.w1.401.30.1005").write_text(lines)
    expected = Trace("7", "2", "w1", "401", "30", restarted=True, began=100.5, last=101.0, ended=False)
    assert read_traces(tmp_path) == [expected]


def test_every_accounting_record_is_read_as_an_end(tmp_path: Path) -> None:
    fields = ["main.q", "w1", "root", "root", "soaked", "7", "sge", "0", "90", "100", "110", "0", "0"]
    line = ":".join([*fields, *["0"] * 30])
    (tmp_path / "accounting").write_text(f"# Version: 8.1.9\n{line}\n{line}\n")
    assert read_ends(tmp_path / "accounting") == [GOOD, GOOD]
