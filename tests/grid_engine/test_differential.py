"""Verdicts of a real scheduler on random jobs in random cells, and those of our core: a small part of a large run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from autoscaler.lab.cell import Cell
from tests.differential.answers import Answer
from tests.differential.rounds import compare, differential_cell, in_world
from tests.differential.worlds import GROUP, a_plain_world

FITS, NOT = Answer.FITS, Answer.NOT


@pytest.fixture(scope="module")
def differential() -> Iterator[Cell]:
    with differential_cell() as cell:
        yield cell


def test_a_hundred_random_jobs_are_judged_as_by_the_scheduler(differential: Cell) -> None:
    tally = compare(differential, "slice", 100)
    differences = [each for each in tally.differences if not each.of_a_host_under_quota]
    assert not differences, "\n".join(map(str, differences))
    assert tally.unknown <= 5, tally.why_unknown
    assert tally.fit >= 20
    assert tally.agree - tally.fit >= 20


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("queue", "hosts", "expected"),
    (
        (
            {"complex_values": "lic=2"},
            {},
            {"-l lic=2": FITS, "-l lic=3": NOT, "-pe local 3 -l lic=1": NOT, "-pe mpi 6 -l lic=1": FITS},
        ),
        ({"complex_values": "lic=2"}, {}, {"-pe mpi 7 -l lic=1": NOT, "-pe mpi 6 -l lic=1": FITS}),
        ({"complex_values": "lic=4"}, {"h2": "slots=4,lic=1"}, {"-l lic=2,h=h2": NOT, "-l lic=2,h=h1": FITS}),
        ({"complex_values": f"lic=0,[{GROUP}=lic=2]"}, {}, {"-l lic=2": FITS, "-l lic=1,h=h1": NOT}),
        ({"complex_values": "lic=5,[h2=lic=1]"}, {}, {"-l lic=2,h=h2": NOT, "-l lic=5,h=h1": FITS}),
        ({"complex_values": "once=2"}, {}, {"-pe mpi 8 -l once=2": FITS, "-pe mpi 8 -l once=3": NOT}),
        ({"complex_values": "colour=red"}, {"h1": "colour=blue"}, {"-l col=red": FITS, "-l col=red,h=h1": NOT}),
        ({"complex_values": "colour=red"}, {"h1": "colour=blue"}, {"-l col=blue": NOT}),
        ({"pe_list": f"local mpi,[{GROUP}=local]"}, {}, {"-pe mpi 6": FITS, "-pe mpi 7": NOT, "-pe local 4": FITS}),
        ({"complex_values": "must=TRUE"}, {}, {"-q main.q": NOT, "-l must=TRUE": FITS, "-l must=FALSE": NOT}),
        ({"complex_values": "toll=2"}, {}, {"-q main.q": NOT, "-l toll=2": FITS, "-l toll=3": NOT, "-l toll=0": FITS}),
        ({"complex_values": f"NONE,[{GROUP}=must=FALSE]"}, {}, {"-l h=h3": NOT, "-l must=0,h=h3": FITS}),
        ({"complex_values": f"NONE,[{GROUP}=toll=2]"}, {}, {"-l h=h3": NOT, "-l h=h1": FITS, "-l toll=2,h=h3": FITS}),
        ({}, {"h2": "slots=4,must=TRUE"}, {"-l h=h2": NOT, "-l h=h2,must=1": FITS, "-pe mpi 9": NOT, "-l h=h1": FITS}),
        ({}, {"h2": "slots=4,toll=0"}, {"-l h=h2": NOT, "-l h=h2,toll=0": FITS, "-l h=h2,toll=1": NOT}),
        ({"complex_values": "NONE,[h2=toll=3]"}, {"h2": "must=0"}, {"-l h=h2,toll=1": NOT, "-l must=0,toll=1": FITS}),
        ({"forced": "arch"}, {}, {"-l h=h1": NOT, "-l h=h1,arch=lx-*": FITS}),
        ({"forced": "h_rt"}, {}, {"-l h=h1": NOT, "-l h=h1,h_rt=60": FITS}),
        ({"forced": "hostname"}, {}, {"-q main.q": NOT, "-q main.q@h1": NOT, "-l h=h1": FITS}),
        ({"forced": "qname"}, {}, {"-q main.q": NOT, "-l q=main.q": FITS}),
        ({"forced": "rerun"}, {}, {"-q main.q": NOT}),
        ({}, {}, {"-pe fp* 101": NOT, "-pe fp* 5": NOT, "-pe fp* 4": FITS}),
    ),
)  # fmt: skip
def test_values_and_lists_of_a_queue_are_judged_as_by_the_scheduler(
    differential: Cell, queue: Mapping[str, str], hosts: Mapping[str, str], expected: Mapping[str, Answer]
) -> None:
    world = a_plain_world(hosts=hosts, **queue)
    found = in_world(differential, world, [("root", tuple(options.split())) for options in expected])
    assert [(each.theirs[0], each.ours[0]) for each in found] == [(answer, answer) for answer in expected.values()]


@pytest.mark.thorough
def test_used_slots_of_a_parallel_environment_are_judged_as_by_the_scheduler(differential: Cell) -> None:
    world = a_plain_world()
    few = world.files["pe_mpi"].replace("999999", "4")
    world = replace(world, files={**world.files, "pe_mpi": few}, running=(("-pe", "mpi", "3"),))
    found = in_world(differential, world, [("root", ("-pe", "mpi", "2")), ("root", ("-pe", "mpi", "1"))])
    assert [(each.theirs[0], each.ours[0]) for each in found] == [(NOT, NOT), (FITS, FITS)]
