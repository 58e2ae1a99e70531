"""Of Grid Engine's outputs a record has what is read and nothing else; the same cluster is read from that."""

from __future__ import annotations

import re
from datetime import UTC
from pathlib import Path

import pytest

from autoscaler.engine.record import read_outputs_of
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge import only_read
from autoscaler.sge.cluster import cluster_from
from autoscaler.sge.detail import read_details
from autoscaler.sge.reading import Outputs
from autoscaler.sge.units import Clock

TESTS = Path(__file__).parents[1]
FOLDERS = sorted({file.parent for file in TESTS.rglob("qstat.xml")})
SECRET = "s3cret"
AS_TEXT = f"<JB_submission_command_line>qsub -v PW={SECRET} -b y ./load --key {SECRET}</JB_submission_command_line>"
AS_WORDS = (
    "<JB_submission_command_line><element><ST_name>qsub</ST_name></element><element>"
    f"<ST_name>PW={SECRET}</ST_name></element></JB_submission_command_line>"
)
GROUPS = f"<JB_grp_list><element><ST_name>{SECRET}</ST_name><ST_id>1000</ST_id></element></JB_grp_list>"
OF_A_LATER_RELEASE = f'<JB_secrets kind="all"><of><JB_secrets>{SECRET}</JB_secrets>{SECRET}</of></JB_secrets>'
CUT_SHORT = f"<JB_env_list><element><VA_variable>PW</VA_variable><VA_value>{SECRET}</VA_value>"
PRINTED = (AS_TEXT, AS_WORDS, GROUPS, OF_A_LATER_RELEASE, CUT_SHORT)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(TESTS)))
def test_the_same_cluster_is_read(folder: Path) -> None:
    outputs = read_outputs_of(folder)
    kept = only_read.only_read(outputs)
    assert _read(kept) == _read(outputs)
    assert only_read.only_read(kept) == kept


def _read(outputs: Outputs) -> object:
    try:
        return cluster_from(outputs, zone=UTC, now=1.0)
    except GridEngineNotObservable as error:  # a folder that proves that nothing can be read of it
        return str(error)


@pytest.mark.parametrize("more", PRINTED, ids=("a text", "words", "groups", "unknown", "cut short"))
def test_of_a_job_only_what_is_read_is_kept(more: str) -> None:
    jobs = (
        "<detailed_job_info><djob_info>"
        f"<element><JB_job_number>12</JB_job_number><JB_ar>3</JB_ar>{more}</element>"
        "<element><JB_job_number>13</JB_job_number><JB_project>p</JB_project></element>"
        "</djob_info></detailed_job_info>"
    ).encode()
    kept = only_read.only_read(Outputs(LISTING, qstat_j=jobs)).qstat_j
    assert kept is not None
    assert (SECRET.encode() in jobs, SECRET.encode() in kept) == (True, False)
    assert read_details(kept, Clock(UTC), 1.0) == read_details(jobs, Clock(UTC), 1.0)
    assert len(read_details(kept, Clock(UTC), 1.0)) == 2


LISTING = b"""<?xml version='1.0'?>
<job_info><queue_info><Queue-List><name>main.q@w1</name><slots_used>0</slots_used><slots_total>2</slots_total>
</Queue-List></queue_info><job_info><job_list state="pending"><JB_job_number>12</JB_job_number><JAT_prio>0.5</JAT_prio>
<JB_name>a</JB_name><JB_owner>ann</JB_owner><state>qw</state><JB_submission_time>2026-11-21T09:04:00</JB_submission_time>
<slots>1</slots></job_list></job_info></job_info>
"""


@pytest.mark.parametrize("more", PRINTED, ids=("a text", "words", "groups", "unknown", "cut short"))
@pytest.mark.parametrize("before", (b"</job_list>", b"<slots>1", b"</Queue-List>"))
def test_of_a_listing_only_what_is_read_is_kept(more: str, before: bytes) -> None:
    printed = LISTING.replace(before, more.encode() + before)
    kept = only_read.listing(printed)
    assert SECRET.encode() not in kept
    assert b"<JB_job_number>12</JB_job_number>" in kept
    if more is not CUT_SHORT:
        assert _read(Outputs(kept)) == _read(Outputs(LISTING))


def test_what_stands_around_a_listing_is_not_kept() -> None:
    assert only_read.listing(b"PW=s3cret\n" + LISTING + b"PW=s3cret\n") == LISTING.rstrip()


@pytest.mark.parametrize(
    ("stem", "line"),
    (
        ("sq_main.q", "prolog root@/opt/prolog \\\n       --token s3cret"),
        ("sp_mpi", "start_proc_args /opt/start --token s3cret"),
        ("sconf", "execd_params PW=s3cret,KEEP_ACTIVE=TRUE"),
        ("su_staff", "note s3cret"),
        ("srqs", '   description "the password is s3cret"'),
        ("sel", "a sentence with s3cret"),
        ("unknown", "PW s3cret"),
    ),
)
def test_of_the_configuration_only_what_is_read_is_kept(stem: str, line: str) -> None:
    kept = only_read.configuration(stem, f"qname main.q\nname staff\n{line}\nmax_unheard 00:05:00\n")
    assert SECRET not in (kept or "")
    assert (kept is None) == (stem == "unknown")


def test_every_documented_output_of_qconf_is_kept() -> None:
    page = (TESTS.parent / "docs" / "record-folder.md").read_text("utf-8")
    stems = set(re.findall(r"(?m)^\| `qconf/(\S+)\.txt`", page))
    assert {stem for stem in stems if only_read.configuration(stem, "name 1\n") is None} == set()
    assert len(stems) > 10
