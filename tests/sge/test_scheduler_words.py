"""What the scheduler says of a job that does not start, as 8.1.9 prints it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoscaler.core.model.evidence import Answer, KeptBy
from autoscaler.errors import CommandTimedOut
from autoscaler.process import Completed
from autoscaler.sge.scheduler_words import ask_scheduler, kept_by_of, messages_in

NOW = 1_800_000_000.0
FITS, NOT = Answer.SATISFIABLE, Answer.UNSATISFIABLE
MESSAGES = b"""<detailed_job_info><djob_info/><messages><element><SME_message_list><element>
<MES_job_number_list><ulong_sublist><ULNG_value>3</ULNG_value></ulong_sublist><ulong_sublist>
<ULNG_value>4</ULNG_value></ulong_sublist></MES_job_number_list><MES_message_number>0</MES_message_number>
<MES_message>(-l NONE) cannot run at host &quot;p1&quot; because it offers only hc:slots=0.000000 due to a
 reservation</MES_message></element></SME_message_list></element></messages></detailed_job_info>"""
RESERVED = '(-l NONE) cannot run at host "p1" because it offers only hc:slots=0.000000 due to a reservation'


@pytest.mark.parametrize(
    ("sentences", "present", "empty", "kept_by"),
    (
        ([RESERVED], FITS, FITS, KeptBy.HOSTS),
        (['cannot run in queue "main.q@p1" because it offers only qc:slots=0.000000 due to a reservation'], FITS, FITS,
         KeptBy.HOSTS),
        (['cannot run because it exceeds limit "////p1/" in rule "host-slots/1"'], NOT, NOT, KeptBy.HOSTS),
        (['cannot run because it exceeds limit "/////" in rule "q1/1"', 'cannot run in PE "local" because it only '
          "offers 0 slots"], FITS, FITS, KeptBy.ALL),
        (['cannot run because it exceeds limit "ann/////" in rule "q1/1"'], NOT, NOT, KeptBy.ALL),
        ([RESERVED, "(-l lic=1) cannot run globally because it offers only gc:lic=0.000000 due to a reservation"], FITS,
         FITS, KeptBy.ALL),
        (['queue instance "main.q@p1" dropped because it is overloaded: np_load_avg=2.4 (= 0.1 + 0.50 * 5)'], NOT, FITS,
         KeptBy.UNKNOWN),
        (['queue instance "main.q@p2" dropped because it is full'], FITS, FITS, KeptBy.NOTHING),
        (['cannot run in PE "mpi" because it only offers 2 slots'], NOT, FITS, KeptBy.HOSTS),
        (['cannot run in PE "mpi" because it only offers 2 slots'], NOT, NOT, KeptBy.UNKNOWN),
        ([], FITS, FITS, KeptBy.NOTHING),
        ([], Answer.NONE, Answer.NONE, KeptBy.UNKNOWN),
    ),
)  # fmt: skip
def test_a_cause_is_one_of_the_hosts_only_if_the_scheduler_says_so(
    sentences: Sequence[str], present: Answer, empty: Answer, kept_by: KeptBy
) -> None:
    assert kept_by_of(sentences, present, empty) is kept_by


def test_messages_are_read_by_job() -> None:
    found = messages_in(MESSAGES)
    assert found.keys() == {3, 4}
    assert "due to a" in found[3][0]
    assert '"p1"' in found[3][0]


def test_each_job_has_an_answer_whatever_the_commands_print() -> None:
    calls = []

    def runner(argv: Sequence[str], **_: object) -> Completed:
        calls.append(tuple(argv))
        said = MESSAGES if argv[0] == "qstat" else b"verification: found suitable queue(s)\n"
        return Completed(tuple(argv), 0, said, b"", 0.0)

    answers = ask_scheduler(runner, (3, 7), NOW)
    assert [answers[job].kept_by for job in (3, 7)] == [KeptBy.HOSTS, KeptBy.NOTHING]
    assert answers[3].said.startswith('cannot run at host "p1"')
    assert calls == [
        *(("qstat", "-j", "3", "-xml"), ("qalter", "-w", "p", "3"), ("qalter", "-w", "v", "3")),
        *(("qstat", "-j", "7", "-xml"), ("qalter", "-w", "p", "7"), ("qalter", "-w", "v", "7")),
    ]

    def failing(argv: Sequence[str], **_: object) -> Completed:
        return Completed(tuple(argv), 1, b"", b"error: commlib error", 0.0)

    assert ask_scheduler(failing, (3,), NOW)[3].kept_by is KeptBy.UNKNOWN


def test_a_job_that_the_scheduler_judges_for_a_minute_leaves_no_other_without_an_answer() -> None:
    """`-pe mpi 5-9999999` takes it 45 s."""
    seconds = [0.0]

    def runner(argv: Sequence[str], *, timeout: float, **_: object) -> Completed:
        if argv[0] == "qalter" and "3" in argv[-1]:
            seconds[0] += timeout
            raise CommandTimedOut(f"it did not end within {timeout:g} s and was killed")
        said = b"" if argv[0] == "qstat" else b"verification: found suitable queue(s)\n"
        return Completed(tuple(argv), 0, said, b"", 0.0)

    assert ask_scheduler(runner, (3, 7), NOW)[7].kept_by is KeptBy.NOTHING
    assert seconds[0] <= 3.0
