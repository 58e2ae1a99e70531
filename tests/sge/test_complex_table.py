"""`qconf -sc` is read, and added to, by the names in its header."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from autoscaler.core.model.cluster import Cluster, Complex, Consumable
from autoscaler.core.model.reasons import Code
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.complex_table import COMPLEXES, has_complex, read_complexes, rows_of, text_row
from autoscaler.sge.markup import Aside
from tests.sge.printed import qstat, waiting_job

MIXED = Path(__file__).parent / "recorded" / "mixed" / "qconf" / "sc.txt"
RULE = "#" + "-" * 90
END = "# >#< starts a comment but comments are not saved across edits --------"
EIGHT = "#name shortcut type relop requestable consumable default urgency"
NINE = f"{EIGHT} aapre"
TWELVE = f"{NINE} affinity do_report is_static"


def table(header: str, *rows: str) -> str:
    return "\n".join((header, RULE, *rows, END)) + "\n"


SLOTS_OF_NINE = "slots s INT <= YES YES 1 1000 YES"
ARCH_OF_NINE = "arch a RESTRING == YES NO NONE 0 NO"


def test_the_default_stands_before_the_urgency() -> None:
    row = "h_vmem  vm  MEMORY  <=  YES  JOB  2G  50"
    expected = {"h_vmem": Complex("h_vmem", "vm", "MEMORY", "<=", "YES", Consumable.PER_JOB, "2G")}
    assert (read_complexes(table(EIGHT, row)), read_complexes(row)) == (expected, expected)


def test_a_further_column_after_the_urgency_does_not_shift_the_others() -> None:
    """Univa and Altair from 8.3 on: the urgency of `slots` is 1000, and is no default."""
    found = read_complexes(table(NINE, SLOTS_OF_NINE, "gpu gpu INT <= YES HOST 2 7 YES"))
    assert {name: (entry.default, entry.consumable) for name, entry in found.items()} == {
        "slots": ("1", Consumable.PER_SLOT),
        "gpu": ("2", Consumable.PER_HOST),
    }


def test_columns_in_another_order_are_found_by_their_names() -> None:
    found = read_complexes(
        table("# name urgency shortcut default type relop consumable requestable", "x 9 y 3 INT <= YES NO")
    )
    assert found == {"x": Complex("x", "y", "INT", "<=", "NO", Consumable.PER_SLOT, "3")}


def test_the_shipped_complexes_are_those_that_a_new_cell_prints() -> None:
    assert dict(COMPLEXES) == read_complexes(MIXED.read_text())


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("", "no line with a complex"),
        ("# nothing\n", "no line with a complex"),
        ("h_vmem vm MEMORY\n", "3 columns"),
        (f"{SLOTS_OF_NINE}\n", "9 columns"),
        (table(EIGHT, SLOTS_OF_NINE), "9 columns"),
        (table("#name shortcut type relop requestable consumable urgency", "slots s INT <= YES YES 1000"), "default"),
        (table("#name shortcut type type relop requestable consumable default", "x x INT INT <= YES NO 0"), "own"),
        ("x x INT <= YES SOMETIMES 0 0\n", "SOMETIMES"),
    ),
)
def test_an_unreadable_table_is_refused_with_the_cause(text: str, said: str) -> None:
    with pytest.raises(GridEngineNotObservable, match=r"`qconf -sc` cannot be understood.*by hand") as error:
        read_complexes(text)
    assert said in str(error.value)


@pytest.mark.parametrize("odd", ("gpu gpu INT <= YES", "gpu gpu INT <= YES SOMETIMES 0 0 NO", "gpu", "warning: x < y"))
def test_an_unreadable_row_is_set_aside_alone(odd: str) -> None:
    aside = Aside()
    found = read_complexes(table(NINE, odd, ARCH_OF_NINE, SLOTS_OF_NINE), aside)
    assert (set(found), [reason.code for reason in aside.reasons]) == ({"arch", "slots"}, [Code.IGNORED])


def test_slots_with_an_unreadable_row_are_as_shipped() -> None:
    assert read_complexes(table(NINE, "slots s INT", ARCH_OF_NINE), Aside())["slots"] == COMPLEXES["slots"]


def cluster(sc: str) -> Cluster:
    jobs = qstat([waiting_job(7), waiting_job(8, more='<hard_request name="gpu">1</hard_request>')])
    return cluster_from(Outputs(jobs, qconf={"sc": sc}), zone=UTC, now=0.0)


def test_an_unreadable_row_does_not_fail_the_observation() -> None:
    found = cluster(table(NINE, "gpu gpu INT <= YES SOMETIMES 0 0 NO", SLOTS_OF_NINE))
    assert (set(found.complexes), [reason["what"] for reason in found.set_aside]) == ({"slots"}, ["a row of qconf -sc"])


def test_a_header_without_a_needed_column_fails_the_observation() -> None:
    with pytest.raises(GridEngineNotObservable, match="no column default"):
        cluster(table("#name shortcut type relop requestable consumable", "slots s INT <= YES YES"))


# -- a row of ours ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "row"),
    (
        (table(EIGHT, "arch a STRING == YES NO NONE 0"), "x x STRING == YES NO NONE 0"),
        ("arch a STRING == YES NO NONE 0\n", "x x STRING == YES NO NONE 0"),
        (table(EIGHT), "x x STRING == YES NO NONE 0"),
        (table(NINE, SLOTS_OF_NINE, ARCH_OF_NINE), "x x STRING == YES NO NONE 0 NO"),
        (
            table(TWELVE, f"{SLOTS_OF_NINE} 1.0 YES NO", f"{ARCH_OF_NINE} 0.0 NO YES"),
            "x x STRING == YES NO NONE 0 NO 0.0 NO YES",
        ),
    ),
    ids=("eight", "no header", "empty", "nine", "twelve"),
)
def test_a_row_of_ours_has_the_columns_of_the_table(text: str, row: str) -> None:
    assert text_row(text, "x", requestable=True) == row


def test_a_row_of_ours_can_be_not_requestable() -> None:
    assert text_row(table(EIGHT), "x", requestable=False) == "x x STRING == NO NO NONE 0"


def test_a_row_of_ours_is_refused_if_a_column_is_unknown_and_no_row_is_similar() -> None:
    with pytest.raises(GridEngineNotObservable, match="aapre"):
        text_row(table(NINE, SLOTS_OF_NINE), "x", requestable=True)


def test_rows_are_the_lines_that_are_not_comments() -> None:
    text = table(NINE, SLOTS_OF_NINE, ARCH_OF_NINE)
    assert (rows_of(text), has_complex(text, "arch"), has_complex(text, "a")) == (
        (SLOTS_OF_NINE, ARCH_OF_NINE),
        True,
        False,
    )
