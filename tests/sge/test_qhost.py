"""Reading `qhost -q -F -xml`: what hosts offer, and whether they report."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.model.cluster import QueueInstance
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.qhost import HostOffer, read_qhost
from tests.sge.printed import host, qhost, queue_of_host

RECORDED = Path(__file__).parent / "recorded" / "mixed" / "qhost.xml"


def only(text: str) -> HostOffer:
    (found,) = read_qhost(qhost(text)).hosts
    return found


def test_values_are_separated_into_load_consumable_and_fixed() -> None:
    more = (
        "<resourcevalue name='slots' dominance='hc'>6.000000</resourcevalue>"
        "<resourcevalue name='h_vmem' dominance='hf'>32.000G</resourcevalue>"
        "<resourcevalue name='matlab' dominance='gc'>3.000000</resourcevalue>"
    )
    found = only(host("w1", load={"mem_free": "22.694G"}, more=more))
    assert (found.load, found.consumables, found.fixed) == (
        {"mem_free": "22.694G"},
        {"slots": "6.000000"},
        {"h_vmem": "32.000G"},
    )


def test_unknown_values_are_left_out() -> None:
    assert only(host("w1", load={"mem_free": "-", "arch": "lx-amd64"})).load == {"arch": "lx-amd64"}


@pytest.mark.parametrize(
    ("load", "column", "reports"),
    (
        ({"load_avg": "0.010000"}, "0.01", True),
        ({"np_load_avg": "0.010000"}, "0.01", True),
        ({"arch": "lx-amd64", "num_proc": "2"}, "-", False),
        ({"load_avg": "-"}, "-", False),
        ({}, "-", False),
        ({"load_avg": "0.010000"}, "-", False),
    ),
)
def test_a_host_reports_while_it_has_load_values(load: dict[str, str], column: str, reports: bool) -> None:
    assert only(host("w1", load=load, column=column)).reports is reports


def test_a_listing_without_resources_has_the_load_in_its_columns() -> None:
    found = only(host("w1", load={}, column="8.32"))
    assert (found.load, found.reports) == ({"load_avg": "8.32"}, True)


UNIVA = """ <host name='w1'>
   <hostvalue name='arch_string'>lx-amd64</hostvalue>
   <hostvalue name='num_proc'>24</hostvalue>
   <hostvalue name='m_socket'>2</hostvalue>
   <hostvalue name='np_load_avg'>{load}</hostvalue>
   <hostvalue name='mem_total'>{memory}</hostvalue>
 </host>
"""


@pytest.mark.parametrize(("load", "memory", "reports"), (("0.01", "251.7G", True), ("-", "-", False)))
def test_a_listing_of_univa_has_the_load_per_processor(load: str, memory: str, reports: bool) -> None:
    found = only(UNIVA.format(load=load, memory=memory))
    assert (found.load.get("np_load_avg", "-"), found.load.get("mem_total", "-"), found.reports) == (
        load,
        memory,
        reports,
    )


def test_free_licences_are_read_from_the_global_host() -> None:
    licences = host("GLOBAL", load={}, column="-", more="<resourcevalue name='lic' dominance='gc'>3.0</resourcevalue>")
    assert read_qhost(f"<qhost>{licences}</qhost>".encode()).global_consumables == {"lic": "3.0"}


def test_the_global_host_is_not_an_execution_host() -> None:
    assert [offer.name for offer in read_qhost(qhost(host("W1.Example"))).hosts] == ["w1.example"]


def test_queue_instances_are_read_with_states_and_reservations() -> None:
    found = only(host("w1", queue_of_host("main.q", used=1, reserved=2, total=8, state="du"), queue_of_host("long.q")))
    assert found.instances == (
        QueueInstance("main.q", "w1", 8, 1, 2, "du"),
        QueueInstance("long.q", "w1", 4, 0, 0, ""),
    )


@pytest.mark.parametrize("lost", (" </host>\n", "</resourcevalue>"))
def test_a_host_that_cannot_be_understood_is_set_aside_alone(lost: str) -> None:
    found = read_qhost(qhost(host("w1").replace(lost, ""), host("w2")))
    assert ([offer.name for offer in found.hosts], [r["what"] for r in found.set_aside]) == (
        ["w2"],
        ["host w1 of qhost"],
    )


def test_a_queue_instance_without_slot_counts_is_reported_and_counts_as_occupied() -> None:
    found = read_qhost(qhost(host("w1", queue_of_host("main.q", total="?"), queue_of_host("long.q"))))  # type: ignore[arg-type]
    assert [(i.queue, bool(i.jobs)) for i in found.hosts[0].instances] == [("main.q", True), ("long.q", False)]
    assert len(found.set_aside) == 1


@pytest.mark.parametrize("data", (b"", b"error: commlib error", qhost(host())[:-12], b"<job_info></job_info>"))
def test_an_output_that_is_not_a_qhost_listing_is_refused(data: bytes) -> None:
    with pytest.raises(GridEngineNotObservable, match="qhost -q -F -xml"):
        read_qhost(data)


def test_a_recorded_listing_is_understood_whole() -> None:
    found = read_qhost(RECORDED.read_bytes())
    assert [(o.name, o.reports, o.fixed.get("h_vmem")) for o in found.hosts] == [
        ("w1", True, None),
        ("w2", True, "32.000G"),
    ]


@pytest.mark.parametrize("before", (b"", b"warning: <gpu> is slow\n", b"critical: <qhost> is deprecated\n"))
@pytest.mark.parametrize("after", (b"", b"warning: 1 < 2\n", b"<bye>\n"))
def test_warnings_around_a_listing_are_ignored(before: bytes, after: bytes) -> None:
    listing = qhost(host("w1", queue_of_host()))
    assert read_qhost(before + listing + after) == read_qhost(listing)
