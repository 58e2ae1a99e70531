"""Putting Grid Engine's outputs together into one cluster."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from autoscaler.core.actions import PROBE_HOST_PREFIX
from autoscaler.core.model.cluster import Cluster, ExecutionHost, JobDetail, ParallelEnvironment, Queue
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.complex_table import COMPLEXES
from autoscaler.sge.qstat import read_qstat
from tests.sge.printed import host, qhost, qstat, queue_list, queue_of_host, running_job, waiting_job

RECORDED = Path(__file__).parent / "recorded" / "mixed"
NOW = 1_795_260_000.0
QUEUE = "qname main.q\nhostlist @allhosts\npe_list local mpi\nslots 2,[w1=4]\n"
GROUP = "group_name @allhosts\nhostlist w1 w2\n"


def cluster(
    qstat_xml: bytes | None = None,
    qhost_xml: bytes | None = None,
    *,
    qconf: dict[str, str] | None = None,
    qstat_j: bytes | None = None,
) -> Cluster:
    listing = qstat((), [queue_list("main.q@w1")]) if qstat_xml is None else qstat_xml
    return cluster_from(Outputs(listing, qhost_xml, qconf or {}, qstat_j), zone=UTC, now=NOW)


def merged(queue_list_text: str, host_text: str) -> ExecutionHost:
    (only,) = cluster(qstat((), [queue_list_text]), qhost(host_text)).hosts
    return only


def recorded() -> Cluster:
    outputs = Outputs(
        qstat=(RECORDED / "qstat.xml").read_bytes(),
        qhost=(RECORDED / "qhost.xml").read_bytes(),
        qconf={path.stem: path.read_text() for path in (RECORDED / "qconf").iterdir()},
        qstat_j=(RECORDED / "qstat-j.xml").read_bytes(),
    )
    return cluster_from(outputs, zone=UTC, now=NOW)


# -- one host out of two readings ----------------------------------------------------------------------------


def test_a_job_that_started_between_the_readings_makes_its_host_busy() -> None:
    found = merged(queue_list("main.q@w1"), host("w1", queue_of_host("main.q", used=1)))
    assert found.busy


def test_slots_that_only_the_later_reading_shows_used_are_in_flight() -> None:
    found = merged(queue_list("main.q@w1", running_job(3), used=1), host("w1", queue_of_host("main.q", used=3)))
    assert [(instance.used, instance.in_flight) for instance in found.instances] == [(3, 2)]


def test_a_job_that_cannot_be_read_is_not_a_dispatch_in_flight() -> None:
    found = merged(queue_list("main.q@w1", running_job("none"), used=0), host("w1", queue_of_host("main.q", used=1)))
    assert [(instance.used, instance.in_flight) for instance in found.instances] == [(1, 0)]


def test_a_job_that_ended_between_the_readings_keeps_its_host_busy() -> None:
    found = merged(queue_list("main.q@w1", running_job(3), used=1), host("w1", queue_of_host("main.q")))
    assert (found.busy, found.instances[0].used) == (True, 1)


@pytest.mark.parametrize(("in_qstat", "in_qhost"), ((1, 0), (0, 1)))
def test_a_slot_reserved_in_either_reading_makes_its_host_busy(in_qstat: int, in_qhost: int) -> None:
    found = merged(queue_list("main.q@w1", reserved=in_qstat), host("w1", queue_of_host("main.q", reserved=in_qhost)))
    assert found.busy


def test_a_queue_instance_has_the_states_of_both_readings() -> None:
    found = merged(queue_list("main.q@w1", state="d"), host("w1", queue_of_host("main.q", state="du")))
    assert found.instances[0].states == "du"


def test_every_queue_of_a_host_counts_whichever_reading_shows_it() -> None:
    found = merged(queue_list("main.q@w1"), host("w1", queue_of_host("main.q"), queue_of_host("gpu.q", used=1)))
    assert ([i.queue for i in found.instances], found.busy) == (["main.q", "gpu.q"], True)


def test_a_host_without_any_queue_instance_is_still_a_host() -> None:
    found = cluster(qhost_xml=qhost(host("w1"), host("w2"))).hosts
    assert [(h.name, len(h.instances)) for h in found] == [("w1", 1), ("w2", 0)]


# -- load reports --------------------------------------------------------------------------------------------


def test_a_host_with_load_values_has_reported() -> None:
    assert merged(queue_list("main.q@w1"), host("w1", queue_of_host("main.q"))).heard


def test_a_host_enrolled_before_its_execd_started_has_not_reported() -> None:
    assert not merged(
        queue_list("main.q@w1", state="d"), host("w1", queue_of_host("main.q"), load={}, column="-")
    ).heard


@pytest.mark.parametrize(("in_qstat", "in_qhost"), (("u", ""), ("", "au")))
def test_a_host_unknown_in_either_reading_has_not_reported(in_qstat: str, in_qhost: str) -> None:
    found = merged(queue_list("main.q@w1", state=in_qstat), host("w1", queue_of_host("main.q", state=in_qhost)))
    assert not found.heard


def test_a_host_missing_from_qhost_has_not_reported() -> None:
    found = cluster(qstat((), [queue_list("main.q@w1"), queue_list("main.q@w2")]), qhost(host("w1"))).hosts
    assert {h.name: h.heard for h in found} == {"w1": True, "w2": False}


# -- missing pieces ------------------------------------------------------------------------------------------


def test_without_qhost_hosts_are_those_of_the_queue_lists() -> None:
    found = cluster(qstat((), [queue_list("main.q@w1"), queue_list("main.q@w2", state="au")])).hosts
    assert [(h.name, h.heard, h.load) for h in found] == [
        ("w1", True, {"arch": "lx-amd64"}),
        ("w2", False, {"arch": "lx-amd64"}),
    ]


def test_without_sc_complexes_are_those_of_a_new_cell() -> None:
    assert cluster().complexes == COMPLEXES


def test_without_sp_local_is_one_host_and_others_fill_up() -> None:
    jobs = [waiting_job(n, more=f'<requested_pe name="{pe}">4</requested_pe>') for n, pe in ((7, "local"), (8, "mpi"))]
    assert cluster(qstat(jobs, [queue_list("main.q@w1")])).pes == {
        "local": ParallelEnvironment("local", 99_999, "$pe_slots"),
        "mpi": ParallelEnvironment("mpi", 99_999, "$fill_up"),
    }


def test_a_wildcard_is_not_the_name_of_a_pe() -> None:
    job = waiting_job(7, more='<requested_pe name="m*">4</requested_pe>')
    assert cluster(qstat([job], [queue_list("main.q@w1")])).pes == {}


def test_without_sq_queues_are_those_of_the_queue_lists_with_every_pe() -> None:
    job = waiting_job(7, more='<requested_pe name="local">4</requested_pe>')
    listed = qstat([job], [queue_list("main.q@w1", total=4), queue_list("main.q@w2", total=8)])
    assert cluster(listed).queues == {
        "main.q": Queue("main.q", ("w1", "w2"), 8, slots_by_host={"w1": 4, "w2": 8}, pe_list=("local",))
    }


def test_a_described_queue_has_only_the_pes_it_lists() -> None:
    job = waiting_job(7, more='<requested_pe name="other">4</requested_pe>')
    found = cluster(qstat([job], [queue_list("main.q@w1")]), qconf={"sq_main.q": QUEUE})
    assert (set(found.pes), found.queues["main.q"].pe_list) == ({"local", "mpi"}, ("local", "mpi"))


def test_without_sel_execution_hosts_are_those_of_the_listings() -> None:
    assert cluster().execution_hosts == {"w1"}


def test_without_ssconf_and_sconf_grid_engines_defaults_apply() -> None:
    found = cluster()
    assert (found.schedule_interval, found.load_report_time, found.max_unheard) == (15.0, 40.0, 300.0)


def test_without_qhost_licences_are_the_complex_values_of_the_global_host() -> None:
    texts = {"se_global": "hostname global\ncomplex_values matlab=5,lic=2\n"}
    assert cluster(qconf=texts).global_consumables == {"matlab": "5", "lic": "2"}


def test_free_licences_of_qhost_override_those_of_the_global_host() -> None:
    texts = {"se_global": "hostname global\ncomplex_values matlab=5\n"}
    left = host("global", load={}, column="-", more="<resourcevalue name='matlab' dominance='gc'>1.0</resourcevalue>")
    found = cluster(qhost_xml=f"<qhost>{left}{host('w1')}</qhost>".encode(), qconf=texts)
    assert found.global_consumables == {"matlab": "1.0"}


# -- empty where it cannot be --------------------------------------------------------------------------------


def test_a_listing_without_queue_instances_is_refused_if_queues_have_hosts() -> None:
    with pytest.raises(GridEngineNotObservable, match=r"empty observation cannot be right.*qstat -f"):
        cluster(qstat(), qconf={"sq_main.q": QUEUE, "shgrp_@allhosts": GROUP, "sel": "w1\nw2\n"})


def test_a_listing_without_queue_instances_is_valid_if_no_queue_has_hosts() -> None:
    empty = "group_name @allhosts\nhostlist NONE\n"
    assert cluster(qstat(), qconf={"sq_main.q": QUEUE, "shgrp_@allhosts": empty, "sel": "w1\n"}).hosts == ()


def test_a_listing_without_queue_instances_is_valid_while_no_host_is_in_a_queue() -> None:
    assert cluster(qstat(), qhost(host("w1")), qconf={"sel": "w1\n"}).hosts[0].instances == ()


def test_a_qhost_without_hosts_is_refused_if_there_are_execution_hosts() -> None:
    with pytest.raises(GridEngineNotObservable, match=r"empty observation cannot be right.*qhost"):
        cluster(qstat(), qhost(), qconf={"sel": "w1\n"})


def test_an_empty_cell_is_an_empty_cluster() -> None:
    found = cluster(qstat(), qhost(), qconf={"sel": "", "sq_main.q": QUEUE, "shgrp_@allhosts": GROUP})
    assert (found.hosts, found.job_categories, found.execution_hosts) == ((), (), frozenset())


# -- configuration -------------------------------------------------------------------------------------------


def test_an_object_that_cannot_be_read_is_set_aside_alone() -> None:
    found = cluster(qconf={"sq_main.q": QUEUE, "sq_odd.q": "what?", "srqs": "{\n name x\n limit to\n}\n"})
    aside = [reason["what"] for reason in found.set_aside]
    assert (set(found.queues), aside) == ({"main.q"}, ["qconf sq_odd.q", "a resource quota set"])


def test_of_several_quota_sets_the_one_that_cannot_be_read_is_set_aside_alone() -> None:
    sets = "{\n name odd\n limit to\n}\n{\n name good\n limit to slots=4\n}\n"
    found = cluster(qconf={"srqs": sets})
    assert ([quota.name for quota in found.quotas], len(found.set_aside)) == (["good"], 1)


def test_complexes_that_cannot_be_read_fail_the_observation() -> None:
    with pytest.raises(GridEngineNotObservable, match="qconf -sc"):
        cluster(qconf={"sc": "error: denied\n"})


def test_probe_hosts_are_left_out_of_the_cluster() -> None:
    probe = f"{PROBE_HOST_PREFIX}1"
    texts = {
        "sq_main.q": f"qname main.q\nhostlist @allhosts {probe}\npe_list mpi\nslots 2,[w1=4],[{probe}=64]\n",
        "shgrp_@allhosts": f"group_name @allhosts\nhostlist w1 {probe.upper()}\n",
        "sel": f"w1\n{probe}\n",
    }
    shown = qhost(host("w1"), host(probe, queue_of_host("main.q", total=64), load={}, column="-"))
    found = cluster(qstat((), [queue_list("main.q@w1"), queue_list(f"main.q@{probe}", state="du")]), shown, qconf=texts)
    queue = found.queues["main.q"]
    of_queue = (queue.hostlist, dict(queue.slots_by_host))
    elsewhere = (dict(found.host_groups), sorted(found.execution_hosts), [one.name for one in found.hosts])
    assert (of_queue, elsewhere) == ((("@allhosts",), {"w1": 4}), ({"@allhosts": ("w1",)}, ["w1"], ["w1"]))


def test_probe_hosts_that_appear_between_the_readings_do_not_fail_the_observation() -> None:
    texts = {"sq_main.q": f"qname main.q\nhostlist {PROBE_HOST_PREFIX}1\nslots 0\n", "sel": f"{PROBE_HOST_PREFIX}1\n"}
    assert cluster(qstat(), qhost(), qconf=texts).hosts == ()


def test_limits_of_users_and_arrays_are_read_and_zero_means_no_limit() -> None:
    found = cluster(qconf={"ssconf": "maxujobs 100\n", "sconf": "#global:\nmax_aj_instances 0\n"})
    assert (found.max_user_jobs, found.max_array_tasks) == (100, None)
    assert (cluster().max_user_jobs, cluster().max_array_tasks) == (None, 2000)


def test_a_calendar_that_cannot_be_read_is_set_aside_alone() -> None:
    found = cluster(qconf={"scal_odd": "calendar_name odd\nweek someday\n", "scal_nights": "calendar_name nights\n"})
    assert (set(found.calendars), [r["what"] for r in found.set_aside]) == ({"nights"}, ["qconf scal_odd"])


def test_host_groups_are_resolved_to_hosts() -> None:
    texts = {"shgrp_@allhosts": "group_name @allhosts\nhostlist @a w9\n", "shgrp_@a": "group_name @a\nhostlist W1\n"}
    assert cluster(qconf=texts).host_groups == {"@allhosts": ("w1", "w9"), "@a": ("w1",)}


# -- details -------------------------------------------------------------------------------------------------


def details(body: str) -> bytes:
    return f"<?xml version='1.0'?>\n<detailed_job_info><djob_info>{body}</djob_info></detailed_job_info>".encode()


@pytest.mark.parametrize("start", ("1893456000", "1893456000000", "1893456000000000"))
def test_a_start_in_the_future_is_known_by_its_epoch(start: str) -> None:
    body = f"<element><JB_job_number>7</JB_job_number><JB_execution_time>{start}</JB_execution_time></element>"
    assert cluster(qstat_j=details(body)).details == {
        7: JobDetail(7, NOW, start_after=1893456000.0, group="", ckpt="", account="")
    }


@pytest.mark.parametrize(("number", "rerun"), (("0", None), ("1", True), ("2", False)))
def test_whether_a_job_is_rerunnable_is_known_unless_its_queue_decides(number: str, rerun: bool | None) -> None:
    body = f"<element><JB_job_number>7</JB_job_number><JB_restart>{number}</JB_restart></element>"
    assert cluster(qstat_j=details(body)).details[7].rerun is rerun


def test_a_detail_remembers_that_the_job_had_no_priority() -> None:
    listed = qstat([waiting_job(7, prio="0.00000"), waiting_job(8)], [queue_list("main.q@w1")])
    body = "".join(f"<element><JB_job_number>{n}</JB_job_number></element>" for n in (7, 8))
    found = cluster(listed, qstat_j=details(body)).details
    assert {number: detail.unscheduled for number, detail in found.items()} == {7: True, 8: False}


def test_jobs_that_no_longer_exist_have_no_detail_and_cause_no_failure() -> None:
    unknown = b"<?xml version='1.0'?>\n<unknown_jobs>\n <>\n <ST_name>1</ST_name>\n </>\n</unknown_jobs>\n"
    assert cluster(qstat_j=unknown).details == {}


def test_numbers_in_the_scheduler_messages_are_not_read_as_jobs() -> None:
    body = (
        "<element><JB_job_number>7</JB_job_number></element></djob_info><messages><element>"
        "<MES_job_number_list><ulong_sublist><ULNG_value>3</ULNG_value></ulong_sublist></MES_job_number_list>"
        "<JB_ja_task_concurrency>9</JB_ja_task_concurrency></element></messages><djob_info>"
    )
    assert cluster(qstat_j=details(body)).details == {7: JobDetail(7, NOW, group="", ckpt="", account="")}


# -- as a real cell printed it ----------------------------------------------------------------------------------


def test_a_recorded_reading_is_understood_whole() -> None:
    found = recorded()
    assert ([h.name for h in found.hosts], found.schedule_interval, found.set_aside) == (["w1", "w2"], 2.0, ())


def test_recorded_details_have_concurrency_start_rerun_and_context() -> None:
    found = recorded().details
    assert (found[3].concurrency, found[7].start_after, found[14].rerun, dict(found[14].context)) == (
        3,
        1893456000.0,
        True,
        {"WHY": "because & %lt;so>"},
    )


def test_a_recorded_disabled_host_reports_and_is_busy() -> None:
    (first, _) = recorded().hosts
    assert (first.name, first.instances[0].states, first.heard, first.busy) == ("w1", "d", True, True)


# -- reading once --------------------------------------------------------------------------------------------


def test_a_listing_already_read_in_another_zone_is_read_again() -> None:
    data = qstat([waiting_job(7)], [queue_list("main.q@w1")])
    outputs = Outputs(data, listing=read_qstat(data, UTC))
    found = cluster_from(outputs, zone=ZoneInfo("Europe/Berlin"), now=NOW)
    assert found.job_categories[0].submitted == (1795251863.0 - 3600,)


@pytest.mark.parametrize(
    ("configuration", "allowed"),
    (
        ("", True),
        ("jsv_url none\njsv_allowed_mod h,i\n", True),
        ("jsv_url NONE\njsv_allowed_mod h,i\n", True),
        ("jsv_url script:/jsv\njsv_allowed_mod ac,h,i\n", True),
        ("jsv_url script:/jsv\njsv_allowed_mod h,ac\n", True),
        ("jsv_url script:/jsv\njsv_allowed_mod h,i,account\n", False),
        ("jsv_url script:/jsv\njsv_allowed_mod none\n", False),
    ),
)
def test_jsv_allowed_mod_decides_whether_contexts_of_jobs_may_be_changed(configuration: str, allowed: bool) -> None:
    assert cluster(qconf={"sconf": f"#global:\n{configuration}"}).context_allowed is allowed
