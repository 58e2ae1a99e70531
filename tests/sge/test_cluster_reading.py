"""Reading everything that a pass needs from Grid Engine once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC

import pytest

from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.model.cluster import JobCategory
from autoscaler.errors import CommandNotFound, CommandTimedOut, GridEngineNotObservable
from autoscaler.process import Completed, ReadOnlyRunner
from autoscaler.sge.cluster import Outputs, cluster_from, read_outputs
from tests.sge.printed import host, qhost, qstat, queue_list, queue_of_host, waiting_job

QSTAT = qstat([waiting_job(7), waiting_job(8, tasks="1-4:1")], [queue_list("main.q@w1")])
ANSWERS: dict[str, bytes] = {
    "qstat -u * -s a -r -f -xml": QSTAT,
    "qhost -q -F -xml": qhost(host("w1", queue_of_host())),
    "qstat -j 8 -xml": b"<detailed_job_info><JB_job_number>8</JB_job_number></detailed_job_info>",
    "qconf -sc": b"slots s INT <= YES YES 1 1000\n",
    "qconf -sel": b"w1\n",
    "qconf -sckptl": b"blcr\n",
    "qconf -se global": b"hostname global\ncomplex_values NONE\n",
    "qconf -srqs": b"{\n name x\n enabled TRUE\n limit to slots=9\n}\n",
    "qconf -ssconf": b"schedule_interval 0:0:2\n",
    "qconf -sconf": b"#global:\nmax_unheard 00:00:20\n",
    "qconf -sql": b"main.q\n",
    "qconf -spl": b"mpi\n",
    "qconf -shgrpl": b"@allhosts\n",
    "qconf -sq main.q": b"qname main.q\nhostlist @allhosts\nslots 4\npe_list mpi\n",
    "qconf -sp mpi": b"pe_name mpi\nslots 99\nallocation_rule $fill_up\n",
    "qconf -shgrp @allhosts": b"group_name @allhosts\nhostlist w1\n",
}


@dataclass
class Master:
    """A runner that answers as written down; an exception is raised, a pair is exit status and error output."""

    changed: Mapping[str, bytes | Exception | tuple[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], *, timeout: float, **_: object) -> Completed:
        command = " ".join(argv)
        self.asked.append(command)
        self.timeouts.append(timeout)
        answer = self._answer(tuple(argv))
        if isinstance(answer, Exception):
            raise answer
        status, stdout, stderr = (*(answer[:1]), b"", answer[1]) if isinstance(answer, tuple) else (0, answer, b"")
        return Completed(tuple(argv), status, stdout, stderr, 0.0)

    def _answer(self, argv: tuple[str, ...]) -> bytes | Exception | tuple[int, bytes]:
        """As written down for the whole command; several switches print what each prints alone."""
        written = {**ANSWERS, **self.changed}
        starts = [place for place, word in enumerate(argv) if word.startswith("-")]
        if (command := " ".join(argv)) in written or argv[0] != "qconf" or len(starts) < 2:
            return written[command]
        parts = [argv[start:end] for start, end in zip(starts, [*starts[1:], len(argv)], strict=True)]
        answers = [written[" ".join(("qconf", *part))] for part in parts]
        failure = next((one for one in answers if isinstance(one, Exception)), None)
        return failure or b"".join(one for one in answers if isinstance(one, bytes))


def arrays(job_categories: Sequence[JobCategory], _: Needs) -> list[int]:
    return [number for category in job_categories if category.ask.array for number in category.jobs]


def none(_: Sequence[JobCategory], __: Needs) -> tuple[int, ...]:
    return ()


def read(master: Master, wanted: Callable[[Sequence[JobCategory], Needs], Sequence[int]] = arrays) -> Outputs:
    return read_outputs(ReadOnlyRunner(master), wanted=wanted, zone=UTC)[0]


def test_a_whole_reading_makes_a_whole_cluster() -> None:
    found = cluster_from(read(Master()), zone=UTC, now=0.0)
    assert (
        [h.name for h in found.hosts],
        set(found.queues),
        set(found.pes),
        dict(found.host_groups),
        set(found.details),
        len(found.quotas),
        found.max_unheard,
        found.set_aside,
    ) == (["w1"], {"main.q"}, {"mpi"}, {"@allhosts": ("w1",)}, {8}, 1, 20.0, ())


def test_keys_of_the_configuration_are_file_names_of_a_record_folder() -> None:
    assert sorted(read(Master()).qconf) == sorted(
        ("sc", "sel", "sckptl", "se_global", "srqs", "ssconf", "sconf", "sq_main.q", "sp_mpi", "shgrp_@allhosts")
    )


def test_only_calendars_that_queues_name_are_read_each_once() -> None:
    day = b"calendar_name days\nyear NONE\nweek mon-sun=20-6\n"
    main = ANSWERS["qconf -sq main.q"] + b"calendar nights,[@big=days],[w1=nights]\n"
    changed = {
        "qconf -sql": b"main.q\nodd.q\n",
        "qconf -sq odd.q": b"what?\n",
        "qconf -sq main.q": main,
        "qconf -scal nights": b"calendar_name nights\nyear NONE\nweek 6-20\n",
        "qconf -scal days": day,
    }
    master = Master(changed)
    outputs = read(master)
    assert [command for command in master.asked if "-scal" in command] == ["qconf -scal nights -scal days"]
    assert set(cluster_from(outputs, zone=UTC, now=0.0).calendars) == {"nights", "days"}


def test_qhost_runs_directly_after_qstat() -> None:
    master = Master()
    read(master)
    assert master.asked[:2] == ["qstat -u * -s a -r -f -xml", "qhost -q -F -xml"]


def test_every_call_has_a_timeout() -> None:
    master = Master()
    read(master)
    assert min(master.timeouts) > 0


def test_details_of_jobs_are_read_by_one_command() -> None:
    master = Master({"qstat -j 7,8 -xml": b"<detailed_job_info/>"})
    read(
        master,
        wanted=lambda job_categories, _: sorted(number for category in job_categories for number in category.jobs),
    )
    assert [command for command in master.asked if " -j " in command] == ["qstat -j 7,8 -xml"]


def test_no_command_runs_if_no_detail_is_needed() -> None:
    master = Master()
    outputs = read(master, wanted=none)
    assert (outputs.qstat_j, [c for c in master.asked if " -j " in c]) == (None, [])


@pytest.mark.parametrize(
    "answer",
    (
        b"<?xml version='1.0'?>\n<unknown_jobs>\n<>\n<ST_name>8</ST_name>\n</>\n</unknown_jobs>\n",
        (1, b"Following jobs do not exist: \n8\n"),
    ),
)
def test_a_job_that_ends_before_its_detail_is_read_causes_no_failure(answer: bytes | tuple[int, bytes]) -> None:
    found = cluster_from(read(Master({"qstat -j 8 -xml": answer})), zone=UTC, now=0.0)
    assert (found.details, found.set_aside) == ({}, ())


@pytest.mark.parametrize(
    ("command", "said", "stem"),
    (
        ("qconf -srqs", b"No resource quota set found\n", "srqs"),
        ("qconf -spl", b"no parallel environment defined\n", "sp_mpi"),
        ("qconf -shgrpl", b"no host group list defined\n", "shgrp_@allhosts"),
        ("qconf -sql", b"no cqueue list defined\n", "sq_main.q"),
    ),
)
def test_a_list_that_qconf_reports_as_empty_is_empty(command: str, said: bytes, stem: str) -> None:
    outputs = read(Master({command: (1, said)}))
    assert not outputs.qconf.get(stem)


@pytest.mark.parametrize(
    ("command", "stem"), (("qconf -sql", "sq_main.q"), ("qconf -spl", "sp_mpi"), ("qconf -srqs", "srqs"))
)
def test_a_warning_before_a_list_does_not_empty_it(command: str, stem: str) -> None:
    outputs = read(Master({command: b"no license server found\n" + ANSWERS[command]}))
    assert outputs.qconf[stem].endswith(
        ANSWERS[command if stem == "srqs" else f"qconf -{stem.replace('_', ' ')}"].decode()
    )


COMMLIB = b"error: commlib error: got select error (Connection refused)\n"


LISTING, OF_A_JOB = "qstat -u * -s a -r -f -xml", "qstat -j 8 -xml"


@pytest.mark.parametrize("command", tuple(ANSWERS))
@pytest.mark.parametrize(
    "failure",
    (
        (1, COMMLIB),
        CommandTimedOut("it did not end within 30 s and was killed"),
        CommandNotFound("cannot run it"),
    ),
    ids=("refused", "hung", "missing"),
)
def test_any_command_that_fails_ends_the_reading(command: str, failure: Exception | tuple[int, bytes]) -> None:
    if isinstance(failure, CommandTimedOut) and command == OF_A_JOB:
        pytest.skip("such a job counts as one that was not looked up yet")
    with pytest.raises(GridEngineNotObservable, match="nothing was decided"):
        read(Master({"qstat -u * -s a -f -xml": failure, command: failure}))


def test_a_job_whose_details_take_too_long_is_one_that_was_not_looked_up() -> None:
    found = read(Master({OF_A_JOB: CommandTimedOut("it did not end within 3 s and was killed")}))
    assert found.qstat_j is None
    assert cluster_from(found, zone=UTC, now=0.0).details == {}


@pytest.mark.parametrize("command", ("qstat -u * -s a -r -f -xml", "qhost -q -F -xml", "qconf -sc", "qconf -sq main.q"))
def test_an_empty_answer_with_exit_status_0_ends_the_reading(command: str) -> None:
    with pytest.raises(GridEngineNotObservable, match="nothing at all"):
        read(Master({command: b""}))


def test_a_truncated_listing_with_exit_status_0_ends_the_reading() -> None:
    with pytest.raises(GridEngineNotObservable, match="cut short"):
        read(Master({"qstat -u * -s a -r -f -xml": QSTAT[:-40]}))


def test_a_failure_carries_grid_engines_message() -> None:
    with pytest.raises(GridEngineNotObservable, match="got select error"):
        read(Master({"qconf -sconf": (1, COMMLIB)}))


def test_the_seconds_of_reading_and_parsing_are_reported() -> None:
    _, timings = read_outputs(Master(), wanted=none, zone=UTC)
    assert set(timings) == {"read", "parse"}
    assert min(timings.values()) >= 0
