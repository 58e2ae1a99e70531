"""The conversation with the qmaster stays in step, whatever a job's arguments hold."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import pytest

from autoscaler.core.model.cluster import UNLIMITED_SLOTS
from sge.jsv import LONGEST, Conversation, OutOfStep, read_request

WAIT = 5.0
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass
class QueueMaster:
    """The other side, and what our side made of each job."""

    outgoing: int
    incoming: int
    told: list[dict[str, str]] = field(default_factory=list)
    failed: list[Exception] = field(default_factory=list)

    def says(self, text: str) -> None:
        os.write(self.outgoing, text.encode())

    def hears(self) -> str:
        heard = b""
        while not heard.endswith(b"\n"):
            heard += os.read(self.incoming, 4096)
        return heard.decode().strip()

    def submits(self, *lines: str) -> str:
        """One job, line by line; the result."""
        self.says("START\n")
        assert self.hears() == "STARTED"
        self.says("".join(f"{line}\n" for line in (*lines, "BEGIN")))
        heard = self.hears()
        while "RESULT" not in heard:
            heard += f"\n{self.hears()}"
        return heard


@contextmanager
def conversation(sentence: str | None = None, corrected: Mapping[str, str] = NOTHING) -> Iterator[QueueMaster]:
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()
    master = QueueMaster(theirs_out, theirs_in)

    def refusal(told: Mapping[str, str]) -> str | None:
        master.told.append(dict(told))
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
        master.says("QUIT\n")
    assert master.told == [{"pe_name": "mpi", "pe_min": "4"}, {"l_hard": "h_vmem=2G"}]


def test_a_job_is_corrected_before_it_is_accepted_and_judged_as_corrected() -> None:
    with conversation(corrected={"pe_name": "mpi*"}) as master:
        heard = master.submits("PARAM A sge", "PARAM pe_name mpi", "PARAM pe_min 4")
    assert heard == "PARAM pe_name mpi*\nRESULT STATE CORRECT"
    assert master.told == [{"pe_name": "mpi*", "pe_min": "4"}]


def test_a_job_that_is_refused_is_not_corrected() -> None:
    with conversation("too much", {"pe_name": "mpi*"}) as master:
        assert master.submits("PARAM A sge", "PARAM pe_name mpi") == "RESULT STATE REJECT too much"


def test_a_sentence_is_one_line_of_bounded_length() -> None:
    with conversation("too much:\n" + "é" * 20_000) as master:
        result = master.submits()
    assert result.startswith("RESULT STATE REJECT too much: ??")
    assert len(result) <= LONGEST + len("RESULT STATE REJECT ")


@pytest.mark.parametrize(
    "argument", ("x\nBEGIN", "x\nBEGIN\ny", "x\nSTART", "x\nQUIT", "x\nBEGIN\nSTART\nPARAM l_hard a=1")
)
def test_what_a_jobs_arguments_seem_to_say_is_not_heard(argument: str) -> None:
    with conversation() as master:
        first = master.submits(
            "PARAM CMDARGS 2", f"PARAM CMDARG0 {argument}", "PARAM CMDARG1 z", "PARAM A sge", "PARAM N x"
        )
        second = master.submits("PARAM A sge", "PARAM pe_name mpi")
    assert (first, second) == ("RESULT STATE ACCEPT",) * 2
    assert master.told == [{}, {"pe_name": "mpi"}]


def test_arguments_cannot_ask_for_slots() -> None:
    with conversation() as master:
        master.submits("PARAM USER ann", "PARAM CMDARG0 x\nPARAM pe_name mpi\nPARAM pe_min 9999", "PARAM A sge")
    assert master.told == [{"USER": "ann"}]


def test_words_out_of_turn_end_the_conversation() -> None:
    """Else each job would get the answer to the one before it."""
    with conversation() as master:
        master.submits()
        master.says("PARAM late 1\n")
    assert [str(error) for error in master.failed] == ["PARAM late 1"]


def test_a_queue_master_that_dies_in_the_middle_ends_it() -> None:
    with conversation() as master:
        master.says("START\nPARAM A sge\nPARAM pe_")
    assert (master.told, master.failed) == ([], [])


@pytest.mark.parametrize(
    ("told", "slots"),
    (
        ({}, (1, 1)),
        ({"pe_name": "mpi", "pe_min": "4", "pe_max": "4"}, (4, 4)),
        ({"pe_name": "mpi", "pe_min": "4", "pe_max": "8"}, (4, UNLIMITED_SLOTS)),
        ({"pe_name": "mpi", "pe_min": "8", "pe_max": "4"}, (4, UNLIMITED_SLOTS)),
    ),
)
def test_the_fewest_slots_are_what_it_starts_with(told: dict[str, str], slots: tuple[int, int]) -> None:
    """Of `-pe mpi 8,4,100` the qmaster tells 4 and 8: that there is no more than 8 is not so."""
    ask = read_request(told)
    assert ask is not None
    assert (ask.slots_min, ask.slots_max) == slots


def test_requests_come_as_the_listing_shows_them() -> None:
    ask = read_request({"l_hard": "h_vmem=2G,arch=lx-amd64,exclusive", "q_hard": "main.q,*@w1", "masterq": "main.q"})
    assert ask is not None
    assert ask.hard == (("arch", "lx-amd64"), ("exclusive", "TRUE"), ("h_vmem", "2G"))
    assert (ask.queues, ask.master_queues) == (("main.q", "*@w1"), ("main.q",))


def test_a_job_of_an_advance_reservation_has_its_place() -> None:
    assert read_request({"ar": "3", "pe_name": "mpi", "pe_min": "4000", "pe_max": "4000"}) is None


@pytest.mark.parametrize("least", ("", "0", "-3", "four"))
def test_a_number_of_slots_that_is_none_is_an_error(least: str) -> None:
    with pytest.raises(ValueError):
        read_request({"pe_name": "mpi", "pe_min": least, "pe_max": least})
