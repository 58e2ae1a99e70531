"""Reading `qconf -s…`."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.model.cluster import ParallelEnvironment, QuotaRule, QuotaSet
from autoscaler.sge.qconf import (
    containing_groups,
    read_attributes,
    read_host_group,
    read_names,
    read_pe,
    read_queue,
    read_quotas,
    resolve_host_groups,
    split_overrides,
)

RECORDED = Path(__file__).parent / "recorded" / "mixed" / "qconf"

QUEUE = """\
qname                 main.q
hostlist              @allhosts W7.Example
pe_list               local mpi,[w1=make smp],[@big=NONE]
rerun                 TRUE
slots                 2,[W1=8],[@big=64], \\
                      [w3=4]
complex_values        lic=2,[w1=lic=4,tmp=10G]
user_lists            NONE
projects              blue green
h_rt                  24:0:0,[w1=1:0:0]
s_rt                  INFINITY
h_vmem                4G
"""

QUOTAS = """\
{
   name         lim
   description  some words { in braces
   enabled      TRUE
   limit        name one users {*,!root} queues main.q hosts {@allhosts} to \\
   slots=10,h_vmem=4G
   limit        users { joe, bob } pes * to slots=$num_proc*2
   limit        queues !main.q to slots=3
}
{
   name         off
   enabled      FALSE
   limit        to slots=1
}
"""


def recorded(stem: str) -> str:
    return (RECORDED / f"{stem}.txt").read_text()


def test_a_backslash_continues_a_line() -> None:
    assert read_attributes("a  one, \\\n     two\nb  NONE\n") == {"a": "one,  two", "b": ""}


def test_slots_may_differ_by_host_and_host_group() -> None:
    queue = read_queue(QUEUE)
    assert (queue.slots, queue.slots_by_host) == (2, {"w1": 8, "@big": 64, "w3": 4})


def test_pes_may_differ_by_host_and_host_group() -> None:
    queue = read_queue(QUEUE)
    assert (queue.pe_list, queue.pe_list_by_host) == (("local", "mpi"), {"w1": ("make", "smp"), "@big": ()})


def test_complex_values_may_differ_by_host() -> None:
    queue = read_queue(QUEUE)
    assert (queue.complex_values, queue.complex_values_by_host) == ({"lic": "2"}, {"w1": {"lic": "4", "tmp": "10G"}})


def test_hosts_of_a_queue_are_lower_case_and_groups_are_not() -> None:
    assert read_queue(QUEUE).hostlist == ("@allhosts", "w7.example")


def test_only_limits_that_limit_are_kept() -> None:
    assert read_queue(QUEUE).limits == {"h_rt": "24:0:0", "h_vmem": "4G"}


def test_limits_and_rerun_may_differ_by_host_and_host_group() -> None:
    queue = read_queue("qname q\nslots 1\nh_rt 01:00:00,[@big=INFINITY],[W1=2:0:0]\nrerun FALSE,[@big=TRUE]\n")
    assert (queue.limits, queue.limits_by_host) == (
        {"h_rt": "01:00:00"},
        {"@big": {"h_rt": "INFINITY"}, "w1": {"h_rt": "2:0:0"}},
    )
    assert (queue.rerun, queue.rerun_by_host) == (False, {"@big": True})


def test_types_and_checkpointing_may_differ_by_host_and_host_group() -> None:
    queue = read_queue(
        "qname q\nslots 1\nqtype BATCH INTERACTIVE,[@big=NONE],[W1=INTERACTIVE]\nckpt_list NONE,[@big=a b]\n"
    )
    assert (queue.qtype, queue.qtype_by_host) == (("BATCH", "INTERACTIVE"), {"@big": (), "w1": ("INTERACTIVE",)})
    assert (queue.ckpt_list, queue.ckpt_list_by_host) == ((), {"@big": ("a", "b")})


def test_a_queue_without_a_qtype_starts_batch_jobs() -> None:
    assert read_queue("qname q\nslots 1\n").qtype == ("BATCH", "INTERACTIVE")


def test_access_lists_and_projects_make_a_queue_restricted() -> None:
    queue = read_queue(QUEUE)
    assert (queue.restricted, queue.rerun) == (("projects=blue green",), True)


def test_overrides_keep_commas_of_their_own() -> None:
    assert split_overrides("NONE,[w1=a=1,b=2],[w2=NONE]") == ("", {"w1": "a=1,b=2", "w2": ""})


@pytest.mark.parametrize(
    ("printed", "names"),
    (
        ("NONE", ()),
        ("low.q=2,other.q", ("low.q", "other.q")),
        ("low.q other.q=1", ("low.q", "other.q")),
        ("slots=4(low.q:1:sr, other.q:2)", ("low.q", "other.q")),
        ("NONE,[w1=low.q=1],[@big=slots=8(other.q)]", ("low.q", "other.q")),
    ),
)
def test_subordinate_queues_are_read(printed: str, names: tuple[str, ...]) -> None:
    assert read_queue(f"qname main.q\nsubordinate_list {printed}\n").subordinates == names


def test_calendars_of_a_queue_may_differ_by_host_and_host_group() -> None:
    queue = read_queue("qname main.q\ncalendar nights,[@big=NONE],[W1=days]\n")
    assert (queue.calendar, queue.calendar_by_host) == ("nights", {"@big": "", "w1": "days"})


def test_a_pe_has_slots_allocation_rule_and_user_lists() -> None:
    assert read_pe("pe_name mpi\nslots 99\nuser_lists deny\nallocation_rule $round_robin\n") == ParallelEnvironment(
        "mpi", 99, "$round_robin", ("deny",)
    )


def test_nested_host_groups_are_resolved() -> None:
    groups = {"@all": ("@a", "w9", "@b"), "@a": ("w1", "w2"), "@b": ("w2", "@gone"), "@ring": ("@ring", "w5")}
    assert resolve_host_groups(groups) == {
        "@all": ("w1", "w2", "w9"),
        "@a": ("w1", "w2"),
        "@b": ("w2",),
        "@ring": ("w5",),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        ("group_name @allhosts\nhostlist w1 W3\n", ("@allhosts", ("w1", "w3"))),
        ("group_name @allhosts\nhostlist NONE\n", ("@allhosts", ())),
        ("group_name @allhosts\nhostlist w1 \\\n         @more\n", ("@allhosts", ("w1", "@more"))),
    ),
)
def test_a_host_group_names_hosts_and_groups(text: str, expected: tuple[str, tuple[str, ...]]) -> None:
    assert read_host_group(text) == expected


def test_names_stand_one_a_line_and_a_message_is_none() -> None:
    assert read_names("main.q\n  night.q\n\n") == ("main.q", "night.q")
    assert read_names("no parallel environment defined\n") == ()


@pytest.mark.parametrize("reader", (read_queue, read_pe, read_host_group))
def test_a_text_that_is_not_an_object_is_refused(reader) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="it has no line"):
        reader("error: denied\n")


def test_quota_rules_keep_filters_braces_exclusions_and_limits() -> None:
    first, second, third = read_quotas(QUOTAS)[0].rules
    assert (first, second, third) == (
        QuotaRule(
            limits={"slots": "10", "h_vmem": "4G"},
            users=("*", "!root"),
            queues=("main.q",),
            hosts=("@allhosts",),
            each=frozenset({"users", "hosts"}),
            name="one",
        ),
        QuotaRule(limits={"slots": "$num_proc*2"}, users=("joe", "bob"), pes=("*",), each=frozenset({"users"})),
        QuotaRule(limits={"slots": "3"}, queues=("!main.q",)),
    )


@pytest.mark.parametrize("named", ("name=few", "name few"))
def test_a_quota_rule_may_have_a_name(named: str) -> None:
    (found,) = read_quotas(f"{{\n name x\n enabled TRUE\n limit {named} users ann to slots=1\n}}\n")
    assert found.rules == (QuotaRule(limits={"slots": "1"}, name="few", users=("ann",)),)


def test_a_quota_set_may_be_disabled() -> None:
    assert read_quotas(QUOTAS)[1] == QuotaSet("off", False, (QuotaRule(limits={"slots": "1"}),))


@pytest.mark.parametrize("text", ("", "No resource quota set found\n"))
def test_a_text_without_quota_sets_gives_none(text: str) -> None:
    assert read_quotas(text) == ()


@pytest.mark.parametrize("rule", ("limit colour blue to slots=3", "limit users joe", "limit users joe to"))
def test_a_quota_rule_that_cannot_be_read_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="quota rule"):
        read_quotas(f"{{\n name x\n enabled TRUE\n {rule}\n}}\n")


def test_a_recorded_queue_is_read() -> None:
    queue = read_queue(recorded("sq_main.q"))
    assert (queue.hostlist, queue.slots_by_host, queue.pe_list) == (
        ("@allhosts",),
        {"w1": 2, "w2": 4},
        ("local", "mpi"),
    )


def test_a_host_group_is_in_all_groups_around_it_however_deep_and_circles_end() -> None:
    groups = {"@a": ("@b", "h1"), "@b": ("@c",), "@c": ("@a", "h2"), "@d": ("@c",), "@e": ()}
    assert containing_groups(groups) == {"@b": ("@a", "@c", "@d"), "@c": ("@b", "@d", "@a"), "@a": ("@c", "@b", "@d")}
