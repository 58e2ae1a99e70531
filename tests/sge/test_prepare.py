"""`init` creates the objects that workers need if they are missing, and leaves everything else to the administrator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.process import Completed
from autoscaler.sge import objects
from autoscaler.sge.admin import Administrator
from autoscaler.sge.prepare import Difference, Preparation, Present, carry_out, differences, read_present
from autoscaler.sge.qconf import read_attributes

WANTED = Preparation("main.q", "@allhosts", "local", "mpi", 999999, master="master", master_slots=2)
EMPTY = Present(queues={}, host_groups={}, pes={}, execution_hosts={}, submit_hosts=())
SE_MASTER = """hostname              master
load_scaling          NONE
complex_values        slots=2
load_values           load_avg=0.1,arch=lx-amd64, \\
                      num_proc=2
"""


def pe(name: str, rule: str, *, across: bool, slots: int = 999999) -> str:
    return objects.parallel_environment(name, slots=slots, allocation_rule=rule, across_hosts=across)


PREPARED = Present(
    queues={
        "main.q": objects.queue(
            "main.q", host_group="@allhosts", pes=("local", "mpi"), slots_by_host={"master": 2, "w1": 8}
        )
    },
    host_groups={"@allhosts": "group_name @allhosts\nhostlist master w1 \\\n         w2\n"},
    pes={"local": pe("local", "$pe_slots", across=False), "mpi": pe("mpi", "$round_robin", across=True)},
    execution_hosts={"master": SE_MASTER},
    submit_hosts=("master",),
)


def one(wanted: Preparation, present: Present) -> Difference:
    (difference,) = differences([wanted], present)
    return difference


def with_queue(old: str, new: str) -> Present:
    text = PREPARED.queues["main.q"]
    assert old in text
    return replace(PREPARED, queues={"main.q": text.replace(old, new)})


def test_on_a_fresh_master_everything_is_missing_in_the_order_of_creation() -> None:
    assert [(found.kind, found.name) for found in differences([WANTED], EMPTY)] == [
        ("execution host", "master"),
        ("host group", "@allhosts"),
        ("parallel environment", "local"),
        ("parallel environment", "mpi"),
        ("queue", "main.q"),
        ("submit host", "master"),
    ]


def test_a_prepared_master_has_no_differences_despite_workers_and_its_own_allocation_rules() -> None:
    assert differences([WANTED], PREPARED) == ()


def of_kind(kind: str, wanted: Preparation, present: Present) -> list[str]:
    return [found.after for found in differences([wanted], present) if found.kind == kind]


ONLY_WORKERS = replace(PREPARED, host_groups={"@allhosts": "group_name @allhosts\nhostlist NONE\n"}, execution_hosts={})
"""A host group that only workers join, after the last of them was removed."""


def test_a_master_without_slots_is_still_a_member_of_a_new_host_group() -> None:
    assert of_kind("host group", replace(WANTED, master_slots=0), EMPTY) == [
        "group_name @allhosts\nhostlist   master\n"
    ]


def test_a_master_without_slots_is_an_execution_host_without_slots() -> None:
    (host,) = of_kind("execution host", replace(WANTED, master_slots=0), EMPTY)
    assert "complex_values        NONE" in host


def test_the_master_joins_an_empty_host_group_of_a_further_queue() -> None:
    assert of_kind("host group", replace(WANTED, master_slots=None), ONLY_WORKERS) == [
        "group_name @allhosts\nhostlist master\n"
    ]


def test_a_host_group_with_a_host_needs_no_master_without_slots() -> None:
    present = replace(PREPARED, host_groups={"@allhosts": "group_name @allhosts\nhostlist w1\n"}, execution_hosts={})
    queue = PREPARED.queues["main.q"].replace("[master=2],", "")
    assert differences([replace(WANTED, master_slots=0)], replace(present, queues={"main.q": queue})) == ()


def test_a_master_that_joins_an_empty_host_group_gets_no_slots_of_the_queue() -> None:
    queue = PREPARED.queues["main.q"].replace("0,[master=2],[w1=8]", "4")
    (difference,) = [
        found
        for found in differences([replace(WANTED, master_slots=None)], replace(ONLY_WORKERS, queues={"main.q": queue}))
        if found.kind == "queue"
    ]
    assert difference.commands == (("-rattr", "queue", "slots", "0", "main.q@master"),)


def test_a_master_with_slots_that_should_have_none_is_a_difference() -> None:
    found = one(replace(WANTED, master_slots=0), PREPARED)
    assert found.commands == (("-rattr", "queue", "slots", "0", "main.q@master"),)


def test_a_queue_that_is_not_for_persistent_hosts_leaves_the_master_alone() -> None:
    assert differences([replace(WANTED, master_slots=None)], PREPARED) == ()


def test_the_masters_slots_may_come_from_the_queues_default() -> None:
    assert differences([WANTED], with_queue("0,[master=2],[w1=8]", "2")) == ()


def test_the_masters_slots_may_come_from_its_group() -> None:
    assert differences([WANTED], with_queue("0,[master=2],[w1=8]", "0,[@allhosts=2]")) == ()


def test_a_queue_without_our_host_group_gets_it_beside_its_own() -> None:
    found = one(replace(WANTED, master_slots=None), with_queue("@allhosts", "@other w9"))
    assert found.commands == (("-aattr", "queue", "hostlist", "@allhosts", "main.q"),)


def test_a_queue_without_a_pe_gets_it_beside_its_own() -> None:
    found = one(WANTED, with_queue("local mpi", "local smp"))
    assert found.commands == (("-aattr", "queue", "pe_list", "mpi", "main.q"),)


def test_a_change_is_shown_as_the_lines_that_change() -> None:
    found = one(WANTED, with_queue("local mpi", "NONE"))
    changed = [line for line in found.shown.splitlines() if not line.startswith(("---", "+++", "@@"))]
    assert changed == ["-pe_list               NONE", "+pe_list               local mpi"]


def test_a_pe_across_hosts_must_control_slaves() -> None:
    text = pe("mpi", "$fill_up", across=True).replace("control_slaves     TRUE", "control_slaves     FALSE")
    found = one(WANTED, replace(PREPARED, pes={**PREPARED.pes, "mpi": text}))
    assert found.commands == (("-rattr", "pe", "control_slaves", "TRUE", "mpi"),)


def test_a_pe_for_one_host_that_spreads_is_a_difference() -> None:
    pes = {**PREPARED.pes, "local": pe("local", "$fill_up", across=False)}
    assert one(WANTED, replace(PREPARED, pes=pes)).commands == (
        ("-rattr", "pe", "allocation_rule", "$pe_slots", "local"),
    )


def test_two_queues_may_share_their_pes() -> None:
    second = replace(WANTED, queue="gpu.q", host_group="@gpu", master_slots=None)
    names = [found.name for found in differences([WANTED, second], EMPTY)]
    assert names == ["master", "@allhosts", "@gpu", "local", "mpi", "main.q", "gpu.q", "master"]


def test_a_new_queue_has_no_slots_by_default() -> None:
    (queue,) = [found for found in differences([WANTED], EMPTY) if found.kind == "queue"]
    assert "\nslots                 0,[master=2]\n" in queue.after


def test_a_host_in_a_nested_host_group_is_not_missing() -> None:
    groups = {"@allhosts": "group_name @allhosts\nhostlist @base w1\n", "@base": "group_name @base\nhostlist master\n"}
    assert differences([WANTED], replace(PREPARED, host_groups=groups)) == ()


class Recording:
    """A runner that gives one answer to everything and records the files it was given."""

    def __init__(self, answers: dict[str, str] | None = None) -> None:
        self.answers = answers or {}
        self.calls: list[tuple[str, ...]] = []
        self.files: list[str] = []

    def __call__(self, argv: Sequence[str], **_: object) -> Completed:
        self.calls.append(tuple(argv))
        self.files += [Path(word).read_text(encoding="utf-8") for word in argv if word.startswith("/")]
        text = self.answers.get(" ".join(argv[1:]), 'root@master modified "main.q" in cluster queue list')
        return Completed(tuple(argv), 0, text.encode(), b"", 0.0)


def test_a_missing_object_is_created_from_its_text(tmp_path: Path) -> None:
    runner = Recording()
    found = next(found for found in differences([WANTED], EMPTY) if found.kind == "queue")
    carry_out(Administrator(runner), found, tmp_path / "saved")
    assert (runner.calls[0][:2], runner.files) == (("qconf", "-Aq"), [found.after])


def test_an_existing_object_is_saved_before_it_is_changed(tmp_path: Path) -> None:
    present = with_queue("local mpi", "local")
    carry_out(Administrator(Recording()), one(WANTED, present), tmp_path / "saved")
    assert (tmp_path / "saved" / "queue-main.q.txt").read_text() == present.queues["main.q"]


def test_existing_objects_are_read_one_by_one() -> None:
    runner = Recording(
        {
            "-shgrpl": "@allhosts\n",
            "-shgrp @allhosts": PREPARED.host_groups["@allhosts"],
            "-spl": "local\nmpi\n",
            "-sp local": PREPARED.pes["local"],
            "-sp mpi": PREPARED.pes["mpi"],
            "-sel": "master\nw1\n",
            "-se master": SE_MASTER,
            "-sq *": PREPARED.queues["main.q"],
            "-ss": "master\n",
        }
    )
    assert read_present(Administrator(runner), [WANTED]) == PREPARED


@pytest.mark.parametrize("name", ("main.q,other", "main.q\nslots 99", "@x"))
def test_a_queue_name_with_special_characters_is_refused(name: str) -> None:
    with pytest.raises(objects.UnusableName):
        differences([replace(WANTED, queue=name)], EMPTY)


def test_a_new_queue_does_not_offer_the_parallel_environments_of_groups() -> None:
    made = next(each for each in differences([replace(WANTED, group_pes=("mpi",))], EMPTY) if each.kind == "queue")

    assert "pe_list               local\n" in made.after


def test_a_parallel_environment_of_groups_is_taken_out_of_a_queue_that_offers_it() -> None:
    found = one(replace(WANTED, group_pes=("mpi",)), PREPARED)

    assert found.commands == (("-dattr", "queue", "pe_list", "mpi", "main.q"),)
    assert "+pe_list               local" in found.shown


def test_pe_lists_of_single_hosts_stay_when_a_parallel_environment_is_taken_out() -> None:
    found = one(replace(WANTED, group_pes=("mpi",)), with_queue("local mpi", "local mpi,[@big=mpi]"))

    assert "+pe_list               local,[@big=mpi]" in found.shown


def test_the_complex_of_interruption_notices_has_the_columns_of_the_table() -> None:
    """Univa and Altair refuse a row of eight columns in a table of nine."""
    table = (
        "#name shortcut type relop requestable consumable default urgency aapre\n"
        "arch a RESTRING == YES NO NONE 0 NO\n"
        "slots s INT <= YES YES 1 1000 YES\n"
    )
    (row,) = of_kind("complex", replace(WANTED, notices=True), replace(PREPARED, complexes=table))
    assert row.splitlines()[-1].split()[2:] == ["STRING", "==", "NO", "NO", "NONE", "0", "NO"]


def test_resource_maps_of_the_master_stay_as_they_are() -> None:
    maps = "gpu=2(gpu0[mem=80G,dev=/dev/a] gpu1)"
    master = SE_MASTER.replace("slots=2", f"slots=1,{maps}")
    (after,) = of_kind("execution host", WANTED, replace(PREPARED, execution_hosts={"master": master}))
    assert f"complex_values        slots=2,{maps}\n" in after


SCHEDULER_BY_LOAD = "algorithm                         default\nqueue_sort_method                 load\n"


def test_the_scheduler_is_to_fill_hosts_in_order_where_workers_get_numbers() -> None:
    present = replace(PREPARED, scheduler=SCHEDULER_BY_LOAD)
    found = one(replace(WANTED, in_order=True), present)
    assert (found.name, found.missing, found.commands) == ("scheduler", False, (("-Msconf", "FILE"),))
    assert read_attributes(found.after) == {"algorithm": "default", "queue_sort_method": "seqno"}


def test_the_scheduler_stays_as_it_is_where_no_worker_gets_a_number_or_it_fills_in_order_already() -> None:
    by_number = replace(PREPARED, scheduler=SCHEDULER_BY_LOAD.replace("load", "seqno"))
    assert differences([WANTED], replace(PREPARED, scheduler=SCHEDULER_BY_LOAD)) == ()
    assert differences([replace(WANTED, in_order=True)], by_number) == ()
