"""One odd value anywhere in Grid Engine's outputs fails no pass, and affects no other job or host."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.model.cluster import Cluster
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.sge.cluster import Outputs, cluster_from
from tests.core.building import NOW, a_snapshot
from tests.properties.poison import TEXTS
from tests.sge.printed import qstat, waiting_job

RECORDED = Path(__file__).parent / "recorded" / "mixed"
QSTAT, QHOST, QSTAT_J = ((RECORDED / name).read_bytes() for name in ("qstat.xml", "qhost.xml", "qstat-j.xml"))
QCONF = {path.stem: path.read_text() for path in (RECORDED / "qconf").iterdir()}
_TEXT = re.compile(rb">([^<>\s][^<>]*)</")
_VALUE = re.compile(r"(?m)^[^#\s]\S*[ \t]+(\S.*)$")
WRITTEN = st.sampled_from([text.encode("utf-8", "replace") for text in TEXTS])
WHOLE = cluster_from(Outputs(QSTAT, QHOST, QCONF, QSTAT_J), zone=UTC, now=NOW)


def waiting(cluster: Cluster) -> set[int]:
    return {job for category in cluster.job_categories for job in category.jobs}


def busy(cluster: Cluster) -> set[str]:
    return {host.name for host in cluster.hosts if host.busy}


def spans(data: bytes) -> st.SearchStrategy[tuple[int, int]]:
    return st.sampled_from([found.span(1) for found in _TEXT.finditer(data)])


def planted(data: bytes, span: tuple[int, int], poison: bytes) -> bytes:
    shown = escape(poison.decode()).encode()
    return data[: span[0]] + shown + data[span[1] :]


def read(**pieces: Any) -> Cluster:
    outputs = replace(Outputs(QSTAT, QHOST, QCONF, QSTAT_J), **pieces)
    found = cluster_from(outputs, zone=UTC, now=NOW)
    assert plan(replace(a_snapshot(), cluster=found)).waiting >= 0
    return found


@settings(max_examples=60)
@given(spans(QSTAT), WRITTEN)
def test_an_odd_value_in_qstat_loses_at_most_its_own_job(span: tuple[int, int], poison: bytes) -> None:
    found = read(qstat=planted(QSTAT, span, poison))
    lost = waiting(WHOLE) - waiting(found)
    assert len(lost) <= 1
    assert busy(found) >= busy(WHOLE)


@settings(max_examples=40)
@given(spans(QHOST), WRITTEN)
def test_an_odd_value_in_qhost_loses_no_job_and_makes_no_host_idle(span: tuple[int, int], poison: bytes) -> None:
    found = read(qhost=planted(QHOST, span, poison))
    assert (waiting(found), busy(found) >= busy(WHOLE)) == (waiting(WHOLE), True)


@settings(max_examples=40)
@given(spans(QSTAT_J), WRITTEN)
def test_an_odd_value_in_job_details_loses_at_most_those_of_one_job(span: tuple[int, int], poison: bytes) -> None:
    found = read(qstat_j=planted(QSTAT_J, span, poison))
    assert len(WHOLE.details.keys() - found.details.keys()) <= 1


@settings(max_examples=60)
@given(st.data())
def test_an_odd_value_in_the_configuration_fails_no_pass_and_loses_no_job(data: st.DataObject) -> None:
    stem = data.draw(st.sampled_from(sorted(QCONF)))
    lines = [found.span(1) for found in _VALUE.finditer(QCONF[stem])]
    if lines:
        begin, end = data.draw(st.sampled_from(lines))
        poison = data.draw(st.sampled_from(TEXTS)).replace("\ud800", "")
        found = read(qconf={**QCONF, stem: QCONF[stem][:begin] + poison + QCONF[stem][end:]})
        assert waiting(found) == waiting(WHOLE)


def test_a_job_with_an_overflowing_number_of_slots_does_not_count_and_is_reported() -> None:
    """`qsub -pe mpi 99999999999999999999` is accepted, and printed as 18446744073709551615 or -1 slots."""
    for slots, asked in (("18446744073709551615", "18446744073709551615"), ("-1", "18446744073709551615")):
        wide = waiting_job(8, slots=slots, more=f'<requested_pe name="mpi">{asked}</requested_pe>')
        cluster = cluster_from(Outputs(qstat([wide, waiting_job(9)])), zone=UTC, now=NOW)
        verdicts = plan(replace(a_snapshot(), cluster=cluster)).job_categories
        codes = {verdict.jobs: verdict.reason.code for verdict in verdicts}
        assert (codes[8,] is Code.CANNOT_BE_READ, (9,) in codes) == (True, True)


@pytest.mark.parametrize("job", (b"9" * 5000, b"-1", b"\xc2\xb2"))
def test_details_with_an_invalid_job_number_lose_those_of_no_other_job(job: bytes) -> None:
    first = re.search(rb"<JB_job_number>(\d+)</JB_job_number>", QSTAT_J)
    assert first is not None
    found = read(qstat_j=QSTAT_J[: first.start(1)] + job + QSTAT_J[first.end(1) :])
    assert len(WHOLE.details.keys() - found.details.keys()) <= 1


def test_a_host_that_is_unreadable_in_qhost_is_neither_silent_nor_idle() -> None:
    """Otherwise its worker, perhaps with jobs, would be fenced as silent."""
    odd = QHOST.replace(b"<host name='w1'>", b"<host name='w1'><broken>", 1)
    assert odd != QHOST
    empty = re.sub(rb"(?s)<job_list.*?</job_list>", b"", QSTAT)
    host = next(host for host in read(qstat=empty, qhost=odd).hosts if host.name == "w1")
    assert (host.heard, host.busy) == (True, True)
