"""Resource maps as Grid Engine prints and takes them: `gpu=2(0 1)` is one value, whatever is in the brackets."""

from __future__ import annotations

from datetime import UTC

import pytest

from autoscaler.core.model.cluster import Cluster
from autoscaler.sge import objects
from autoscaler.sge.admin import Administrator
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.jsv import read_request, split_requests
from autoscaler.sge.qconf import read_assignments, read_queue, split_overrides
from tests.sge.grid_engine_model import GridEngineModel
from tests.sge.printed import host, qhost, qstat, queue_list, queue_of_host, waiting_job

TABLE = "gpu gpu RSMAP <= YES HOST NONE 0\nslots s INT <= YES YES 1 1000\n"
DETAILED = "gpu=2(gpu0[devices=/dev/nvidia0:rw;/dev/ctl:r,memory=80G] gpu1[memory=40G])"


@pytest.mark.parametrize(
    ("text", "values"),
    (
        ("gpu=2(0 1)", {"gpu": "2(0 1)"}),
        ("slots=8,gpu=2(0 1),h_vmem=32G", {"slots": "8", "gpu": "2(0 1)", "h_vmem": "32G"}),
        (f"{DETAILED},lic=3", {"gpu": DETAILED.removeprefix("gpu="), "lic": "3"}),
        ("gpu=2(0 1", {"gpu": "2(0"}),
        ("gpu=2)0(,lic=3", {"gpu": "2)0(", "lic": "3"}),
        ("NONE", {}),
        ("m_topology=NONE,cpu=0.1", {"m_topology": "NONE", "cpu": "0.1"}),
    ),
)
def test_commas_and_blanks_in_brackets_do_not_split_a_value(text: str, values: dict[str, str]) -> None:
    assert read_assignments(text) == values


@pytest.mark.parametrize(
    ("value", "default", "overrides"),
    (
        ("gpu=2(0 1),[w1=gpu=4(0 1 2 3),lic=2]", "gpu=2(0 1)", {"w1": "gpu=4(0 1 2 3),lic=2"}),
        (f"NONE,[@g={DETAILED}],[w2=NONE]", "", {"@g": DETAILED, "w2": ""}),
        (f"{DETAILED},[w1=gpu=1(0)]", DETAILED, {"w1": "gpu=1(0)"}),
        ("2,[w1=8],[@big=64]", "2", {"w1": "8", "@big": "64"}),
    ),
)
def test_brackets_inside_a_value_do_not_start_an_override(value: str, default: str, overrides: dict[str, str]) -> None:
    assert split_overrides(value) == (default, overrides)


def test_resource_maps_of_a_queue_may_differ_by_host() -> None:
    queue = read_queue("qname main.q\nslots 4\ncomplex_values gpu=2(0 1),[W1=gpu=4(0-3), \\\n   lic=2]\n")
    assert (queue.complex_values, queue.complex_values_by_host) == (
        {"gpu": "2(0 1)"},
        {"w1": {"gpu": "4(0-3)", "lic": "2"}},
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    (
        ("h_vmem=4G,gpu=2[same=id,unit=1],arch=lx*", ("h_vmem=4G", "gpu=2[same=id,unit=1]", "arch=lx*")),
        ("gpu=2(gpu0,gpu1)", ("gpu=2(gpu0,gpu1)",)),
        ("main.q@h[1,2],*@w1", ("main.q@h[1,2]", "*@w1")),
        ("a=(,,b", ("a=(", "b")),
        ("", ()),
    ),
)
def test_commas_inside_brackets_do_not_split_a_request(text: str, parts: tuple[str, ...]) -> None:
    assert split_requests(text) == parts


def test_the_verifier_reads_a_resource_map_as_one_request() -> None:
    asked = read_request({"l_hard": "gpu=2[same=id,unit=1],h_vmem=1G"})
    assert asked is not None
    assert asked.hard == (("gpu", "2[same=id,unit=1]"), ("h_vmem", "1G"))


def cluster(left: str) -> Cluster:
    value = f"<resourcevalue name='gpu' dominance='hc'>{left}</resourcevalue>"
    return cluster_from(
        Outputs(
            qstat([waiting_job(7, more='<hard_request name="gpu">2</hard_request>')], [queue_list("main.q@w1")]),
            qhost(host("w1", queue_of_host("main.q"), more=value)),
            {"sc": TABLE, "se_global": "hostname global\ncomplex_values lic=2(a b)\n"},
        ),
        zone=UTC,
        now=0.0,
    )


@pytest.mark.parametrize("left", ("2", "2.000000", "2(0 1)"))
def test_the_free_resource_map_of_a_host_is_kept_as_printed(left: str) -> None:
    found = cluster(left)
    assert (found.hosts[0].consumables, found.global_values, found.set_aside) == ({"gpu": left}, {"lic": "2(a b)"}, ())


def test_a_worker_is_enrolled_with_the_ids_of_its_resource_map() -> None:
    model = GridEngineModel()
    Administrator(model).enrol("w1", "main.q", "@allhosts", 4, [("gpu", "2(0 1)")])
    assert model.hosts == {"w1": "slots=4,gpu=2(0 1)"}


@pytest.mark.parametrize("value", ("2(0 1),slots=99", "2(0\n1)", "2()", "2(0 1", "2(0)(1)", "2([x=1])"))
def test_a_resource_map_that_would_break_its_value_is_refused(value: str) -> None:
    with pytest.raises(objects.UnusableName):
        objects.complex_values({"gpu": value})
