"""A queue that starts nothing now needs no worker and has a reason; workers for its opening are not ordered again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.model.calendars import Calendar, CalendarEntry, CalendarState
from autoscaler.core.model.cluster import ExecutionHost, Queue
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.report.wording import text
from tests.core.building import (
    COMPLEXES,
    MAIN,
    NOW,
    AWorker,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    category_of,
    details_of,
    jobs,
    launched,
    reason_code,
    verdict_of,
)

BOOT = 900.0
"""The default boot time, as no boot was observed."""


def off_until(opens_at: float, snapshot: Snapshot, state: CalendarState = CalendarState.OFF) -> Snapshot:
    """The same, where the calendar of main.q closes it all the time before."""
    opens = datetime.fromtimestamp(opens_at, UTC)
    second = opens.hour * 3600 + opens.minute * 60 + opens.second
    days = CalendarEntry(state, dates=((datetime.fromtimestamp(NOW, UTC).date(), opens.date() - timedelta(1)),))
    today = CalendarEntry(state, dates=((opens.date(), opens.date()),), times=((0, second),))
    calendar = Calendar("nights", year=(days, today))
    main = replace(MAIN, calendar="nights")
    return replace(snapshot, cluster=replace(snapshot.cluster, queues={"main.q": main}, calendars={"nights": calendar}))


def off_for_ever(snapshot: Snapshot) -> Snapshot:
    calendar = Calendar("nights", week=(CalendarEntry(),))
    main = replace(MAIN, calendar="nights")
    return replace(snapshot, cluster=replace(snapshot.cluster, queues={"main.q": main}, calendars={"nights": calendar}))


def passes(snapshot: Snapshot, count: int, every: float) -> list[Plan]:
    """This many passes over a snapshot that does not change, each with the memory of the one before."""
    made: list[Plan] = []
    for _ in range(count):
        made.append(plan(snapshot))
        snapshot = replace(snapshot, memory=made[-1].memory, now=snapshot.now + every)
    return made


# -- calendars ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", (CalendarState.OFF, CalendarState.SUSPENDED))
def test_nothing_is_launched_for_a_queue_closed_by_its_calendar(state: CalendarState) -> None:
    made = plan(off_until(NOW + 7200, a_snapshot(jobs(3)), state))
    assert (launched(made), reason_code(made)) == ({}, Code.QUEUE_OFF_BY_CALENDAR)


def test_the_reason_names_the_calendar_and_when_the_queue_opens() -> None:
    reason = text(category_of(plan(off_until(NOW + 7200, a_snapshot(a_job())))).reason)
    assert reason == "the queue main.q is closed by its calendar nights until 2027-01-15 10:00:00 UTC"


def test_the_next_pass_is_due_a_boot_before_a_queue_opens_and_when_it_opens() -> None:
    assert plan(off_until(NOW + 7200, a_snapshot(a_job()))).due == NOW + 7200 - BOOT
    assert plan(off_until(NOW + 600, a_snapshot())).due == NOW + 600


def test_launches_begin_a_boot_time_before_the_queue_opens() -> None:
    assert launched(plan(off_until(NOW + BOOT + 1, a_snapshot(a_job())))) == {}
    assert launched(plan(off_until(NOW + BOOT, a_snapshot(a_job())))) == {"m5.large": 1}


def test_the_boot_time_is_the_one_that_was_observed() -> None:
    joined = a_worker(states="D", used=2, age=1800.0)
    assert joined.note is not None
    quick = replace(joined, note=replace(joined.note, joined_at=NOW - 1800 + 60))
    assert launched(plan(off_until(NOW + 300, a_snapshot(a_job(), quick)))) == {}
    assert launched(plan(off_until(NOW + 60, a_snapshot(a_job(), quick)))) == {"m5.large": 1}


def test_a_worker_that_came_early_for_a_queue_stays_though_boots_are_quick() -> None:
    came = a_worker(states="D", idle=60, age=30.0)
    assert came.note is not None
    quick = replace(came, note=replace(came.note, joined_at=NOW - 25))
    snapshot = off_until(NOW + 300, a_snapshot(jobs(2), quick))
    made = plan(snapshot)
    assert (acts(made), made.due) == ([], NOW + 295)
    assert acts(plan(replace(snapshot, cluster=replace(snapshot.cluster, job_categories=(jobs(4),))))) == []


@pytest.mark.parametrize("there", (a_host(states="D"), a_worker(states="D", idle=60)))
def test_hosts_of_a_queue_that_opens_soon_are_supply_and_are_kept(there: object) -> None:
    made = plan(off_until(NOW + 300, a_snapshot(jobs(2), there)))  # type: ignore[arg-type]
    assert (acts(made), reason_code(made)) == ([], Code.QUEUE_OPENS_SOON)


def test_an_idle_worker_of_a_queue_that_opens_much_later_leaves() -> None:
    made = plan(off_until(NOW + 7200, a_snapshot(jobs(2), a_worker(states="D", idle=60))))
    assert acts(made) == [("disable", "w1")]


def test_a_queue_whose_calendar_never_opens_has_no_opening_time_and_nothing_is_due() -> None:
    made = plan(off_for_ever(a_snapshot(a_job())))
    assert (text(category_of(made).reason), made.due) == ("the queue main.q is closed by its calendar nights", None)


def test_queue_instance_states_override_the_calendar() -> None:
    open_there = plan(off_until(NOW + 7200, a_snapshot(jobs(3), a_host(used=2))))
    assert launched(open_there) == {"m5.large": 2}
    unread = a_snapshot(jobs(3), a_host(states="D"), queues={"main.q": replace(MAIN, calendar="nights")})
    assert reason_code(plan(unread)) is Code.QUEUE_OFF_BY_CALENDAR


def test_hosts_still_closed_a_moment_after_the_opening_are_kept() -> None:
    waiting = a_snapshot(jobs(2), a_worker(states="D", idle=600))
    assert acts(plan(off_until(NOW - 5, waiting))) == []
    assert acts(plan(off_until(NOW - 300, waiting))) == [("disable", "w1")], "the master's clock or zone is another"


def test_a_calendar_of_another_host_group_does_not_close_the_queue_for_workers() -> None:
    shut = off_for_ever(a_snapshot(jobs(2)))
    main = replace(MAIN, calendar_by_host={"@slow": "nights"})
    assert launched(plan(replace(shut, cluster=replace(shut.cluster, queues={"main.q": main})))) == {"m5.large": 1}
    main = replace(MAIN, calendar_by_host={"@allhosts": "nights"})
    assert launched(plan(replace(shut, cluster=replace(shut.cluster, queues={"main.q": main})))) == {}


def test_jobs_that_may_use_an_open_and_a_closed_queue_count_for_the_open_one() -> None:
    queues = {"main.q": replace(MAIN, calendar="nights"), "day.q": Queue("day.q", ("@day",), 1)}
    policy = Policy(
        queues=(QueuePolicy("main.q", "execute"), QueuePolicy("day.q", "day")),
        node_arrays=tuple(
            NodeArrayPolicy(name, queue, group, "m5.large", limits=Limits(max_workers=10), scale_up_batch=10)
            for name, queue, group in (("execute", "main.q", "@allhosts"), ("day", "day.q", "@day"))
        ),
        master="master",
    )
    calendars = {"nights": Calendar("nights", week=(CalendarEntry(),))}
    snapshot = a_snapshot(jobs(2), a_job(9, queues=("main.q",)), a_machine("w1"), policy=policy, queues=queues)
    made = plan(replace(snapshot, cluster=replace(snapshot.cluster, calendars=calendars)))
    assert [action.node_array for action in made.actions if isinstance(action, Launch)] == ["day"]
    assert reason_code(made, 9) is Code.QUEUE_OFF_BY_CALENDAR


# -- calendars that close soon ---------------------------------------------------------------------------------------


def closing_in(seconds: float, snapshot: Snapshot, *, reserving: int | None = None, default: float = inf) -> Snapshot:
    """The same, where the calendar of main.q has it open, and closes it for an hour from then on."""
    closes = datetime.fromtimestamp(NOW + seconds, UTC)
    second = closes.hour * 3600 + closes.minute * 60 + closes.second
    calendar = Calendar("nights", week=(CalendarEntry(times=((second, second + 3600),)),))
    cluster = replace(
        snapshot.cluster,
        queues={"main.q": replace(MAIN, calendar="nights")},
        calendars={"nights": calendar},
        max_reservation=reserving,
        default_duration=default,
    )
    return replace(snapshot, cluster=cluster)


def test_nothing_is_launched_for_a_queue_that_closes_before_a_worker_could_be_there() -> None:
    assert launched(plan(closing_in(BOOT + 1, a_snapshot(jobs(2))))) == {"m5.large": 1}
    made = plan(closing_in(BOOT, a_snapshot(jobs(2))))
    assert (launched(made), reason_code(made)) == ({}, Code.EXPIRED)
    assert Code.QUEUE_CLOSES_SOON in {link.code for link in category_of(made).reason.trail}


def test_a_queue_that_opens_and_closes_within_a_boot_gets_no_worker() -> None:
    opens, closes = (datetime.fromtimestamp(NOW + seconds, UTC) for seconds in (300, 600))
    times = [each.hour * 3600 + each.minute * 60 + each.second for each in (opens, closes)]
    calendar = Calendar("nights", week=(CalendarEntry(times=((0, times[0]), (times[1], 86_400))),))
    snapshot = a_snapshot(jobs(2), queues={"main.q": replace(MAIN, calendar="nights")})
    made = plan(replace(snapshot, cluster=replace(snapshot.cluster, calendars={"nights": calendar})))
    assert launched(made) == {}


@pytest.mark.parametrize(
    ("hard", "default", "starts"),
    (
        ({}, inf, False),
        ({}, 600.0, True),
        ({"h_rt": "600"}, inf, True),
        ({"h_rt": "7200"}, 600.0, False),
        ({"s_rt": "600", "h_rt": "7200"}, inf, True),
        ({"s_rt": "7200", "h_rt": "600"}, inf, True),
    ),
)
def test_a_job_that_would_run_on_when_the_queue_closes_counts_only_if_the_scheduler_does_not_look_ahead(
    hard: dict[str, str], default: float, starts: bool
) -> None:
    """As a real scheduler does (8.1.9): `offers only qc:slots=0.000000 due to a reservation`."""
    waiting = a_snapshot(a_job(hard=hard), complexes={**COMPLEXES, "s_rt": replace(COMPLEXES["h_rt"], name="s_rt")})
    made = plan(closing_in(3600, waiting, reserving=5, default=default))
    assert (launched(made), reason_code(made)) == (
        ({"m5.large": 1}, Code.EXPIRED) if starts else ({}, Code.RUNS_INTO_CLOSING)
    )
    for looking_ahead in (0, None):
        assert launched(plan(closing_in(3600, waiting, reserving=looking_ahead, default=default))) == {"m5.large": 1}


def test_a_free_host_of_such_a_queue_is_no_room_for_a_job_that_would_run_into_its_closing() -> None:
    made = plan(closing_in(3600, a_snapshot(a_job(), a_worker(idle=60)), reserving=1))
    assert (made.fitting, reason_code(made)) == (0, Code.RUNS_INTO_CLOSING)
    assert text(category_of(made).reason).endswith("it counts as running for INFINITY (default_duration), as it "
    "requests no run time")  # fmt: skip


def test_a_job_that_would_end_in_time_on_a_host_that_is_there_but_not_after_a_boot_gets_no_worker() -> None:
    hard = {"h_rt": "3000"}
    assert (
        reason_code(plan(closing_in(3600, a_snapshot(a_job(hard=hard), a_worker(idle=60)), reserving=1))) is Code.FITS
    )
    made = plan(closing_in(3600, a_snapshot(a_job(hard=hard)), reserving=1))
    assert (launched(made), reason_code(made)) == ({}, Code.COUNTED)
    assert [link.code for link in category_of(made).reason.trail] == [Code.RUNS_INTO_CLOSING]


def test_jobs_of_other_run_times_are_told_apart_where_the_scheduler_looks_ahead() -> None:
    made = plan(
        closing_in(3600, a_snapshot(a_job(1, hard={"h_rt": "600"}), a_job(2, hard={"h_rt": "9000"})), reserving=1)
    )
    assert (reason_code(made, 1), reason_code(made, 2)) == (Code.EXPIRED, Code.RUNS_INTO_CLOSING)


# -- missing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "what"),
    (
        ({"queues": {}}, "queue main.q"),
        ({"host_groups": {}}, "host group @allhosts"),
        ({"queues": {"main.q": replace(MAIN, hostlist=("@other",))}}, "host group @allhosts in the hostlist of main.q"),
    ),
)
def test_nothing_at_all_is_launched_for_a_queue_that_workers_could_not_join(changes: Any, what: str) -> None:
    waiting = a_snapshot(jobs(3), limits=Limits(max_workers=5, min_workers=1))
    there: dict[str, Any] = {"host_groups": {"@allhosts": ()}, "configuration_read": True}
    assert launched(plan(replace(waiting, cluster=replace(waiting.cluster, **there)))) != {}
    made = plan(replace(waiting, cluster=replace(waiting.cluster, **{**there, **changes})))
    assert (launched(made), reason_code(made)) == ({}, Code.QUEUE_MISSING)
    assert [text(note) for note in made.notes if note.code is Code.QUEUE_MISSING] == [
        f"Grid Engine has no {what}: a worker could not join"
    ]


def test_a_queue_over_a_group_that_has_the_workers_group_is_not_missing() -> None:
    outer = {"main.q": replace(MAIN, hostlist=("@cloud",))}
    groups: dict[str, tuple[str, ...]] = {"@allhosts": (), "@cloud": ()}
    snapshot = a_snapshot(jobs(2), queues=outer)
    cluster = replace(snapshot.cluster, host_groups=groups, configuration_read=True)
    assert launched(plan(replace(snapshot, cluster=cluster))) == {}
    inside = replace(cluster, containing_groups={"@allhosts": ("@cloud",)})
    assert launched(plan(replace(snapshot, cluster=inside))) == {"m5.large": 1}


# -- disabled by a person ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "there",
    (
        (a_worker("w1", states="d"), a_worker("w2", states="d")),
        (a_host("master", slots=0, states="du"),),
        (a_host("master", slots=0, states="du"), a_worker("w1", states="d")),
        (a_host("master", states="d"), a_worker("w1", states="d", used=1), a_worker("w2", states="d")),
    ),
)
def test_a_queue_without_persistent_hosts_that_a_person_disabled_counts_nothing(there: tuple[AWorker, ...]) -> None:
    made = plan(a_snapshot(jobs(9), *there))
    assert (launched(made), reason_code(made)) == ({}, Code.QUEUE_DISABLED_BY_HAND)


@pytest.mark.parametrize(
    "there",
    (
        (a_worker("w1", states="d"), a_worker("w2", states="d"), a_worker("w3", used=2)),
        (a_host("master", slots=0, states="u"), a_worker("w1", states="d")),
        (a_host("master", slots=0, states="du"), a_worker("w1", used=2)),
        (a_worker("w1", states="d"), a_worker("w2", mark=Disabling.IDLE, states="d", disabled=20, empty=20, used=2)),
    ),
)
def test_workers_that_a_person_disabled_are_replaced_while_the_queue_is_open_elsewhere(
    there: tuple[AWorker, ...],
) -> None:
    assert launched(plan(a_snapshot(jobs(3), *there))) != {}


@pytest.mark.parametrize(
    ("letters", "code"),
    (
        (("d", "d"), Code.QUEUE_DISABLED_BY_HAND),
        (("d", "dau"), Code.QUEUE_DISABLED_BY_HAND),
        (("s", "s"), Code.QUEUE_SUSPENDED_BY_HAND),
        (("s", "d"), Code.QUEUE_SUSPENDED_BY_HAND),
    ),
)
def test_a_queue_that_a_person_disabled_on_all_persistent_hosts_counts_nothing(
    letters: tuple[str, str], code: Code
) -> None:
    made = plan(a_snapshot(jobs(3), a_host("h1", states=letters[0]), a_host("h2", states=letters[1])))
    assert (launched(made), reason_code(made)) == ({}, code)


@pytest.mark.parametrize(
    "open_somewhere",
    (
        (a_host("h1", states="d"), a_host("h2", used=2)),
        (a_host("h1", states="d"), a_worker("w1", used=2)),
        (a_host("master", states="d"),),
        (a_host("h1", states="d", slots=0),),
        (a_host("h1", states="D"),),
        (a_host("h1", states="d", queue="other.q"),),
        (a_worker("w1", states="d"),),
    ),
)
def test_a_queue_not_disabled_on_all_persistent_hosts_counts(
    open_somewhere: tuple[AWorker, ...],
) -> None:
    assert launched(plan(a_snapshot(jobs(2), *open_somewhere))) == {"m5.large": 1}


def test_a_worker_that_joins_a_queue_that_a_person_disabled_stays_disabled_and_leaves() -> None:
    closed = a_host("h1", states="d")
    fresh = a_worker(mark=Disabling.ENROL, disabled=20, empty=20)
    assert acts(plan(a_snapshot(a_job(), closed, fresh, idle_timeout=30.0))) == []
    old = a_worker(mark=Disabling.ENROL, disabled=60, empty=60)
    made = plan(a_snapshot(a_job(), closed, old, idle_timeout=30.0))
    assert acts(made) == [("disable", "w1")]
    assert made.memory.workers["i-w1"].disabling is Disabling.IDLE, "it did not fail: its bucket gets no backoff"
    again = plan(replace(a_snapshot(a_job(), closed, old, idle_timeout=30.0), memory=made.memory))
    assert again.memory.workers == made.memory.workers, "its enrolment was already observed as disabled"


def test_a_worker_whose_disabling_does_not_show_yet_still_shows_the_queue_as_enabled() -> None:
    """Found by the rules under requests: after a pass that disabled all workers the queue counted as disabled."""
    stopping = replace(a_snapshot(jobs(1), a_host("h1", states="d"), a_worker()), overrides=Overrides(stop="now"))
    first = plan(stopping)
    again = plan(replace(stopping, memory=first.memory))
    assert acts(first) == [("disable", "w1")]
    assert [each.reason for each in again.job_categories] == [each.reason for each in first.job_categories]
    assert again.memory.queues_empty_since == first.memory.queues_empty_since


def test_a_worker_needed_for_min_workers_waits_for_its_disabled_queue() -> None:
    old, least = a_worker(mark=Disabling.ENROL, disabled=60, empty=60), Limits(max_workers=3, min_workers=1)
    assert acts(plan(a_snapshot(a_host("h1", states="d"), old, limits=least))) == []
    assert acts(plan(a_snapshot(a_host("h1"), old, limits=least))) == [("enable", "w1")]


# -- suspended for another queue ----------------------------------------------------------------------------------

URGENT = {"main.q": MAIN, "urgent.q": Queue("urgent.q", ("@allhosts",), 1, subordinates=("main.q",))}


@pytest.mark.parametrize("letter", ("S", "P"))
def test_nothing_is_launched_for_a_subordinate_queue_while_its_superordinate_has_pending_jobs(letter: str) -> None:
    taken = a_worker("w1", states=letter, used=1)
    urgent = a_job(7, queues=("urgent.q",))
    made = plan(a_snapshot(a_job(), urgent, taken, queues=URGENT))
    assert (launched(made), reason_code(made, 1)) == ({}, Code.QUEUE_SUBORDINATE)
    assert launched(plan(a_snapshot(a_job(), taken, queues=URGENT))) == {"m5.large": 1}, "no more urgent job waits"


# -- alarms -------------------------------------------------------------------------------------------------------


def test_workers_in_alarm_are_not_replaced_and_stay_while_jobs_wait_for_them() -> None:
    snapshot = a_snapshot(jobs(3), a_worker("w1", states="a"), a_worker("w2", states="a"), idle_timeout=30.0)
    made = passes(snapshot, 20, every=120.0)
    assert [acts(each) for each in made] == [[]] * 20
    assert {reason_code(each) for each in made} == {Code.IN_ALARM}


def test_a_worker_in_alarm_stays_if_jobs_wait_for_it_and_a_free_one() -> None:
    workers = a_worker("w1", states="a", idle=600), a_worker("w2", idle=600)
    first = Memory(passes=7, observed_at=NOW - 5)
    assert acts(plan(a_snapshot(jobs(2, slots=2), *workers, first, idle_timeout=30.0))) == []
    assert acts(plan(a_snapshot(a_job(slots=2), *workers, first, idle_timeout=30.0))) == [("disable", "w1")]


def test_nothing_is_launched_during_a_lasting_alarm() -> None:
    snapshot = a_snapshot(jobs(2), a_worker("w1", states="a"), idle_timeout=30.0)
    last = passes(snapshot, 10, every=120.0)[-1]
    later = replace(snapshot, memory=last.memory, now=NOW + 1200)
    more = replace(later, cluster=replace(later.cluster, job_categories=(jobs(8),)))
    made = plan(more)
    assert (launched(made), reason_code(made)) == ({}, Code.EXPIRED)
    assert Code.IN_ALARM in {link.code for link in category_of(made).reason.trail}
    fresh = replace(more, memory=Memory(passes=7), now=NOW + 1200)
    assert launched(plan(fresh)) == {"m5.large": 3}, "while it may pass, what does not fit is launched"


def test_the_idle_time_pauses_during_a_transient_alarm() -> None:
    first = a_snapshot(a_worker("w1", states="a", idle=150), Memory(passes=7, observed_at=NOW - 120), idle_timeout=60.0)
    made = passes(first, 7, every=120.0)
    assert [acts(each) for each in made] == [[]] * 7
    assert verdict_of(made[0], "w1").reason.code is Code.IN_ALARM
    assert made[-1].memory.workers["i-w1"].idle_since == NOW + 6 * 120 - 30


def test_an_idle_worker_in_a_lasting_alarm_leaves_if_no_job_waits() -> None:
    made = passes(a_snapshot(a_worker("w1", states="a", idle=10), idle_timeout=30.0), 10, every=120.0)
    assert next(each for each in map(acts, made) if each) == [("disable", "w1")]


def test_after_a_while_another_worker_is_launched_beside_a_single_one_in_alarm() -> None:
    snapshot = a_snapshot(jobs(2), a_worker("w1", states="a"), a_worker("w2", used=2), idle_timeout=30.0)
    made = passes(snapshot, 9, every=120.0)
    assert [launched(each) for each in made][:7] == [{}] * 7
    assert {"m5.large": 1} in [launched(each) for each in made]


@pytest.mark.parametrize("letter", ("a", ""), ids=("in a fresh alarm", "not in alarm yet"))
def test_nothing_is_launched_in_a_lasting_alarm_while_a_worker_has_just_joined(letter: str) -> None:
    alone = a_snapshot(jobs(2), a_worker("w1", states="a"), idle_timeout=3000.0)
    kept = passes(alone, 10, every=120.0)[-1].memory
    now = NOW + 1200
    joined = replace(a_worker("w2").note or WorkerNote(now), first_seen=now - 9, joined_at=now - 9)
    both = a_snapshot(jobs(8), a_worker("w1", states="a"), a_worker("w2", states=letter), idle_timeout=3000.0)
    snapshot = replace(both, memory=replace(kept, workers={**kept.workers, "i-w2": joined}), now=now)
    made = plan(snapshot)
    assert (launched(made), reason_code(made, 1)) == ({}, Code.EXPIRED)
    assert Code.IN_ALARM in {link.code for link in category_of(made).reason.trail}
    if not letter:
        calm = replace(joined, first_seen=now - 5000, joined_at=now - 5000)
        older = replace(snapshot, memory=replace(kept, workers={**kept.workers, "i-w2": calm}))
        assert launched(plan(older)) == {"m5.large": 3}


def test_a_busy_worker_in_alarm_is_not_supply() -> None:
    assert launched(plan(a_snapshot(a_job(), a_worker("w1", states="a", used=1)))) == {"m5.large": 1}


def test_jobs_are_placed_first_on_hosts_not_in_alarm() -> None:
    made = plan(a_snapshot(a_job(), a_worker("w1", states="a"), a_worker("w2", idle=60)))
    assert (acts(made), reason_code(made)) == ([], Code.FITS)


# -- limits that no worker helps against --------------------------------------------------------------------------


def limited(snapshot: Snapshot, **limits: Any) -> Snapshot:
    return replace(snapshot, cluster=replace(snapshot.cluster, **limits))


def counts(made: Plan) -> dict[Code | None, int]:
    found: dict[Code | None, int] = {}
    for verdict in made.job_categories:
        code = None if verdict.counted else verdict.reason.code
        found[code] = found.get(code, 0) + verdict.count
    return found


def test_jobs_of_a_user_beyond_maxujobs_do_not_count() -> None:
    running = [a_host(f"h{number}", slots=4, used=4) for number in range(10)]
    running = [renumbered(host, number * 100) for number, host in enumerate(running)]
    snapshot = a_snapshot(jobs(5000, owner="ann"), jobs(30, first=8000, owner="bob"), *running)
    made = plan(limited(snapshot, max_user_jobs=100))
    assert counts(made) == {None: 60 + 30, Code.BEYOND_USER_LIMIT: 4940}


def renumbered(host: ExecutionHost, by: int) -> ExecutionHost:
    """The same host with other jobs."""
    instance = host.instances[0]
    moved = tuple(replace(job, number=job.number + by) for job in instance.jobs)
    return replace(host, instances=(replace(instance, jobs=moved),))


def test_a_job_over_several_hosts_counts_once_for_its_user() -> None:
    hosts = [a_host(name, slots=2, used=1) for name in ("h1", "h2")]
    made = plan(limited(a_snapshot(jobs(9, owner="ann"), *hosts), max_user_jobs=3))
    assert counts(made) == {None: 2, Code.BEYOND_USER_LIMIT: 7}


def test_tasks_of_an_array_beyond_max_aj_instances_do_not_count() -> None:
    array = a_job(5, tasks="1-10000:1", count=10_000)
    made = plan(limited(a_snapshot(array, details_of(5)), max_array_tasks=2000))
    assert counts(made) == {None: 2000, Code.BEYOND_ARRAY_LIMIT: 8000}


@pytest.mark.parametrize(("concurrency", "code"), ((3, Code.BEYOND_CONCURRENCY), (9, Code.BEYOND_ARRAY_LIMIT)))
def test_the_smaller_of_two_limits_of_an_array_is_named(concurrency: int, code: Code) -> None:
    array = a_job(5, tasks="1-20:1", count=20)
    made = plan(limited(a_snapshot(array, details_of(5, concurrency=concurrency)), max_array_tasks=8))
    assert counts(made) == {None: min(concurrency, 8), code: 20 - min(concurrency, 8)}


def test_a_draining_worker_does_not_hide_that_the_queue_is_suspended_for_another() -> None:
    taken = a_worker("w1", states="S", used=1)
    leaving = a_worker("w2", mark=Disabling.IDLE, disabled=5, empty=5)
    made = plan(a_snapshot(a_job(), a_job(7, queues=("urgent.q",)), taken, leaving, queues=URGENT))
    assert reason_code(made, 1) is Code.QUEUE_SUBORDINATE
