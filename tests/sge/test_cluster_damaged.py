"""Damaged outputs end in one of two ways: a cluster, or GridEngineNotObservable."""

from __future__ import annotations

import json
import random
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.actions import Disable, Remove
from autoscaler.core.model.cluster import Cluster
from autoscaler.core.plan import plan
from autoscaler.engine.record import read_record
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.cluster import Outputs, cluster_from
from tests.cases.whole import write_whole

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
def test_damage_to_qstat_never_makes_a_busy_host_count_as_idle(cut: tuple[float, float, bytes]) -> None:
    """Both recorded hosts are full. Whatever happens to qstat's answer, they stay busy, or nothing is decided."""
    found = outcome(Outputs(damaged(QSTAT, cut), QHOST, QCONF))
    assert found is None or {host.name for host in found.hosts if host.busy} >= {"w1", "w2"}


@given(cuts)
def test_damage_to_qhost_never_makes_a_busy_host_count_as_idle(cut: tuple[float, float, bytes]) -> None:
    found = outcome(Outputs(QSTAT, damaged(QHOST, cut), QCONF))
    assert found is None or {host.name for host in found.hosts if host.busy} >= {"w1", "w2"}


# -- what a damaged listing disables ----------------------------------------------------------------------------------

CASE = Path(__file__).parents[1] / "cases" / "shrink" / "an-idle-worker-is-disabled-first"
SEEDS = range(400)
FORMS = (
    "{queue}@",
    "{queue}",
    "",
    "@{host}",
    "{queue}@{host}?",
    "{queue}@elsewhere",
    "@",
    "\x01\x02",
)
"""What may be printed instead of `main.q@w1` stood."""


def disabled_or_removed(folder: Path) -> set[str]:
    """Hosts that a pass over this record would disable or remove."""
    try:
        actions = plan(read_record(folder)).actions
    except GridEngineNotObservable:
        return set()
    return {action.host for action in actions if isinstance(action, Disable | Remove)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two workers that have been idle for long; a job runs on the first of them, which only qstat shows yet."""
    return idle_and_busy(tmp_path / "record")


def test_without_damage_only_the_idle_worker_is_disabled(folder: Path) -> None:
    assert disabled_or_removed(folder) == {"w2"}


@pytest.mark.parametrize("form", FORMS)
def test_no_host_is_disabled_if_the_host_of_a_busy_instance_is_unreadable(folder: Path, form: str) -> None:
    listing = folder / "qstat.xml"
    listing.write_text(listing.read_text().replace("main.q@w1", form.format(queue="main.q", host="w1")))
    assert disabled_or_removed(folder) == set()


def test_a_control_character_in_a_name_does_not_hide_the_busy_host(folder: Path) -> None:
    """The reader drops what XML does not allow, so the instance is read, and only the idle worker is disabled."""
    listing = folder / "qstat.xml"
    listing.write_text(listing.read_text().replace("main.q@w1", "main.q@w1\x00"))
    assert disabled_or_removed(folder) == {"w2"}


def test_a_damaged_listing_never_disables_the_busy_host(folder: Path) -> None:
    """Bytes changed, lost and doubled in one listing or in both: if the job is shown at all, its host stays."""
    texts = {name: (folder / name).read_bytes() for name in ("qstat.xml", "qhost.xml")}
    wrong, acted = [], 0
    for seed in SEEDS:
        chance = random.Random(seed)
        for name, data in texts.items():
            hit = chance.random() < 0.7
            (folder / name).write_bytes(mutated(data, chance) if hit else data)
        found = disabled_or_removed(folder)
        acted += bool(found)
        if "w1" in found:
            wrong.append(seed)
    assert wrong == []
    assert acted > 0, "no damaged listing could be read"


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few bytes of it changed, cut out, doubled or made another's."""
    for _ in range(chance.randint(1, 6)):
        at, length = chance.randrange(len(data)), chance.randint(1, 30)
        piece = data[at : at + length]
        other = chance.choice(
            (b"", piece * 2, bytes(chance.randrange(256) for _ in range(3)), b"<", b"0", b"@", b"\xff")
        )
        data = data[:at] + other + data[at + length :]
    return data


def idle_and_busy(folder: Path) -> Path:
    write_whole(CASE, folder)
    of_host = (
        "<Queue-List><name>main.q@{0}</name><slots_used>{1}</slots_used><slots_resv>0</slots_resv>"
        "<slots_total>2</slots_total>{2}</Queue-List>\n"
    )
    job = (
        '<job_list state="running"><JB_job_number>7</JB_job_number><JAT_prio>0.5</JAT_prio><JB_owner>ann</JB_owner>'
        "<state>r</state><JAT_start_time>2026-11-21T09:09:59</JAT_start_time><slots>1</slots></job_list>"
    )
    listed = of_host.format("w1", 1, job) + of_host.format("w2", 0, "")
    (folder / "qstat.xml").write_text(
        f"<?xml version='1.0'?>\n<job_info><queue_info>{listed}</queue_info><job_info></job_info></job_info>\n"
    )
    hosts = "".join(
        f"<host name='{name}'><hostvalue name='load_avg'>0.1</hostvalue>"
        "<resourcevalue name='load_avg' dominance='hl'>0.1</resourcevalue><queue name='main.q'>"
        "<queuevalue qname='main.q' name='slots_used'>0</queuevalue><queuevalue qname='main.q' name='slots'>2"
        "</queuevalue><queuevalue qname='main.q' name='slots_resv'>0</queuevalue></queue></host>\n"
        for name in ("w1", "w2")
    )
    (folder / "qhost.xml").write_text(f"<?xml version='1.0'?>\n<qhost><host name='global'></host>{hosts}</qhost>\n")
    (folder / "qconf" / "sel.txt").write_text("master\nw1\nw2\n")
    (folder / "qconf" / "shgrp_@allhosts.txt").write_text("group_name @allhosts\nhostlist w1 w2\n")
    machine = {"instance_type": "m5.large", "created_at": "2026-11-21T08:30:00"}
    idle = {
        "first_seen": "2026-11-21T08:30:30",
        "joined_at": "2026-11-21T08:31:00",
        "idle_since": "2026-11-21T09:00:00",
    }
    workers = [{"id": f"i-{number}", "name": f"w{number}", **machine} for number in (1, 2)]
    notes = {f"i-{number}": {"host": f"w{number}", **idle} for number in (1, 2)}
    (folder / "provider.json").write_text(json.dumps({"workers": workers}))
    (folder / "memory.json").write_text(json.dumps({"passes": 9, "workers": notes}))
    return folder
