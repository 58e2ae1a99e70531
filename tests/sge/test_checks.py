"""Each check decides from facts alone, and a bad finding has a remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.sge import checks
from autoscaler.sge.checks import Facts, Finding, Level, Resolved, check_all
from autoscaler.sge.jsv_setup import State
from autoscaler.sge.prepare import Difference

SOUND = Facts(
    root="/opt/sge",
    cell="default",
    port="6444",
    master="master",
    user="root",
    host="master",
    managers=("root",),
    admin_hosts=("master",),
    submit_hosts=("master",),
    execution_hosts=("w1", "w2"),
    ignore_fqdn=True,
    names=(Resolved("master", "10.0.0.1", "master"), Resolved("w1", "10.0.0.2", "w1.example.org")),
    clock_skew=0.4,
    configuration={"max_unheard": "00:05:00", "load_report_time": "00:00:40", "reschedule_unknown": "00:00:00"},
    qevent=True,
    defaults={"/opt/sge/default/common/sge_request": "# -w e\n-cwd\n-w w\n"},
    slots_up=2,
)
MISSING = Difference("queue", "main.q", "", "qname main.q\n", (("-Aq", "FILE"),))
OTHERWISE = Difference("host group", "@allhosts", "hostlist NONE\n", "hostlist master\n", ())

Check = Callable[[Facts], Finding]


def with_configuration(**values: str) -> Facts:
    return replace(SOUND, configuration={**SOUND.configuration, **values})


def verified(state: State) -> Facts:
    return replace(SOUND, verifier=state)


OURS = State("/v", runs=True, ours=True, current=True, fresh=True)


def with_request(text: str, path: str = "/opt/sge/default/common/sge_request") -> Facts:
    return replace(SOUND, defaults={path: text})


def test_a_sound_grid_engine_has_only_ok_findings() -> None:
    assert {finding.what for finding in check_all(SOUND) if finding.level is not Level.OK} == set()


def test_an_ok_finding_has_no_remedy() -> None:
    assert {finding.remedy for finding in check_all(SOUND)} == {""}


def test_without_a_qmaster_no_other_check_runs() -> None:
    findings = check_all(replace(SOUND, unreachable="got send error"))
    assert [(finding.what, finding.level) for finding in findings] == [("qmaster", Level.FAIL)]


def test_the_remedy_for_a_denied_host_is_to_make_it_an_admin_host() -> None:
    denied = replace(SOUND, unreachable='denied: host "w1" is neither submit nor admin host', host="w1")
    assert checks.answers(denied).remedy == "on an admin host: qconf -ah w1"


CASES: tuple[tuple[str, Check, Facts, Level], ...] = (
    ("nobody of ours is a manager", checks.manager_rights, replace(SOUND, user="alice"), Level.FAIL),
    ("not on an admin host", checks.manager_rights, replace(SOUND, admin_hosts=("other",)), Level.FAIL),
    ("not on a submit host", checks.submit_host, replace(SOUND, submit_hosts=()), Level.WARN),
    ("a worker without address", checks.names_resolve, replace(SOUND, names=(Resolved("w1", None, None),)), Level.WARN),
    (
        "a master without address",
        checks.names_resolve,
        replace(SOUND, names=(Resolved("master", None, None),)),
        Level.FAIL,
    ),
    (
        "an address that is somebody else's",
        checks.names_resolve,
        replace(SOUND, names=(Resolved("w1", "10.0.0.2", "w2"),)),
        Level.WARN,
    ),
    (
        "a full name where short ones count",
        checks.names_resolve,
        replace(SOUND, ignore_fqdn=False, names=(Resolved("w1", "10.0.0.2", "w1.example.org"),)),
        Level.WARN,
    ),
    (
        "short and full names mixed",
        checks.full_names,
        replace(SOUND, ignore_fqdn=False, execution_hosts=("w1", "w2.example.org")),
        Level.WARN,
    ),
    (
        "full names throughout",
        checks.full_names,
        replace(SOUND, ignore_fqdn=False, execution_hosts=("w1.example.org", "w2.example.org")),
        Level.OK,
    ),
    ("an unreadable bootstrap file", checks.full_names, replace(SOUND, ignore_fqdn=None), Level.WARN),
    ("a clock 5 s off", checks.clock, replace(SOUND, clock_skew=-5.0), Level.WARN),
    ("a clock 2 min off", checks.clock, replace(SOUND, clock_skew=120.0), Level.FAIL),
    ("an unknown clock", checks.clock, replace(SOUND, clock_skew=None), Level.WARN),
    ("hosts lost between two reports", checks.max_unheard, with_configuration(max_unheard="00:01:00"), Level.FAIL),
    ("dead hosts kept for an hour", checks.max_unheard, with_configuration(max_unheard="01:00:00"), Level.WARN),
    ("an odd max_unheard", checks.max_unheard, with_configuration(max_unheard="INFINITY"), Level.WARN),
    (
        "Grid Engine starting jobs twice",
        checks.reschedule_unknown,
        with_configuration(reschedule_unknown="00:10:00"),
        Level.WARN,
    ),
    ("no qevent", checks.events, replace(SOUND, qevent=False), Level.WARN),
    ("a host that may not listen", checks.events, replace(SOUND, submit_hosts=(), admin_hosts=()), Level.WARN),
    ("an admin host may listen", checks.events, replace(SOUND, submit_hosts=()), Level.OK),
    ("every job verified", checks.default_options, with_request("-cwd -w e\n"), Level.FAIL),
    ("every job now or never", checks.default_options, with_request("-now yes\n"), Level.FAIL),
    ("-w e in a comment", checks.default_options, with_request("# -w e\n"), Level.OK),
    ("an unbalanced quote", checks.default_options, with_request('-N "x -w e\n'), Level.FAIL),
    ("jobs hidden by default", checks.default_options, with_request("-s r\n", "/root/.sge_qstat"), Level.FAIL),
    ("qstat asked for everybody", checks.default_options, with_request("-u *\n", "/root/.sge_qstat"), Level.OK),
    ("nothing up", checks.empty_cluster, replace(SOUND, slots_up=0), Level.WARN),
    ("a missing queue", checks.prepared, replace(SOUND, differences=(MISSING,)), Level.FAIL),
    ("a host group otherwise", checks.prepared, replace(SOUND, differences=(OTHERWISE,)), Level.WARN),
    ("another verifier", checks.submission_verifier, verified(State("/opt/jsv", runs=True, ours=False)), Level.WARN),
    ("no script", checks.submission_verifier, verified(State("/opt/jsv", runs=False, ours=False)), Level.FAIL),
    ("our verifier", checks.submission_verifier, verified(OURS), Level.OK),
    ("an old verifier", checks.submission_verifier, verified(replace(OURS, current=False)), Level.WARN),
    ("a blind verifier", checks.submission_verifier, verified(replace(OURS, fresh=False)), Level.WARN),
)


@pytest.mark.parametrize(("check", "facts", "level"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_check_finds_the_expected_level(check: Check, facts: Facts, level: Level) -> None:
    assert check(facts).level is level


BAD = [case for case in CASES if case[3] is not Level.OK]


@pytest.mark.parametrize(("check", "facts"), [case[1:3] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_finding_has_a_remedy(check: Check, facts: Facts) -> None:
    assert check(facts).remedy


def test_the_remedy_for_missing_manager_rights_is_a_command() -> None:
    assert "qconf -am alice" in checks.manager_rights(replace(SOUND, user="alice")).remedy


def test_many_names_that_do_not_resolve_are_abbreviated_in_one_finding() -> None:
    names = tuple(Resolved(f"w{number}", f"10.0.0.{number}", "elsewhere") for number in range(20))
    assert checks.names_resolve(replace(SOUND, names=names)).found.endswith("and 15 more")


@pytest.mark.parametrize("changes", ({}, {"unreachable": "got send error"}))
def test_no_check_fails_on_facts_that_are_all_unknown(changes: dict[str, Any]) -> None:
    assert check_all(Facts(**changes))


def test_a_finding_about_one_item_uses_the_singular() -> None:
    findings = [finding.found for finding in check_all(SOUND)]
    assert any(each == "1 name resolves both ways" or each.endswith(" names resolve both ways") for each in findings)
    assert "none that hurt in 1 file of default options" in findings
