"""The same small cell as each dialect prints it, and the table of docs/operate/grid-engines.md that lists it.

The fixtures are written by hand, in the format of recordings and descriptions, with values of our own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from types import MappingProxyType
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.model.cluster import Cluster
from autoscaler.core.model.complexes import amount
from autoscaler.core.plan import plan
from autoscaler.sge.accounting import read_ends
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.qconf import read_assignments, read_attributes
from tests.core.building import a_snapshot
from tests.properties.poison import TEXTS

HERE = Path(__file__).parent
DIALECTS = sorted((HERE / "dialects").iterdir())
NEW = [folder for folder in DIALECTS if (folder / "qconf" / "se_n1.txt").exists()]
PAGE = Path(__file__).parents[2] / "docs" / "operate" / "grid-engines.md"
NOW = 1_888_650_000.0


def pieces(folder: Path) -> dict[str, str]:
    """Every file, by its name."""
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


def read(folder: Path, instead: Mapping[str, str] = MappingProxyType({})) -> Cluster:
    """`instead`: texts of files that differ from those in the folder."""
    texts = {**pieces(folder), **instead}
    xml = [texts[name].encode("utf-8", "replace") for name in ("qstat.xml", "qhost.xml", "qstat-j.xml")]
    qconf = {name.removesuffix(".txt"): text for name, text in texts.items() if name.endswith(".txt")}
    return cluster_from(Outputs(xml[0], xml[1], qconf, xml[2]), zone=UTC, now=NOW)


def named(folder: Path) -> str:
    return folder.name


@pytest.mark.parametrize("folder", DIALECTS, ids=named)
def test_every_dialect_gives_the_same_hosts(folder: Path) -> None:
    cluster = read(folder)
    assert [(host.name, host.heard, host.busy) for host in cluster.hosts] == [("n1", True, True), ("n2", False, False)]
    assert [(one.slots, one.used, one.states) for host in cluster.hosts for one in host.instances] == [
        (8, 2, ""),
        (8, 0, "au"),
    ]
    assert (cluster.global_consumables, cluster.set_aside) == ({"lic": "5.000000"}, ())


@pytest.mark.parametrize("folder", DIALECTS, ids=named)
def test_every_dialect_gives_the_same_jobs(folder: Path) -> None:
    cluster = read(folder)
    (running,) = cluster.hosts[0].jobs
    waiting = {category.jobs[0]: category for category in cluster.job_categories}
    assert (running.name, running.owner, running.slots, running.pe) == ("41", "bea", 2, "smp")
    assert (waiting[42].count, waiting[42].ask.hard) == (5, (("h_rt", "3600"),))
    assert (waiting[43].ask.pe, waiting[43].ask.slots_min, waiting[43].ask.slots_max) == ("mpi", 4, 12)
    assert [int(at) for at in waiting[43].submitted] == [1_888_561_307]


@pytest.mark.parametrize("folder", DIALECTS, ids=named)
def test_every_dialect_gives_the_start_time_group_and_project_of_a_job(folder: Path) -> None:
    detail = read(folder).details[43]
    assert (detail.start_after, detail.group, detail.project, detail.rerun) == (1_893_456_000.0, "lab", "blue", True)


@pytest.mark.parametrize("folder", DIALECTS, ids=named)
def test_the_default_of_a_complex_is_not_its_urgency_in_any_dialect(folder: Path) -> None:
    defaults = {name: entry.default for name, entry in read(folder).complexes.items()}
    assert (defaults["slots"], defaults["lic"], defaults["arch"]) == ("1", "0", "NONE")


@pytest.mark.parametrize("folder", NEW, ids=named)
def test_newer_dialects_count_gpus_by_their_ids(folder: Path) -> None:
    cluster = read(folder)
    kind = cluster.complexes["gpu"].type
    values = read_assignments(read_attributes((folder / "qconf" / "se_n1.txt").read_text())["complex_values"])
    asked = next(dict(category.ask.hard)["gpu"] for category in cluster.job_categories if category.jobs == (44,))
    left = cluster.hosts[0].consumables["gpu"]
    assert (kind, amount(values["gpu"], kind), amount(left, kind), amount(asked, kind) in (1, 2)) == (
        "RSMAP",
        2,
        2,
        True,
    )


@pytest.mark.parametrize("folder", NEW, ids=named)
def test_newer_dialects_give_the_end_of_a_job(folder: Path) -> None:
    (end,) = read_ends(folder / "accounting", 40)
    assert (end.host, end.started_at, end.ended_at, end.exit_status, end.slots) == (
        *("n1", 1_888_640_060.0, 1_888_640_660.0),
        *(3, 2),
    )


XML_TEXT, ATTRIBUTE = re.compile(r">([^<>\s][^<>]*)</"), re.compile(r"(?m)^[^#\s]\S*[ \t]+(\S.*)$")


@settings(max_examples=80)
@given(st.sampled_from(DIALECTS), st.sampled_from(TEXTS), st.data())
def test_an_odd_value_in_any_dialect_loses_at_most_its_own_job_or_row(
    folder: Path, poison: str, data: st.DataObject
) -> None:
    whole = read(folder)
    name = data.draw(st.sampled_from(sorted(name for name in pieces(folder) if not name.startswith("accounting"))))
    text = pieces(folder)[name]
    found = data.draw(st.sampled_from(list((XML_TEXT if name.endswith(".xml") else ATTRIBUTE).finditer(text))))
    shown = escape(poison) if name.endswith(".xml") else poison
    cluster = read(folder, {name: text[: found.start(1)] + shown + text[found.end(1) :]})
    assert len(waiting_jobs(whole) - waiting_jobs(cluster)) <= 1
    assert {host.name for host in cluster.hosts if host.busy} >= {"n1"}
    assert len(whole.complexes.keys() - cluster.complexes.keys()) <= 1
    assert plan(replace(a_snapshot(), cluster=cluster)).waiting >= 0


def waiting_jobs(cluster: Cluster) -> set[int]:
    return {job for category in cluster.job_categories for job in category.jobs}


def test_the_page_lists_the_outputs_that_were_read_of_every_dialect() -> None:
    head, _, *rows = [line for line in PAGE.read_text().split("## ")[0].splitlines() if line.startswith("|")]
    folders = [(PAGE.parent / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", head)]
    assert set(folders[1:]) == set(DIALECTS)
    listed: dict[Path, set[str]] = {folder: set() for folder in folders}
    for row in rows:
        _, pattern, *cells = (cell.strip().strip("`") for cell in row.strip("|").split("|"))
        assert set(cells) <= {"cell", "recording", "description", "—"}
        for folder, cell in zip(folders, cells, strict=True):
            if cell != "—" and folder in DIALECTS:
                assert list(folder.glob(pattern)), f"{PAGE.name} claims {pattern} of {folder.name}"
                listed[folder] |= {str(path) for path in folder.glob(pattern)}
    there = {folder: {str(path) for path in folder.rglob("*") if path.is_file()} for folder in DIALECTS}
    assert {folder: listed[folder] for folder in DIALECTS} == there
