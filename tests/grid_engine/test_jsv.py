"""The verifier of submissions on a real qmaster: it refuses with the reason of the plan, and fails open."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.sge.jsv_setup import ALL_MODIFICATIONS, JsvFiles
from autoscaler.sge.qconf import read_attributes
from tests.grid_engine.autoscaling import Autoscaling

TOO_LARGE = "it requests 100 slots on one host; the largest allowed is m5.large with 2"
UNSATISFIABLE = ("-b", "y", "-h", "-pe", "local", "100", "true")
HELD = ("-b", "y", "-h", "true")


def place(cell: Cell) -> JsvFiles:
    return JsvFiles(cell.root / "default" / "common", "")


def refused(cell: Cell, *argv: str) -> bool:
    """Whether `qsub` makes no job of it, and prints our reason then."""
    ended = cell.runner(("qsub", *argv), timeout=60.0)
    output = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    assert (ended.returncode == 0) is (TOO_LARGE not in output), output
    return ended.returncode != 0


def refusals(cell: Cell, happenings: dict[str, Callable[[], object]]) -> list[str]:
    """Which of these changes an unsatisfiable job is still refused after."""
    found = []
    for what, happen in happenings.items():
        happen()
        if refused(cell, *UNSATISFIABLE):
            found.append(what)
    return found


@pytest.fixture
def verified(cell: Cell) -> Autoscaling:
    """A cell with the verifier, and what a first pass left for it."""
    autoscaling = Autoscaling(cell)
    for words in (("init", "--jsv", "--yes"), ("once",)):
        done = autoscaling.command(*words)
        assert done.returncode == 0, done.stderr.decode()
    return autoscaling


def test_an_unsatisfiable_job_is_refused_with_the_reason_and_others_are_accepted(verified: Autoscaling) -> None:
    cell = verified.cell
    unsatisfiable = {
        "plain": UNSATISFIABLE,
        "-clear": ("-clear", *UNSATISFIABLE),
        "an array": ("-t", "1-5", *UNSATISFIABLE),
        "a future start": ("-a", "203001010000", *UNSATISFIABLE),
        "every range": ("-b", "y", "-h", "-pe", "local", "100-200,300", "true"),
        "any PE with that rule": ("-b", "y", "-h", "-pe", "loc*", "100", "true"),
        "with arguments that look like the protocol": (*UNSATISFIABLE, "x\nBEGIN\nSTART\nPARAM A x"),
    }
    passing = {
        "plain": HELD,
        "what fits": ("-b", "y", "-h", "-pe", "mpi", "4", "true"),
        "a range that begins low": ("-b", "y", "-h", "-pe", "local", "2-100", "true"),
        "with arguments that look like the protocol": (*HELD, "x\nBEGIN", "y\nQUIT", "z\nPARAM pe_name local"),
    }
    assert [name for name, argv in unsatisfiable.items() if not refused(cell, *argv)] == []
    assert [name for name, argv in passing.items() if refused(cell, *argv)] == []


def test_without_a_fresh_file_of_its_cell_the_verifier_accepts_every_job(verified: Autoscaling) -> None:
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


def test_while_the_program_of_the_verifier_is_dead_or_broken_jobs_are_accepted(verified: Autoscaling) -> None:
    """The script that the qmaster started goes on without it, and starts it again after the next job."""
    cell, program = verified.cell, place(verified.cell).program
    assert all(refused(cell, *UNSATISFIABLE) for _ in range(6))
    killed = programs(cell)
    cell.out("kill", "-KILL", *killed)
    after = [refused(cell, *UNSATISFIABLE) for _ in range(8)]
    assert (1 <= after.count(False) <= len(killed), after[-1]) == (True, True)
    whole = program.read_bytes()
    program.write_bytes(b"no archive")
    cell.out("kill", "-KILL", *programs(cell))
    assert not any(refused(cell, *UNSATISFIABLE) for _ in range(6))
    program.write_bytes(whole)
    assert [refused(cell, *UNSATISFIABLE) for _ in range(8)][-1]


def test_the_verifier_allows_qalter_and_withdrawing_it_restores_the_configuration(verified: Autoscaling) -> None:
    """Where there is a verifier, Grid Engine lets `qalter` change only what `jsv_allowed_mod` names."""
    cell = verified.cell
    assert read_attributes(cell.out("qconf", "-sconf"))["jsv_allowed_mod"].replace(" ", "") == ALL_MODIFICATIONS
    job = cell.submit(*HELD)
    assert "modified" in cell.out("qalter", "-pe", "mpi", "4", "-l", "h_vmem=1G", "-q", "main.q", "-r", "y", job)
    done = verified.command("init", "--no-jsv")
    assert done.returncode == 0, done.stderr.decode()
    values = read_attributes(cell.out("qconf", "-sconf"))
    assert (values["jsv_url"], values["jsv_allowed_mod"]) == ("", "ac,h,i,e,o,j,M,N,p,w")
    assert not refused(cell, *UNSATISFIABLE)
    assert not place(cell).folder.exists()


def test_a_verifier_of_the_administrator_is_replaced_only_if_named_and_restored(cell: Cell) -> None:
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
