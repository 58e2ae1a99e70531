"""Oddities of the XML that releases of Grid Engine print, each survived or refused as a whole."""

from __future__ import annotations

from datetime import UTC

import pytest

from autoscaler.core.model.reasons import Code
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.job_categories import UNREADABLE
from autoscaler.sge.markup import Aside, Malformed, clean, parse
from autoscaler.sge.qstat import Listing, read_qstat
from tests.sge.printed import NAMESPACE, qstat, queue_list, running_job, waiting_job


def read(data: bytes | str) -> Listing:
    return read_qstat(data.encode() if isinstance(data, str) else data, UTC)


def waiting(listing: Listing) -> list[int]:
    return [number for category in listing.job_categories for number in category.jobs]


WHOLE = qstat([waiting_job(7)], [queue_list("main.q@w1", running_job(3), used=1)])


@pytest.mark.parametrize(
    "namespace",
    (
        "http://gridengine.sunsource.net/source/qstat.xsd?revision=1.11",
        "http://gridengine.sunsource.net/schemas/qstat/qs\ntat.xsd",
        "https://github.com/gridengine/gridengine/raw/master/qstat.xsd",
        "",
    ),
)
def test_the_namespace_of_a_listing_is_ignored(namespace: str) -> None:
    assert read(qstat([waiting_job(7)], namespace=namespace)) == read(qstat([waiting_job(7)]))


@pytest.mark.parametrize("declaration", ("<?xml version='2.0'?>", "", "<?xml version='1.0' encoding='UTF-8'?>"))
def test_the_xml_declaration_of_a_listing_is_ignored(declaration: str) -> None:
    assert read(WHOLE.replace(b"<?xml version='1.0'?>", declaration.encode())) == read(WHOLE)


WARNINGS = (
    b"ignore: licence",
    b"warning: load sensor <gpu> took longer than 10 s (1 < 2)",
    b"<warning>the configuration is old</warning>",
    b"<!-- 8.6.18 --><note/>",
    b"critical: <job_info> and <qhost> of this release are deprecated",
    b"job_info, </job_info>, /job_info>",
)


@pytest.mark.parametrize("warning", WARNINGS)
@pytest.mark.parametrize("declaration", (b"<?xml version='1.0'?>", b""), ids=("declared", "bare"))
def test_warnings_printed_before_the_xml_are_ignored(warning: bytes, declaration: bytes) -> None:
    assert read(warning + b"\n" + WHOLE.replace(b"<?xml version='1.0'?>", declaration)) == read(WHOLE)


@pytest.mark.parametrize("warning", WARNINGS[:4])
def test_warnings_printed_after_the_xml_are_ignored(warning: bytes) -> None:
    assert read(WHOLE + warning + b"\n") == read(WHOLE)


@pytest.mark.parametrize("warning", WARNINGS[:4])
def test_a_warning_between_any_lines_of_the_xml_loses_at_most_the_job_around_it(warning: bytes) -> None:
    """A waiting job that it hides is counted as unread, and a host on which it hides a job counts as busy."""
    lines = WHOLE.splitlines(keepends=True)
    for at in range(len(lines) + 1):
        found = read(b"".join((*lines[:at], warning, b"\n", *lines[at:])))
        unread = [dict(reason.facts)["count"] for reason in found.set_aside if reason.code is Code.JOBS_NOT_READ]
        assert (len(waiting(found)), sum(int(str(count)) for count in unread)) in ((1, 0), (0, 1)), lines[
            at - 1 : at + 1
        ]
        assert [len(instance.jobs) for instance in found.instances] == [1]


@pytest.mark.parametrize("at", (b"  <job_info>", b"</job_info>\n</job_info>"))
@pytest.mark.parametrize("part", (b"<job_list>", b"</Queue-List>", b"<JB_owner>ann</JB_owner>"))
def test_a_misplaced_element_of_a_listing_is_not_ignored_as_a_warning(part: bytes, at: bytes) -> None:
    place = WHOLE.rindex(b"</job_info>") if at.startswith(b"</") else WHOLE.index(at)
    with pytest.raises(GridEngineNotObservable, match="without the second"):
        read(WHOLE[:place] + part + WHOLE[place:])


@pytest.mark.parametrize("more", (b"<job_list>", b"</Queue-List>", waiting_job(8).encode(), b"<queue_info/>\n"))
def test_a_listing_that_continues_after_its_end_is_refused(more: bytes) -> None:
    """Something before was lost: perhaps jobs."""
    with pytest.raises(GridEngineNotObservable, match="cut short"):
        read(WHOLE + more)


@pytest.mark.parametrize("length", range(1, len(WHOLE.rstrip()), 41))
def test_a_listing_cut_short_is_refused_even_between_warnings(length: int) -> None:
    with pytest.raises(GridEngineNotObservable):
        read(b"warning: <x>\n" + WHOLE[:length] + b"\nwarning: <y>\n")


@pytest.mark.parametrize("name", ("&amp;%lt;&gt;", "a<b", "x & y", "\x07\x1b[1m", "<job>"))
def test_a_wrongly_escaped_job_name_does_not_matter(name: str) -> None:
    assert read(qstat([waiting_job(7, name=name)])) == read(qstat([waiting_job(7)]))


def test_a_job_name_that_is_not_utf_8_does_not_matter() -> None:
    named = qstat([waiting_job(7, name="NAME")]).replace(b"NAME", b"caf\xe9\x00\xff")
    assert read(named) == read(qstat([waiting_job(7)]))


def test_owners_that_are_not_utf_8_stay_distinct() -> None:
    data = qstat([waiting_job(7, owner="OWNER1"), waiting_job(8, owner="OWNER2")])
    owners = [
        category.ask.owner
        for category in read(data.replace(b"OWNER1", b"\xe9").replace(b"OWNER2", b"\xe8")).job_categories
    ]
    assert owners == ["é", "è"]


def test_older_releases_print_tasks_after_the_name() -> None:
    older = waiting_job(7).replace("</full_job_name>", "</full_job_name>\n<tasks>1-10:2</tasks>")
    (category,) = read(qstat([older])).job_categories
    assert (category.tasks, category.count) == (("1-10:2",), 5)


def test_an_unknown_element_is_ignored() -> None:
    newer = waiting_job(7).replace("<slots>", "<jclass_name></jclass_name>\n      <slots>")
    assert read(qstat([newer])) == read(qstat([waiting_job(7)]))


def test_older_releases_write_the_requested_pe_in_capitals() -> None:
    (category,) = read(qstat([waiting_job(7, more='<requested_PE name="mpi">4-12</requested_PE>')])).job_categories
    assert (category.ask.pe, category.ask.slots_min, category.ask.slots_max) == ("mpi", 4, 12)


@pytest.mark.parametrize(
    "time", ("2026-11-21T09:04:23.000", "2026-11-21T09:04:23.000000", "1795251863000", "1795251863", "1795251863000000")
)
def test_a_submission_time_in_any_dialect_is_the_same(time: str) -> None:
    (category,) = read(qstat([waiting_job(7, time=f"<JB_submission_time>{time}</JB_submission_time>")])).job_categories
    assert category.submitted == (1795251863.0,)


def test_without_f_running_jobs_name_their_queue_instance() -> None:
    loose = running_job(3, slots=8, more="<queue_name>all.q@node042</queue_name>")
    (instance,) = read(qstat((), [loose])).instances
    assert (instance.host, instance.used, [job.number for job in instance.jobs]) == ("node042", 8, [3])


def test_without_f_several_running_jobs_are_read_from_queue_info() -> None:
    jobs = [running_job(number, more=f"<queue_name>main.q@w{number}</queue_name>") for number in (1, 2)]
    found = read(qstat([], jobs))
    assert ([each.host for each in found.instances], found.set_aside) == (["w1", "w2"], ())


def test_without_f_a_waiting_job_has_an_empty_queue_name() -> None:
    assert waiting(read(qstat([waiting_job(7, more="<queue_name></queue_name>")]))) == [7]


def test_a_job_listed_as_waiting_that_names_a_queue_instance_occupies_it() -> None:
    listing = read(qstat([waiting_job(7, more="<queue_name>main.q@w1</queue_name>")], [queue_list()]))
    assert ([j.number for i in listing.instances for j in i.jobs], listing.job_categories) == ([7], ())


def test_resources_of_a_queue_list_are_those_of_its_host() -> None:
    resources = (
        '<resource name="mem_free" type="hl">377.027M</resource><resource name="lic" type="hc">3</resource>'
        '<resource name="gpu" type="hf">1</resource><resource name="slots" type="qc">4</resource>'
    )
    block = queue_list("main.q@w1").replace("</arch>", f"</arch>{resources}")
    found = read(qstat((), [block])).resources["w1"]
    assert (found["hl"], found["hc"], found["hf"]) == (
        {"arch": "lx-amd64", "mem_free": "377.027M"},
        {"lic": "3"},
        {"gpu": "1"},
    )


def test_a_host_that_is_down_has_no_load() -> None:
    block = queue_list("main.q@w1", state="u").replace("<load_avg>0.01000</load_avg>", "")
    (instance,) = read(qstat((), [block])).instances
    assert (instance.slots, instance.states) == (4, "u")


@pytest.mark.parametrize("sections", ("<queue_info/><job_info/>", "<queue_info></queue_info><job_info></job_info>"))
def test_an_empty_cell_is_a_whole_listing(sections: str) -> None:
    listing = read(f"<?xml version='1.0'?><job_info xmlns:xsd='x'>{sections}</job_info>")
    assert (listing.instances, listing.job_categories, listing.set_aside) == ((), (), ())


# -- what cannot be understood is set aside, never the whole reading ---------------------------------------


@pytest.mark.parametrize(
    "broken",
    (
        waiting_job(8, slots="many"),
        waiting_job(8, tasks="9-1"),
        waiting_job(8, time="<JB_submission_time>yesterday</JB_submission_time>"),
        waiting_job(8, more='<requested_pe name="mpi">few</requested_pe>'),
        waiting_job(8, more="<unclosed>"),
        waiting_job("", owner="eve"),
        waiting_job(8, state=""),
        waiting_job(8).replace("</job_list>", ""),
    ),
)
def test_a_job_that_cannot_be_understood_is_set_aside_alone(broken: str) -> None:
    listing = read(qstat([waiting_job(7), broken, waiting_job(9)]))
    assert (waiting(listing), [reason.code for reason in listing.set_aside]) == ([7, 9], [Code.JOBS_NOT_READ])
    assert listing.set_aside[0]["count"] == 1


def test_what_stands_loose_between_queue_instances_is_set_aside_with_its_place() -> None:
    listing = read(WHOLE.decode().replace("<queue_info>", "<queue_info><odd>1</odd>"))
    assert [dict(reason.facts)["what"] for reason in listing.set_aside] == ["queue_info"]
    assert (listing.unplaced, len(listing.instances)) == (True, 1)


@pytest.mark.parametrize(
    ("used", "reserved", "unplaced"), ((0, "", False), (0, "0", False), (0, "2", True), (1, "0", True))
)
def test_jobs_may_run_in_a_queue_instance_without_a_name_unless_it_says_that_none_does(
    used: int, reserved: str, *, unplaced: bool
) -> None:
    block = queue_list("main.q@w1", used=used, reserved=9).replace("main.q@w1", "?")
    block = block.replace("<slots_resv>9</slots_resv>", f"<slots_resv>{reserved}</slots_resv>")
    assert read(qstat((), [block])).unplaced is unplaced


def test_a_job_that_is_set_aside_has_its_number_and_cause() -> None:
    (reason,) = read(qstat([waiting_job(8, tasks="9-1")])).set_aside
    assert reason.facts == (("count", 1), ("why", "not a list of tasks: '9-1'"), ("jobs", ("8",)))


def test_many_unreadable_jobs_are_counted_by_cause() -> None:
    odd = [waiting_job(n, state="") for n in range(300)]
    odd += [waiting_job(n, tasks=f"9-{n % 9}") for n in range(300, 360)]
    most, others = read(qstat(odd)).set_aside
    assert (most["count"], most["why"], most["jobs"]) == (300, "it has no state", ("0", "1", "2", "…"))
    assert (others["count"], others["why"]) == (60, "not a list of tasks: '9-3'")


def test_causes_beyond_the_limit_are_counted_together() -> None:
    letters = [chr(ord("a") + n // 26) + chr(ord("a") + n % 26) for n in range(500)]
    listing = read(qstat([waiting_job(n, more=f"<{tag}></{tag}x>") for n, tag in enumerate(letters)]))
    counts = [count for reason in listing.set_aside if isinstance(count := reason["count"], int)]
    assert (len(listing.set_aside) <= 21, sum(counts)) == (True, 500)


def test_many_unreadable_queue_instances_are_counted() -> None:
    listing = read(qstat((), [queue_list(f"main.q@w{n}", used="many") for n in range(1000)]))
    assert (len(listing.set_aside), listing.set_aside[-1]["what"]) == (21, "980 more")


@pytest.mark.parametrize("time", ("", "<JB_submission_time></JB_submission_time>"))
def test_a_job_without_a_submission_time_is_read(time: str) -> None:
    listing = read(qstat([waiting_job(7), waiting_job(8, time=time)]))
    assert (waiting(listing), listing.set_aside) == ([7, 8], ())
    assert [sorted(category.undated) for category in listing.job_categories] == [[8]]


@pytest.mark.parametrize("broken", (running_job(3, slots="many"), running_job(3).replace("</job_list>", "")))
def test_a_running_job_that_cannot_be_read_still_occupies_its_host(broken: str) -> None:
    (instance,) = read(qstat((), [queue_list("main.q@w1", broken)])).instances
    assert instance.jobs == (UNREADABLE,)


@pytest.mark.parametrize(
    "lost", ("</Queue-List>", "<slots_used>0</slots_used>", "<slots_total>4</slots_total>", "0</slots_resv>")
)
def test_a_damaged_queue_list_counts_as_occupied(lost: str) -> None:
    damaged = queue_list("main.q@w1").replace(lost, "²</slots_resv>" if "resv" in lost else "")
    listing = read(qstat((), [damaged, queue_list("main.q@w2")]))
    assert [(i.host, i.jobs) for i in listing.instances] == [("w1", (UNREADABLE,)), ("w2", ())]


def test_a_queue_list_without_a_name_is_set_aside() -> None:
    listing = read(qstat((), [queue_list(""), queue_list("main.q@w2")]))
    assert ([i.host for i in listing.instances], len(listing.set_aside)) == (["w2"], 1)


# -- outputs that are not a listing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", range(1, len(WHOLE.rstrip()), 41))
def test_a_listing_cut_short_anywhere_is_refused(length: int) -> None:
    with pytest.raises(GridEngineNotObservable):
        read(WHOLE[:length])


@pytest.mark.parametrize(
    ("data", "said"),
    (
        (b"", "nothing at all"),
        (b" \n\n", "nothing at all"),
        (b"error: commlib error: got select error", "no XML but 'error: commlib error"),
        (b"<?xml version='1.0'?>\n", "no XML"),
        (b"<qhost></qhost>", "<qhost> where <job_info> was expected"),
        (WHOLE[:-30], "cut short"),
        (WHOLE.replace(b"<queue_info>", b""), "without <queue_info>"),
        (WHOLE.replace(b"</queue_info>", b""), "without </queue_info>"),
        (WHOLE.replace(b"  <job_info>", b""), "without the second <job_info>"),
        (WHOLE.replace(b"  </job_info>", b""), "without the second </job_info>"),
    ),
)
def test_an_output_that_is_not_a_listing_is_refused_with_cause_and_remedy(data: bytes, said: str) -> None:
    with pytest.raises(GridEngineNotObservable, match=r"nothing was decided.*by hand") as error:
        read(data)
    assert said in str(error.value)


def test_an_unknown_jobs_answer_is_not_a_listing() -> None:
    with pytest.raises(GridEngineNotObservable, match="<unknown_jobs>"):
        read(b"<?xml version='1.0'?>\n<unknown_jobs>\n<>\n<ST_name>1</ST_name>\n</>\n</unknown_jobs>\n")


# -- markup --------------------------------------------------------------------------------------------------


def test_cleaning_removes_only_control_characters() -> None:
    assert clean(b"a\x00b\x1b\tc\n\xc3\xa9") == b"ab\tc\n\xc3\xa9"


@pytest.mark.parametrize("data", (b"<a>", b"<>", b"", b"<a></b>"))
def test_a_text_that_is_not_an_element_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data)


def test_tags_lose_their_namespace() -> None:
    assert [e.tag for e in parse(f'<a xmlns="{NAMESPACE}"><b/></a>'.encode()).iter()] == ["a", "b"]


def test_nothing_set_aside_gives_no_reason() -> None:
    assert Aside().reasons == ()
