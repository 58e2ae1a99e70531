"""The verifier of submissions on a real qmaster: it refuses with plan's sentence, and fails open."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from autoscaler.lab.cell import Cell
from sge.jsv_setup import ALL_MODIFICATIONS, Place
from sge.qconf import read_attributes
from tests.grid_engine.autoscaling import Autoscaling

TOO_LARGE = "it requests 100 slots on one host; the largest allowed is m5.large with 2"
HOPELESS = ("-b", "y", "-h", "-pe", "local", "100", "true")
HELD = ("-b", "y", "-h", "true")


def place(cell: Cell) -> Place:
    return Place(cell.root / "default" / "common", "")


def refused(cell: Cell, *argv: str) -> bool:
    """Whether `qsub` makes no job of it, and says our sentence then."""
    ended = cell.runner(("qsub", *argv), timeout=60.0)
    said = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    assert (ended.returncode == 0) is (TOO_LARGE not in said), said
    return ended.returncode != 0


def refusals(cell: Cell, happenings: dict[str, Callable[[], object]]) -> list[str]:
    """What must have happened before a hopeless job is refused."""
    told = []
    for what, happen in happenings.items():
        happen()
        if refused(cell, *HOPELESS):
            told.append(what)
    return told


@pytest.fixture
def verified(cell: Cell) -> Autoscaling:
    """A cell with the verifier, and what a first pass left for it."""
    autoscaling = Autoscaling(cell)
    for words in (("init", "--jsv", "--yes"), ("once",)):
        done = autoscaling.command(*words)
        assert done.returncode == 0, done.stderr.decode()
    return autoscaling


def test_a_hopeless_job_is_refused_with_a_sentence_and_others_pass(verified: Autoscaling) -> None:
    cell = verified.cell
    hopeless = {
        "plain": HOPELESS,
        "-clear": ("-clear", *HOPELESS),
        "an array": ("-t", "1-5", *HOPELESS),
        "a future start": ("-a", "203001010000", *HOPELESS),
        "every range": ("-b", "y", "-h", "-pe", "local", "100-200,300", "true"),
        "any PE with that rule": ("-b", "y", "-h", "-pe", "loc*", "100", "true"),
        "with arguments that look like the protocol": (*HOPELESS, "x\nBEGIN\nSTART\nPARAM A x"),
    }
    passing = {
        "plain": HELD,
        "what fits": ("-b", "y", "-h", "-pe", "mpi", "4", "true"),
        "a range that begins low": ("-b", "y", "-h", "-pe", "local", "2-100", "true"),
        "with arguments that look like the protocol": (*HELD, "x\nBEGIN", "y\nQUIT", "z\nPARAM pe_name local"),
    }
    assert [name for name, argv in hopeless.items() if not refused(cell, *argv)] == []
    assert [name for name, argv in passing.items() if refused(cell, *argv)] == []


def test_with_nothing_fresh_and_its_own_everything_is_accepted(verified: Autoscaling) -> None:
    cell, file = verified.cell, place(verified.cell).file
    left = file.read_bytes()
    another = json.dumps(json.loads(left) | {"cell": "another"}).encode()
    happenings: dict[str, Callable[[], object]] = {
        "as left": lambda: None,
        "stale": lambda: os.utime(file, (0, 0)),
        "garbage": lambda: file.write_bytes(b"{garbage"),
        "of another cell": lambda: file.write_bytes(another),
        "gone": file.unlink,
        "as left again": lambda: file.write_bytes(left),
        "unreadable": lambda: file.chmod(0),
    }
    refused_after = refusals(cell, happenings)
    assert [what for what in refused_after if what != "unreadable"] == ["as left", "as left again"]
    # A program of the verifier that has read this file before still knows it; one that has not accepts.


def programs(cell: Cell) -> list[str]:
    """Processes of the verifier's program: one for every thread of the qmaster that has met a job."""
    listed = cell.out("ps", "-eo", "pid,comm,args").splitlines()
    return [line.split()[0] for line in listed if str(place(cell).program) in line and line.split()[1] != "sh"]


def test_when_its_program_dies_or_is_broken_jobs_are_accepted_at_once(verified: Autoscaling) -> None:
    """The script that the qmaster started goes on without it, and starts it again after the next job."""
    cell, program = verified.cell, place(verified.cell).program
    assert all(refused(cell, *HOPELESS) for _ in range(6))
    killed = programs(cell)
    cell.out("kill", "-KILL", *killed)
    after = [refused(cell, *HOPELESS) for _ in range(8)]
    assert (1 <= after.count(False) <= len(killed), after[-1]) == (True, True)
    whole = program.read_bytes()
    program.write_bytes(b"no archive")
    cell.out("kill", "-KILL", *programs(cell))
    assert not any(refused(cell, *HOPELESS) for _ in range(6))
    program.write_bytes(whole)
    assert [refused(cell, *HOPELESS) for _ in range(8)][-1]


def test_jobs_can_be_altered_as_before_and_withdrawn_everything_is_as_before(verified: Autoscaling) -> None:
    """Where there is a verifier, Grid Engine lets `qalter` change only what `jsv_allowed_mod` names."""
    cell = verified.cell
    assert read_attributes(cell.out("qconf", "-sconf"))["jsv_allowed_mod"].replace(" ", "") == ALL_MODIFICATIONS
    job = cell.submit(*HELD)
    assert "modified" in cell.out("qalter", "-pe", "mpi", "4", "-l", "h_vmem=1G", "-q", "main.q", "-r", "y", job)
    done = verified.command("init", "--no-jsv")
    assert done.returncode == 0, done.stderr.decode()
    values = read_attributes(cell.out("qconf", "-sconf"))
    assert (values["jsv_url"], values["jsv_allowed_mod"]) == ("", "ac,h,i,e,o,j,M,N,p,w")
    assert not refused(cell, *HOPELESS)
    assert not place(cell).folder.exists()


def test_one_of_the_administrators_own_is_replaced_by_name_only(cell: Cell) -> None:
    own = cell.home / "own.sh"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    cell.configure(jsv_url=f"script:{own}")
    autoscaling = Autoscaling(cell)
    assert b"--apply jsv" in autoscaling.command("init", "--jsv", "--yes").stdout
    assert read_attributes(cell.out("qconf", "-sconf"))["jsv_url"] == f"script:{own}"
    autoscaling.command("init", "--jsv", "--apply", "jsv")
    assert read_attributes(cell.out("qconf", "-sconf"))["jsv_url"] == place(cell).url
    autoscaling.command("init", "--no-jsv")
    assert read_attributes(cell.out("qconf", "-sconf"))["jsv_url"] == f"script:{own}"
