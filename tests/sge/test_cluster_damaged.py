"""Damaged outputs end in one of two ways: a cluster, or GridEngineNotObservable."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.model.cluster import Cluster
from autoscaler.errors import GridEngineNotObservable
from sge.cluster import Outputs, cluster_from

RECORDED = Path(__file__).parent / "recorded" / "mixed"
QSTAT, QHOST, QSTAT_J = ((RECORDED / name).read_bytes() for name in ("qstat.xml", "qhost.xml", "qstat-j.xml"))
QCONF = {path.stem: path.read_text() for path in (RECORDED / "qconf").iterdir()}

cuts = st.tuples(
    st.floats(0, 1), st.floats(0, 1), st.one_of(st.binary(max_size=8), st.sampled_from([b"<", b">", b"&"]))
)


def damaged(data: bytes, cut: tuple[float, float, bytes]) -> bytes:
    """The bytes with up to 200 of them, anywhere, replaced by a few others."""
    at = int(cut[0] * len(data))
    return data[:at] + cut[2] + data[at + int(cut[1] * 200) :]


def outcome(outputs: Outputs) -> Cluster | None:
    try:
        return cluster_from(outputs, zone=UTC, now=0.0)
    except GridEngineNotObservable:
        return None


@given(cuts, cuts, cuts)
def test_damaged_listings_give_a_cluster_or_no_observation(first: object, second: object, third: object) -> None:
    qstat, qhost, qstat_j = (
        damaged(data, cut)  # type: ignore[arg-type]
        for data, cut in ((QSTAT, first), (QHOST, second), (QSTAT_J, third))
    )
    outcome(Outputs(qstat, qhost, QCONF, qstat_j))


@given(st.sampled_from(sorted(QCONF)), cuts)
def test_a_damaged_configuration_gives_a_cluster_or_no_observation(stem: str, cut: tuple[float, float, bytes]) -> None:
    text = damaged(QCONF[stem].encode(), cut).decode("utf-8", "replace")
    outcome(Outputs(QSTAT, QHOST, {**QCONF, stem: text}, QSTAT_J))


@given(cuts)
def test_damage_to_one_listing_never_makes_a_busy_host_look_empty(cut: tuple[float, float, bytes]) -> None:
    """Both recorded hosts are full. Whatever happens to qstat's answer, they stay busy, or nothing is decided."""
    found = outcome(Outputs(damaged(QSTAT, cut), QHOST, QCONF))
    assert found is None or {host.name for host in found.hosts if host.busy} >= {"w1", "w2"}


@given(cuts)
def test_damage_to_the_other_listing_never_makes_a_busy_host_look_empty(cut: tuple[float, float, bytes]) -> None:
    found = outcome(Outputs(QSTAT, damaged(QHOST, cut), QCONF))
    assert found is None or {host.name for host in found.hosts if host.busy} >= {"w1", "w2"}
