"""Which access lists are read, which details of jobs are needed, and what `doctor` reports about both."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

import pytest

from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.model.cluster import Access, AccessList
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.sge.access import HOSTS_AT_MOST, needs, read_restrictions
from autoscaler.sge.access_check import access_finding
from autoscaler.sge.checks import Level
from autoscaler.sge.detail import read_details
from autoscaler.sge.qconf import read_access_list, read_queue
from autoscaler.sge.qstat import read_qstat
from autoscaler.sge.queue_check import queue_finding
from autoscaler.sge.units import Clock

QUEUE = "qname main.q\nhostlist @allhosts\nslots 1\nuser_lists {}\nxuser_lists {}\nprojects {}\n"
STAFF = "name    staff\ntype    ACL\nfshare  0\noticket 0\nentries ann,@physics\n"
DEPT = "name    dept\ntype    DEPT\nfshare  0\noticket 0\nentries ann\n"
QUOTA = "{\n name q\n enabled TRUE\n limit users @staff to slots=2\n}\n"


def queue(user_lists: str = "NONE", xuser_lists: str = "NONE", projects: str = "NONE") -> str:
    return QUEUE.format(user_lists, xuser_lists, projects)


class Shown:
    """Answers of qconf, and the commands that were run."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, *switches: str, may_be_empty: bool = False) -> str:
        self.asked.append(" ".join(switches))
        return self.answers.get(self.asked[-1], "")


def test_an_access_list_names_users_and_groups() -> None:
    assert read_access_list(STAFF) == AccessList("staff", ("ann", "@physics"))


@pytest.mark.parametrize(("kinds", "grants"), (("ACL", True), ("DEPT", False), ("ACL DEPT", True)))
def test_only_a_set_of_type_acl_grants(kinds: str, grants: bool) -> None:
    assert read_access_list(f"name x\ntype    {kinds}\nentries NONE\n") == AccessList("x", (), grants)


def test_access_lists_of_a_queue_may_differ_by_host_group() -> None:
    found = read_queue(queue("staff,[@allhosts=dept other]", "guests"))
    assert (found.access, found.access_by_host) == (
        Access(user_lists=("staff",), xuser_lists=("guests",)),
        {"@allhosts": {"user_lists": ("dept", "other")}},
    )
    assert found.restricted == ("user_lists=staff", "xuser_lists=guests", "user_lists=[@allhosts=dept other]")


def test_no_command_runs_if_no_object_names_an_access_list() -> None:
    shown = Shown({})
    texts = {"sq_main.q": queue(), "srqs": "no resource quota set", "sel": "h1\n", "se_global": "hostname global\n"}
    assert (read_restrictions(texts, shown, ()), shown.asked) == ({}, [])


@pytest.mark.parametrize(
    "texts",
    (
        {"sq_main.q": queue("staff")},
        {"sq_main.q": queue("NONE,[@allhosts=staff]")},
        {"sp_mpi": "pe_name mpi\nslots 9\nuser_lists staff\nallocation_rule $fill_up\n"},
        {"se_global": "hostname global\nxuser_lists staff\n"},
        {"srqs": QUOTA},
    ),
)
def test_one_command_reads_the_access_lists_wherever_they_are_named(texts: dict[str, str]) -> None:
    shown = Shown({"-su staff": STAFF})
    assert (read_restrictions(texts, shown, ()), shown.asked) == ({"su_staff": STAFF}, ["-su staff"])


def test_hosts_of_our_workers_are_not_read_for_access_lists() -> None:
    shown = Shown({"-su staff": STAFF, "-se h1": "hostname h1\nuser_lists NONE\n"})
    found = read_restrictions({"sq_main.q": queue("staff"), "sel": "h1\nw1.example.org\n"}, shown, ("w1",))
    assert (set(found), shown.asked) == ({"su_staff", "se_h1"}, ["-se h1", "-su staff"])


def test_the_number_of_hosts_read_for_access_lists_is_bounded() -> None:
    shown = Shown({"-su staff": STAFF})
    hosts = "".join(f"h{number}\n" for number in range(300))
    read_restrictions({"sq_main.q": queue("staff"), "sel": hosts}, shown, ())
    assert len(shown.asked) == HOSTS_AT_MOST + 1


def test_a_quota_that_names_a_missing_access_list_hides_no_other_list() -> None:
    shown = Shown({"-su staff": STAFF})
    texts = {"sq_main.q": queue("staff"), "srqs": QUOTA.replace("@staff", "@nosuch")}
    assert set(read_restrictions(texts, shown, ())) == {"su_staff"}


LISTING = read_qstat(b"<?xml version='1.0'?>\n<job_info><queue_info></queue_info><job_info></job_info></job_info>", UTC)
RESERVED = b"<queuevalue qname='main.q' name='slots_resv'>1</queuevalue>"
FREE = b"<queuevalue qname='main.q' name='slots_resv'>0</queuevalue>"


@pytest.mark.parametrize(
    ("texts", "qhost", "expected"),
    (
        ({"sq_main.q": queue()}, FREE, Needs()),
        ({"sq_main.q": queue()}, RESERVED, Needs(reservation=True)),
        ({"sq_main.q": queue("staff"), "su_staff": STAFF}, FREE, Needs(group=True)),
        ({"sq_main.q": queue("staff"), "su_staff": STAFF.replace(",@physics", "")}, FREE, Needs()),
        ({"sq_main.q": queue(projects="blue")}, FREE, Needs(project=True)),
        ({"srqs": QUOTA, "su_staff": STAFF}, FREE, Needs(group=True, of_running=True)),
        ({"srqs": QUOTA, "su_staff": STAFF.replace(",@physics", "")}, FREE, Needs()),
        ({"srqs": QUOTA.replace("users @staff", "projects *")}, FREE, Needs(project=True, of_running=True)),
        ({"srqs": QUOTA.replace("TRUE", "FALSE").replace("users @staff", "projects *")}, FREE, Needs()),
        ({"sq_main.q": queue(), "sckptl": "blcr\n"}, FREE, Needs(ckpt=True)),
        ({"sq_main.q": f"{queue()}ckpt_list blcr\n", "sckptl": "blcr\n"}, FREE, Needs()),
        ({"sq_main.q": f"{queue()}ckpt_list blcr\nqtype NONE\n", "sckptl": "blcr\n"}, FREE, Needs(ckpt=True)),
        ({"sq_main.q": f"{queue()}qtype NONE\n"}, FREE, Needs()),
        ({"sq_main.q": f"{queue()}ckpt_list blcr,[@x=NONE]\n", "sckptl": "blcr\n"}, FREE, Needs(ckpt=True)),
    ),
)
def test_the_configuration_decides_which_details_of_jobs_are_needed(
    texts: dict[str, str], qhost: bytes, expected: Needs
) -> None:
    assert needs(texts, qhost, LISTING) == expected


def test_a_detail_has_group_project_and_reservation() -> None:
    body = (
        b"<JB_job_number>7</JB_job_number><JB_ar>3</JB_ar><JB_owner>ann</JB_owner><JB_group>physics</JB_group>"
        b"<JB_project>blue</JB_project>"
    )
    found = read_details(body, Clock(UTC), 0.0)[7]
    assert (found.group, found.project, found.reservation) == ("physics", "blue", 3)


@pytest.mark.parametrize(("kind", "immediate"), ((64, False), (65, True), (72, False), (73, True)))
def test_a_detail_has_the_checkpointing_environment_and_whether_a_job_starts_at_once(
    kind: int, immediate: bool
) -> None:
    body = f"<JB_job_number>7</JB_job_number><JB_checkpoint_name>blcr</JB_checkpoint_name><JB_type>{kind}</JB_type>"
    found = read_details(body.encode(), Clock(UTC), 0.0)[7]
    assert (found.ckpt, found.immediate) == ("blcr", immediate)


@pytest.mark.parametrize(
    ("texts", "level", "says"),
    (
        ({"sq_main.q": queue()}, Level.OK, "no access list"),
        ({"sq_main.q": queue("staff"), "su_staff": STAFF}, Level.WARN, "main.q is restricted by user_lists=staff"),
        (
            {"sq_main.q": queue("staff"), "su_staff": STAFF.replace("ann,@physics", "NONE")},
            Level.FAIL,
            "user_lists=staff names nobody",
        ),
        ({"sq_main.q": queue("dept"), "su_dept": DEPT}, Level.FAIL, "a set without the type ACL grants nothing"),
        ({"sq_main.q": queue("NONE", "dept"), "su_dept": DEPT}, Level.FAIL, "refuses all"),
        ({"sq_other.q": queue("staff")}, Level.OK, "no access list"),
        ({"sconf": "#global:\nenforce_project true\n"}, Level.WARN, "perhaps not root"),
        ({"se_h1": "hostname h1\nuser_lists staff\n", "su_staff": STAFF}, Level.WARN, "that only hosts name"),
    ),
)
def test_doctor_reports_whom_access_lists_exclude(texts: dict[str, str], level: Level, says: str) -> None:
    found = access_finding(texts, ("main.q",), "root")
    assert (found.level, says in found.found) == (level, True), found


@pytest.mark.parametrize(
    ("text", "level", "says"),
    (
        ("", Level.OK, "start batch jobs"),
        ("qtype NONE,[@workers=BATCH]\n", Level.OK, "start batch jobs"),
        ("qtype INTERACTIVE\n", Level.FAIL, "main.q starts no job that waits on workers (qtype INTERACTIVE)"),
        ("qtype BATCH,[@workers=NONE]\npe_list mpi\n", Level.WARN, "main.q starts only parallel jobs on workers"),
        ("sckptl", Level.WARN, "no autoscaled queue has blcr in its ckpt_list"),
    ),
)
def test_doctor_reports_which_jobs_the_autoscaled_queues_do_not_start(text: str, level: Level, says: str) -> None:
    texts = {"sq_main.q": f"{queue()}{text.removeprefix('sckptl')}", "sckptl": "blcr\n" if text == "sckptl" else ""}
    found = queue_finding(texts, (NodeArrayPolicy("execute", "main.q", "@workers", instance_type="m5.large"),))
    assert (found.level, says in found.found) == (level, True), found
