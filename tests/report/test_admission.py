"""The verifier judges only by the file that the loop wrote last, and accepts whenever it cannot judge."""

from __future__ import annotations

import json
import os
import subprocess
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.snapshot import Snapshot
from autoscaler.core.unsatisfiable.admission import Admission, admission_of
from autoscaler.report import admission
from autoscaler.report.admission import Verifier, build
from autoscaler.report.admission_file import AdmissionFile, archive, code
from autoscaler.sge.jsv import read_request
from autoscaler.sge.jsv_setup import JsvFiles
from autoscaler.store import encoding
from tests.core.building import PES, a_bucket, a_host, a_snapshot, a_worker
from tests.deadlines import Deadline

TOO_LARGE = {"pe_name": "local", "pe_min": "64", "pe_max": "64"}
SENTENCE = "it requests 64 slots on one host; the largest allowed is m5.large with 2"
WORLD = a_snapshot(a_host("h1"), a_worker("w1"), limits=None)


@pytest.fixture(autouse=True)
def _a_machine_that_is_never_too_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time plays no part in these tests; the tests of the verifier's patience set it themselves."""
    for name in ("PATIENCE", "HELD_UP"):
        monkeypatch.setattr(admission, name, 120.0)


def kept(folder: Path, snapshot: Snapshot = WORLD, *, poll: float = 10.0, installed: bool = True) -> AdmissionFile:
    file = AdmissionFile(folder / "admission.json", "cell", lambda: installed)
    file.keep(snapshot, poll)
    return file


def verifier(folder: Path) -> Verifier:
    return Verifier(folder / "admission.json", "cell", code())


def age(file: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(file, (then, then))


def test_an_unsatisfiable_job_is_refused_with_a_sentence(tmp_path: Path) -> None:
    kept(tmp_path)
    assert verifier(tmp_path).refusal(TOO_LARGE) == SENTENCE


def test_a_job_that_fits_is_accepted(tmp_path: Path) -> None:
    kept(tmp_path)
    assert verifier(tmp_path).refusal({"pe_name": "local", "pe_min": "2", "pe_max": "2"}) is None


def in_groups(*pes: str) -> Snapshot:
    """A world in which jobs of PE `mpi` stay inside one group, with these PEs."""
    there = {name: replace(PES["mpi"], name=name) for name in pes}
    policy = replace(WORLD.policy, group_pes=("mpi",))
    return replace(WORLD, policy=policy, cluster=replace(WORLD.cluster, pes=there))


def test_a_job_of_a_group_pe_is_changed_to_request_any_group(tmp_path: Path) -> None:
    kept(tmp_path, in_groups("local", "mpi", "mpi_execute_4-1"))
    assert verifier(tmp_path).correction({"pe_name": "mpi"}) == {"pe_name": "mpi*"}


@pytest.mark.parametrize("given", ({}, {"pe_name": "local"}, {"pe_name": "mpi*"}, {"pe_name": "mpi_execute_4-1"}))
def test_other_jobs_are_not_changed(tmp_path: Path, given: Mapping[str, str]) -> None:
    kept(tmp_path, in_groups("local", "mpi", "mpi_execute_4-1"))
    assert verifier(tmp_path).correction(given) == {}


def test_without_group_pes_no_job_is_changed(tmp_path: Path) -> None:
    kept(tmp_path, in_groups("mpi", "mpich"))
    assert verifier(tmp_path).correction({"pe_name": "mpi"}) == {}


def test_without_a_fresh_file_no_job_is_changed(tmp_path: Path) -> None:
    age(kept(tmp_path, in_groups("mpi")).file, 3600.0)
    assert verifier(tmp_path).correction({"pe_name": "mpi"}) == {}


@pytest.mark.parametrize("poll", (1.0, 30.0))
def test_a_stale_file_refuses_no_job(tmp_path: Path, poll: float) -> None:
    file, one = kept(tmp_path, poll=poll).file, verifier(tmp_path)
    fresh_for = max(60.0, 12 * poll)
    results = []
    for seconds in (fresh_for - 5, fresh_for + 5, 0.0, -3600.0):
        age(file, seconds)
        results.append(one.refusal(TOO_LARGE))
    assert results == [SENTENCE, None, SENTENCE, None]


@pytest.mark.parametrize(
    "content",
    (
        b"",
        b"{garbage",
        b"\xff\xfe",
        b"[]",
        b"{}",
        json.dumps({"schema": 1, "cell": "cell", "code": code(), "fresh_for": 60, "admission": {}}).encode(),
        json.dumps({"schema": 1, "cell": "cell", "code": code(), "fresh_for": "?", "admission": None}).encode(),
    ),
)
def test_an_unreadable_file_refuses_no_job(tmp_path: Path, content: bytes) -> None:
    file, one = kept(tmp_path).file, verifier(tmp_path)
    assert one.refusal(TOO_LARGE) == SENTENCE
    file.write_bytes(content)
    assert one.refusal(TOO_LARGE) is None
    assert one.refusal(TOO_LARGE) is None


@pytest.mark.parametrize("change", ({"cell": "another"}, {"code": "0123"}, {"schema": 2}))
def test_a_file_of_another_cell_or_version_refuses_no_job(tmp_path: Path, change: Mapping[str, object]) -> None:
    file = kept(tmp_path).file
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert verifier(tmp_path).refusal(TOO_LARGE) is None


def test_without_a_file_no_job_is_refused_until_there_is_one(tmp_path: Path) -> None:
    one = verifier(tmp_path)
    assert one.refusal(TOO_LARGE) is None
    kept(tmp_path)
    assert one.refusal(TOO_LARGE) == SENTENCE


def work_on(_: object) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        pass


@pytest.mark.parametrize(
    ("takes_long", "limits"),
    ((lambda _: time.sleep(120), {"HELD_UP": 0.1}), (work_on, {"PATIENCE": 0.05})),
    ids=("it blocks", "it computes"),
)
def test_a_judgement_that_takes_too_long_refuses_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes_long: Callable[[object], None], limits: dict[str, float]
) -> None:
    kept(tmp_path)
    one = verifier(tmp_path)
    assert one.refusal(TOO_LARGE) == SENTENCE
    for name, seconds in limits.items():
        monkeypatch.setattr(admission, name, seconds)
    monkeypatch.setattr(admission, "read_request", takes_long)
    began = time.monotonic()
    assert one.refusal(TOO_LARGE) is None
    assert time.monotonic() - began < 60


def test_waiting_for_the_processor_does_not_count_as_judging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(parameters: Mapping[str, str]) -> object:
        time.sleep(0.2)
        return read_request(parameters)

    kept(tmp_path)
    monkeypatch.setattr(admission, "PATIENCE", 0.1)
    monkeypatch.setattr(admission, "read_request", late)
    assert verifier(tmp_path).refusal(TOO_LARGE) == SENTENCE


def test_a_defect_in_the_verifier_refuses_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path)
    monkeypatch.setattr(admission, "text", lambda _: 1 / 0)
    assert verifier(tmp_path).refusal(TOO_LARGE) is None


def test_the_file_is_rewritten_after_a_change_and_otherwise_touched(tmp_path: Path) -> None:
    keeper = kept(tmp_path)
    written, begun = keeper.file.stat(), time.time()
    age(keeper.file, 100)
    keeper.keep(WORLD, 10.0)
    touched = keeper.file.stat()
    assert (touched.st_ino, touched.st_mtime >= begun - 1) == (written.st_ino, True)
    one = verifier(tmp_path)
    keeper.keep(a_snapshot(a_host("big", slots=64)), 10.0)
    assert one.refusal(TOO_LARGE) is None
    assert oct(keeper.file.stat().st_mode)[-3:] == "644"


def test_without_an_installed_verifier_no_file_is_written(tmp_path: Path) -> None:
    assert not kept(tmp_path, installed=False).file.exists()


def test_an_unwritable_folder_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keeper = AdmissionFile(tmp_path / "nowhere" / "admission.json", "cell", lambda: True)
    for _ in range(3):
        keeper.keep(WORLD, 10.0)
    assert [record.message.partition(",")[0] for record in caplog.records] == [f"{keeper.file} cannot be written"]


def test_the_verifier_reads_back_what_the_loop_writes() -> None:
    snapshot = a_snapshot(
        a_host("h1", consumables={"h_vmem": "4G"}), a_worker("w1"), a_bucket(), hybrid=True, family="m5"
    )
    whole = admission_of(snapshot.cluster, snapshot.fleet, snapshot.policy)
    assert build(Admission, json.loads(json.dumps(encoding.plain(whole)))) == whole


@given(st.floats(allow_nan=False) | st.none(), st.integers(0, 5))
def test_optional_limits_survive_a_round_trip(price: float | None, most: int) -> None:
    snapshot = WORLD
    array = snapshot.policy.node_arrays[0]
    limits = replace(array.limits, max_price_per_hour=price, max_workers=most)
    policy = replace(snapshot.policy, node_arrays=(replace(array, limits=limits),))
    whole = admission_of(snapshot.cluster, snapshot.fleet, policy)
    assert build(Admission, json.loads(json.dumps(encoding.plain(whole)))) == whole


def test_the_archive_is_reproducible() -> None:
    assert archive() == archive()


def for_another_python(program: bytes) -> bytes:
    """The archive as a Python of another version sees it: its compiled code is not for that version."""
    changed = BytesIO()
    with zipfile.ZipFile(BytesIO(program)) as ours, zipfile.ZipFile(changed, "w") as theirs:
        for name in ours.namelist():
            theirs.writestr(name, bytes(4) + ours.read(name)[4:] if name.endswith(".pyc") else ours.read(name))
    return changed.getvalue()


@pytest.mark.parametrize("made", (bytes, for_another_python), ids=("this Python", "another Python"))
def test_the_archive_needs_only_the_standard_library_of_any_python(
    tmp_path: Path, made: Callable[[bytes], bytes]
) -> None:
    """Run as qmaster runs it: by its script, alone. It is asked again until its own time limit has passed."""
    place = JsvFiles(tmp_path, "cell")
    place.folder.mkdir()
    place.program.write_bytes(made(archive()))
    place.script.write_text(place.script_text())
    place.script.chmod(0o755)
    AdmissionFile(place.file, "cell", lambda: place.installed).keep(WORLD, 10.0)
    job = "PARAM pe_name local\nPARAM pe_min 64\nPARAM pe_max 64\nBEGIN\n"

    def asked(said: str) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(said)
        process.stdin.flush()
        return process.stdout.readline().strip()

    with subprocess.Popen([place.script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={}) as process:
        limit, replies = Deadline(10), [""]
        while "REJECT" not in replies[-1] and not limit.over():
            replies = [asked("START\n"), asked(job)]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(120) == 0
    assert replies == ["STARTED", f"RESULT STATE REJECT {SENTENCE}"]


def test_without_a_program_the_script_accepts(tmp_path: Path) -> None:
    place = JsvFiles(tmp_path, "cell")
    place.folder.mkdir()
    place.script.write_text(place.script_text())
    job = "START\nPARAM CMDARG0 -n\nBEGIN\n"
    done = subprocess.run(
        ["/bin/sh", place.script], input=f"BEGIN\n{job}{job}QUIT\n", capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n") == [*["STARTED", "RESULT STATE ACCEPT"] * 2, ""]


def test_the_archive_has_the_source_of_each_compiled_module() -> None:
    names = set(zipfile.ZipFile(BytesIO(archive())).namelist())
    assert {f"{name}c" for name in names if name.endswith(".py")} == {name for name in names if name.endswith(".pyc")}
