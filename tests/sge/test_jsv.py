"""The conversation with the qmaster stays in step, whatever a job's arguments hold."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import sleep
from types import MappingProxyType

import pytest

from autoscaler.core.model.cluster import UNLIMITED_SLOTS
from autoscaler.sge.jsv import LONGEST, LONGEST_LINE, REST, Conversation, OutOfStep, read_request

WAIT = 5.0
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass
class Qmaster:
    """The side of qmaster, and what our side read of each job."""

    outgoing: int
    incoming: int
    received: list[dict[str, str]] = field(default_factory=list)
    failed: list[Exception] = field(default_factory=list)

    def sends(self, text: str) -> None:
        os.write(self.outgoing, text.encode())

    def receives(self) -> str:
        answer = b""
        while not answer.endswith(b"\n"):
            answer += os.read(self.incoming, 4096)
        return answer.decode().strip()

    def submits(self, *lines: str) -> str:
        """One job, line by line; the result."""
        self.sends("START\n")
        assert self.receives() == "STARTED"
        self.sends("".join(f"{line}\n" for line in (*lines, "BEGIN")))
        answer = self.receives()
        while "RESULT" not in answer:
            answer += f"\n{self.receives()}"
        return answer


@contextmanager
def conversation(sentence: str | None = None, corrected: Mapping[str, str] = NOTHING) -> Iterator[Qmaster]:
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()
    master = Qmaster(theirs_out, theirs_in)

    def refusal(received: Mapping[str, str]) -> str | None:
        master.received.append(dict(received))
        return sentence

    def hold() -> None:
        try:
            Conversation(ours_in, ours_out, refusal, lambda _: corrected).hold()
        except OutOfStep as error:
            master.failed.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield master
    finally:
        os.close(theirs_out)
        thread.join(WAIT)
        for end in (ours_in, theirs_in, ours_out):
            os.close(end)
        assert not thread.is_alive()


def test_jobs_are_answered_one_after_another() -> None:
    with conversation() as master:
        assert master.submits("PARAM A sge", "PARAM pe_name mpi", "PARAM pe_min 4") == "RESULT STATE ACCEPT"
        assert master.submits("PARAM A sge", "PARAM l_hard h_vmem=2G") == "RESULT STATE ACCEPT"
        master.sends("QUIT\n")
    assert master.received == [{"pe_name": "mpi", "pe_min": "4"}, {"l_hard": "h_vmem=2G"}]


def test_a_job_is_corrected_before_it_is_accepted_and_judged_as_corrected() -> None:
    with conversation(corrected={"pe_name": "mpi*"}) as master:
        answer = master.submits("PARAM A sge", "PARAM pe_name mpi", "PARAM pe_min 4")
    assert answer == "PARAM pe_name mpi*\nRESULT STATE CORRECT"
    assert master.received == [{"pe_name": "mpi*", "pe_min": "4"}]


def test_a_job_that_is_refused_is_not_corrected() -> None:
    with conversation("too much", {"pe_name": "mpi*"}) as master:
        assert master.submits("PARAM A sge", "PARAM pe_name mpi") == "RESULT STATE REJECT too much"


def test_a_line_of_many_megabytes_is_not_kept_and_the_next_job_is_read() -> None:
    long = "main.q," * 1_000_000
    with conversation() as master:
        assert master.submits("PARAM A sge", f"PARAM hold_jid {long}", f"PARAM q_hard {long}") == "RESULT STATE ACCEPT"
        assert master.submits("PARAM A sge", "PARAM l_hard h_vmem=2G") == "RESULT STATE ACCEPT"
    assert len(master.received[0]["q_hard"]) < LONGEST_LINE + 100_000
    assert master.received[1] == {"l_hard": "h_vmem=2G"}


def test_a_sentence_is_one_line_of_bounded_length() -> None:
    with conversation("too much:\n" + "é" * 20_000) as master:
        result = master.submits()
    assert result.startswith("RESULT STATE REJECT too much: ??")
    assert len(result) <= LONGEST + len("RESULT STATE REJECT ")


@pytest.mark.parametrize(
    "argument", ("x\nBEGIN", "x\nBEGIN\ny", "x\nSTART", "x\nQUIT", "x\nBEGIN\nSTART\nPARAM l_hard a=1")
)
def test_arguments_of_a_job_are_not_read_as_protocol_lines(argument: str) -> None:
    with conversation() as master:
        first = master.submits(
            "PARAM CMDARGS 2", f"PARAM CMDARG0 {argument}", "PARAM CMDARG1 z", "PARAM A sge", "PARAM N x"
        )
        second = master.submits("PARAM A sge", "PARAM pe_name mpi")
    assert (first, second) == ("RESULT STATE ACCEPT",) * 2
    assert master.received == [{}, {"pe_name": "mpi"}]


def test_arguments_cannot_ask_for_slots() -> None:
    with conversation() as master:
        master.submits("PARAM USER ann", "PARAM CMDARG0 x\nPARAM pe_name mpi\nPARAM pe_min 9999", "PARAM A sge")
    assert master.received == [{"USER": "ann"}]


@pytest.mark.parametrize("rest", ("y", "START", "QUIT", "", "PARAM A x\nBEGIN", "BEGIN", "\n\nSTART"))
def test_a_job_whose_arguments_say_begin_where_the_qmaster_pauses_is_answered_once(rest: str) -> None:
    """A pipe that is full just there; else the verifier ends, and for ten seconds nobody can submit."""
    with conversation() as master:
        master.sends("START\n")
        assert master.receives() == "STARTED"
        master.sends("PARAM CMDARG0 x\nBEGIN\n")
        assert master.receives() == "RESULT STATE ACCEPT"
        master.sends(f"{rest}\nPARAM CMDARG1 z\n")
        sleep(0.05)
        master.sends("PARAM CMDARG2 x\nBEGIN\n")
        sleep(0.05)
        master.sends("PARAM A sge\nBEGIN\n")
        sleep(0.05)
        assert master.submits("PARAM A sge", "PARAM pe_name mpi") == "RESULT STATE ACCEPT"
        assert master.submits("PARAM A sge", "PARAM pe_name smp") == "RESULT STATE ACCEPT"
        master.sends("QUIT\n")
    assert master.received[1:] == [{"pe_name": "mpi"}, {"pe_name": "smp"}]
    assert master.failed == []


def test_a_line_out_of_turn_ends_the_conversation() -> None:
    """Else each job would get the answer to the one before it."""
    with conversation() as master:
        master.submits()
        master.sends("PARAM late 1\n")
        sleep(REST + 0.5)
    assert [str(error) for error in master.failed] == ["PARAM late 1"]


def test_a_qmaster_that_dies_during_a_job_ends_the_conversation() -> None:
    with conversation() as master:
        master.sends("START\nPARAM A sge\nPARAM pe_")
    assert (master.received, master.failed) == ([], [])


@pytest.mark.parametrize(
    ("received", "slots"),
    (
        ({}, (1, 1)),
        ({"pe_name": "mpi", "pe_min": "4", "pe_max": "4"}, (4, 4)),
        ({"pe_name": "mpi", "pe_min": "4", "pe_max": "8"}, (4, UNLIMITED_SLOTS)),
        ({"pe_name": "mpi", "pe_min": "8", "pe_max": "4"}, (4, UNLIMITED_SLOTS)),
    ),
)
def test_a_job_starts_with_its_smallest_number_of_slots(received: dict[str, str], slots: tuple[int, int]) -> None:
    """Of `-pe mpi 8,4,100` the qmaster sends 4 and 8, although it may be more than 8."""
    ask = read_request(received)
    assert ask is not None
    assert (ask.slots_min, ask.slots_max) == slots


def test_requests_are_read_as_the_listing_shows_them() -> None:
    ask = read_request({"l_hard": "h_vmem=2G,arch=lx-amd64,exclusive", "q_hard": "main.q,*@w1", "masterq": "main.q"})
    assert ask is not None
    assert ask.hard == (("arch", "lx-amd64"), ("exclusive", "TRUE"), ("h_vmem", "2G"))
    assert (ask.queues, ask.master_queues) == (("main.q", "*@w1"), ("main.q",))


def test_a_job_of_an_advance_reservation_is_not_judged() -> None:
    assert read_request({"ar": "3", "pe_name": "mpi", "pe_min": "4000", "pe_max": "4000"}) is None


@pytest.mark.parametrize("least", ("", "0", "-3", "four"))
def test_an_invalid_number_of_slots_is_an_error(least: str) -> None:
    with pytest.raises(ValueError):
        read_request({"pe_name": "mpi", "pe_min": least, "pe_max": least})
