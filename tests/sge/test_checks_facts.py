"""The facts for `doctor` come from the output of commands; a missing output is a fact as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from autoscaler.errors import CommandNotFound
from autoscaler.process import Completed
from autoscaler.sge.checks import Facts, Level, Resolved
from autoscaler.sge.facts import gather, rights
from tests.sge.printed import qstat, queue_list, running_job

QPING = """11/21/2026 11:20:48:
SIRM version:             0.1
start time:               11/21/2026 11:06:21 (1795259181)
run time [s]:             867
messages in read buffer:  0
"""
QSTAT = qstat(
    (),
    [
        queue_list("main.q@w1", running_job(1), used=1, total=8),
        queue_list("main.q@w2", state="au"),
        queue_list("main.q@w3", state="d"),
    ],
).decode()
ANSWERS = {
    "qconf -sss": "master\n",
    "qconf -sel": "w1\nw2\n",
    "qconf -sm": "root\nsgeadmin\n",
    "qconf -sh": "master\n",
    "qconf -ss": "master\n",
    "qconf -sconf": "#global:\nmax_unheard                  00:00:20\njsv_url                      none\n",
    "qstat -u * -s a -r -f -xml": QSTAT,
    "qping -info master 6444 qmaster 1": QPING,
    "id -un": "root\n",
    "hostname": "master\n",
    "cat /sge/default/common/bootstrap": "admin_user sgeadmin\nignore_fqdn             true\n",
    "cat /root/.sge_request": "-cwd\n",
    "getent ahostsv4 w1": "10.1.0.11     STREAM w1\n10.1.0.11     DGRAM\n",
    "getent hosts 10.1.0.11": "10.1.0.11       w1.example.org w1\n",
}


def answering(answers: Mapping[str, str]) -> object:
    def runner(argv: Sequence[str], **_: object) -> Completed:
        line = " ".join(argv)
        if line in answers:
            return Completed(tuple(argv), 0, answers[line].encode(), b"", 0.0)
        if argv[0] == "qconf":
            return Completed(tuple(argv), 1, b"", b"no host group list defined", 0.0)
        raise CommandNotFound(f"cannot run {argv[0]}")

    return runner


def facts(answers: Mapping[str, str] = ANSWERS) -> Facts:
    environ = {"SGE_ROOT": "/sge", "SGE_QMASTER_PORT": "6444", "HOME": "/root"}
    return gather(answering(answers), environ, lambda _: (), now=lambda: 1795260050.5, qevent=True)  # type: ignore[arg-type]


def test_the_clock_skew_of_qmaster_comes_from_its_start_and_run_time() -> None:
    assert facts().clock_skew == -2.5


def test_a_warning_before_the_name_of_the_master_is_skipped() -> None:
    assert facts({**ANSWERS, "qconf -sss": "warning: old licence\nMaster\n"}).master == "master"


def test_clock_skew_is_unknown_without_qping() -> None:
    assert facts({key: text for key, text in ANSWERS.items() if not key.startswith("qping")}).clock_skew is None


def test_only_slots_of_instances_without_a_state_are_up() -> None:
    assert facts().slots_up == 8


def test_names_of_hosts_are_resolved_forward_and_back() -> None:
    assert facts().names == (
        Resolved("master", None, None),
        Resolved("w1", "10.1.0.11", "w1"),
        Resolved("w2", None, None),
    )


def test_ignore_fqdn_is_read_from_the_bootstrap_file() -> None:
    assert facts().ignore_fqdn is True


def test_missing_default_request_files_are_left_out() -> None:
    assert facts().defaults == {"/root/.sge_request": "-cwd\n"}


def test_none_in_the_configuration_is_an_empty_value() -> None:
    assert (facts().configuration["max_unheard"], facts().configuration["jsv_url"]) == ("00:00:20", "")


def test_a_qmaster_that_does_not_answer_is_a_fact() -> None:
    def silent(argv: Sequence[str], **_: object) -> Completed:
        return Completed(tuple(argv), 1, b"", b"error: commlib error: got select error (Connection refused)", 0.0)

    assert "Connection refused" in gather(silent, {}, lambda _: (), now=lambda: 0.0, qevent=False).unreachable


def test_a_missing_grid_engine_is_a_fact() -> None:
    def absent(argv: Sequence[str], **_: object) -> Completed:
        raise CommandNotFound(f"cannot run {argv[0]}: No such file or directory")

    assert "cannot run qconf" in gather(absent, {}, lambda _: (), now=lambda: 0.0, qevent=False).unreachable


@pytest.mark.parametrize(
    ("managers", "level"), (("root\nsgeadmin\n", Level.OK), ("sgeadmin\n", Level.FAIL), (None, None))
)
def test_the_rights_of_this_process_are_known_unless_qmaster_is_silent(
    managers: str | None, level: Level | None
) -> None:
    said = {"id -un": "root\n", "hostname": "master\n", "qconf -sh": "master\n"} | (
        {} if managers is None else {"qconf -sm": managers}
    )

    def runner(argv: Sequence[str], **_: object) -> Completed:
        text = said.get(" ".join(argv))
        if text is None and argv[0] == "qconf":
            return Completed(tuple(argv), 1, b"", b"error: commlib error: got select error", 0.0)
        return Completed(tuple(argv), 0, (text or "").encode(), b"", 0.0)

    found = rights(runner, {"SGE_ROOT": "/sge"})
    assert (None if found is None else found.level) == level
