"""For a queue that starts nothing now no worker is launched: it would be in state `D` or `a`, leave, and so on."""

from __future__ import annotations

import os
import random
import time
from datetime import datetime, timedelta

import pytest

from autoscaler.core.model.calendars import CalendarState
from autoscaler.lab.cell import Cell
from autoscaler.local_zone import LocalZone
from autoscaler.sge.calendars import read_calendar
from autoscaler.store.store import Store
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until
from tests.samples import sample

MANY = {"CP_CAP_AUTOSCALE_WORKERS": "6", "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "6"}
PASSES = 15
"""This many passes more, each of which could have launched: with an idle time of half a second, several lives."""


@pytest.mark.thorough
def test_nothing_is_launched_for_a_queue_that_its_calendar_closes_until_it_opens(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = autoscaling.log_text
    calendar(empty_cell, "-Acal", "mon-sun=0-24=off")
    empty_cell.out("qconf", "-mattr", "queue", "calendar", "nights", "main.q")
    gate = Gate(empty_cell)
    jobs = [gate.submit() for _ in range(3)]

    with autoscaling.running():
        more_passes(autoscaling, until)
        assert autoscaling.lifetimes() == ()
        assert verdicts_of(autoscaling, jobs[0]) == [(False, "QUEUE_OFF_BY_CALENDAR")]
        calendar(empty_cell, "-Mcal", "NONE")
        gate.open()
        until(lambda: all(autoscaling.ended_well(job) for job in jobs), 30, "the jobs did not end well")
        until(autoscaling.all_gone, 30, "the workers did not leave")

    assert len(autoscaling.lifetimes()) <= 2


@pytest.mark.thorough
def test_workers_are_launched_before_their_queue_opens_and_wait_for_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = autoscaling.log_text
    now = datetime.fromtimestamp(time.time(), LocalZone())
    begin, end = (f"{now + timedelta(seconds=seconds):%H:%M:%S}" for seconds in (-7200, 30))
    calendar(empty_cell, "-Acal", f"{begin}-{end}")
    empty_cell.out("qconf", "-mattr", "queue", "calendar", "nights", "main.q")
    gate = Gate(empty_cell)
    jobs = [gate.submit() for _ in range(3)]

    def closed_workers() -> bool:
        shown = list(autoscaling.instances().values())
        return len(shown) == 2 and all(instance.states == "D" for instance in shown)

    with autoscaling.running():
        until(closed_workers, 25, "two workers did not wait for the opening")
        assert verdicts_of(autoscaling, jobs[0]) == [(True, "QUEUE_OPENS_SOON")]
        until(lambda: all(autoscaling.running_on(job) for job in jobs), 60, "the jobs did not all start")
        gate.open()
        until(autoscaling.all_gone, 30, "the workers did not leave")

    assert len(autoscaling.lifetimes()) == 2


def test_nothing_is_launched_for_a_queue_that_grid_engine_does_not_have_until_it_is_made(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, {**MANY, "CP_CAP_SGE_QUEUE_NAME": "fresh.q"})
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)
    job = gate.submit()

    with autoscaling.running():
        until(lambda: "Grid Engine has no queue fresh.q: a worker could not join" in autoscaling.log_text(), 30)
        more_passes(autoscaling, until)
        assert autoscaling.lifetimes() == ()
        assert autoscaling.command("init", "--yes").returncode == 0
        until(lambda: autoscaling.running_on(job), 60, "no worker came once the queue was there")
        gate.open()


def test_calendars_have_the_state_that_grid_engine_shows(cell: Cell, until: Until) -> None:
    seed = 1 if os.environ.get("CI") else random.randrange(1_000_000)
    print("seed", seed)
    chance, now = random.Random(seed), datetime.fromtimestamp(time.time(), LocalZone())
    cell.out("qconf", "-mattr", "queue", "load_thresholds", "np_load_avg=99", "main.q")
    shown: list[tuple[str, str, str]] = []
    for number in range(40):
        year, week = a_year(chance, now), a_week(chance, now)
        calendar(cell, "-Mcal" if number else "-Acal", week, year)
        if not number:
            cell.out("qconf", "-mattr", "queue", "calendar", "nights", "main.q")
        states = {"".join(set(line.split()[5:])) for line in cell.out("qstat", "-f").splitlines() if "main.q@" in line}
        read = read_calendar(cell.out("qconf", "-scal", "nights")).state(time.time(), LocalZone())
        letter = {CalendarState.ON: "", CalendarState.OFF: "D", CalendarState.SUSPENDED: "C"}[read]
        if states != {letter}:
            shown.append((year, week, f"{states} is not {letter!r}"))
    assert shown == [], f"seed {seed} at {now}"


def a_year(chance: random.Random, now: datetime) -> str:
    """A year's entries, some about today."""
    entries = []
    for _ in range(chance.randint(0, 2)):
        day = now + timedelta(days=chance.randint(-2, 2))
        first = f"{day.day}.{chance.choice([str(day.month), day.strftime('%b').lower()])}.{day.year}"
        last = now + timedelta(days=chance.randint(2, 9))
        days = chance.choice([first, f"{first}-{last.day}.{last.month}.{last.year}", f"1.1.2026,{first}"])
        entries.append("=".join([days, *times(chance, now), *chance.choice([[], ["on"], ["off"], ["suspended"]])]))
    return " ".join(entries) or "NONE"


def a_week(chance: random.Random, now: datetime) -> str:
    """A week's entries, some about this day of it. All have one state: where entries of several states overlap, qmaster
    may apply one that begins only when another ends.
    """
    entries = []
    state = chance.choice([[], ["on"], ["off"], ["suspended"]])
    for _ in range(chance.randint(0, 3)):
        names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
        first, last = chance.sample(names, 2)
        today = now.weekday()
        beside = [names[today], chance.choice([name for name in names if name != names[today]])]
        chance.shuffle(beside)
        days = chance.choice([[], [first], [f"{first}-{last}"], [",".join(beside)]])
        parts = [*days, *times(chance, now), *state]
        entries.append("=".join(parts or ["off"]))
    return " ".join(entries) or "NONE"


def times(chance: random.Random, now: datetime) -> list[str]:
    """Times of day, none of them within this hour."""
    hours = [hour for hour in range(25) if hour % 24 not in (now.hour, (now.hour + 1) % 24)]
    ranges = [chance.sample(hours, 2) for _ in range(chance.randint(0, 2))]
    return [",".join(f"{begin}-{end}{':30' if end < 24 else ''}" for begin, end in ranges)] if ranges else []


@pytest.mark.parametrize(
    ("close", "reopen", "code"),
    (
        ("-d", "-e", "QUEUE_DISABLED_BY_HAND"),
        pytest.param("-sq", "-usq", "QUEUE_SUSPENDED_BY_HAND", marks=pytest.mark.thorough),
    ),
)
def test_nothing_is_launched_for_a_queue_that_a_person_disabled_until_it_is_enabled(
    cell: Cell, until: Until, show_on_failure: Shown, close: str, reopen: str, code: str
) -> None:
    autoscaling = Autoscaling(cell, MANY)
    show_on_failure["autoscaler"] = autoscaling.log_text
    cell.out("qmod", close, "main.q")
    gate = Gate(cell)
    jobs = [gate.submit() for _ in range(6)]

    with autoscaling.running():
        more_passes(autoscaling, until)
        assert autoscaling.lifetimes() == ()
        assert verdicts_of(autoscaling, jobs[0]) == [(False, code)]
        cell.out("qmod", reopen, "main.q")
        until(lambda: all(autoscaling.running_on(job) for job in jobs), 30, "the jobs did not all start")
        gate.open()
        until(autoscaling.all_gone, 30, "the worker did not leave")

    assert len(autoscaling.lifetimes()) == 1, "four jobs on the persistent hosts, two on one worker"


@pytest.mark.thorough
def test_workers_in_alarm_are_ordered_once_and_run_the_jobs_when_the_alarm_ends(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = autoscaling.log_text
    empty_cell.out("qconf", "-mattr", "queue", "load_thresholds", "np_load_avg=0.01", "main.q")
    gate = Gate(empty_cell)
    jobs = [gate.submit() for _ in range(3)]

    def in_alarm() -> bool:
        shown = list(autoscaling.instances().values())
        return len(shown) == 2 and all(instance.states == "a" for instance in shown)

    with autoscaling.running():
        until(in_alarm, 40, "two workers were not in alarm")
        more_passes(autoscaling, until)
        assert len(autoscaling.lifetimes()) == 2
        assert verdicts_of(autoscaling, jobs[0]) == [(True, "IN_ALARM")]
        empty_cell.out("qconf", "-rattr", "queue", "load_thresholds", "NONE", "main.q")
        until(lambda: all(autoscaling.running_on(job) for job in jobs), 30, "the jobs did not all start")
        gate.open()
        until(autoscaling.all_gone, 30, "the workers did not leave")

    assert len(autoscaling.lifetimes()) == 2


@pytest.mark.thorough
def test_no_worker_is_launched_for_a_job_delayed_by_load_adjustments(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    """They are added to the load for each job that began a moment ago, and show in no state letter."""
    autoscaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = autoscaling.log_text
    empty_cell.out("qconf", "-mattr", "queue", "load_thresholds", "np_load_avg=50", "main.q")
    empty_cell.schedule(job_load_adjustments="np_load_avg=100", load_adjustment_decay_time="0:0:20")
    gate = Gate(empty_cell)
    first, second = gate.submit(), gate.submit()

    with autoscaling.running():
        until(lambda: autoscaling.running_on(first), 40, "the first job did not start")
        assert not autoscaling.running_on(second)
        until(lambda: autoscaling.running_on(second), 60, "the second job did not start")
        gate.open()
        until(autoscaling.all_gone, 30, "the worker did not leave")

    assert len(autoscaling.lifetimes()) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("state", sample(("disabled", "enabled"), "disabled"))
def test_one_worker_of_a_queue_with_an_initial_state_is_enabled_at_most_once_and_runs_its_job(
    empty_cell: Cell, until: Until, show_on_failure: Shown, state: str
) -> None:
    autoscaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = autoscaling.log_text
    empty_cell.out("qconf", "-mattr", "queue", "initial_state", state, "main.q")
    gate = Gate(empty_cell)
    job = gate.submit()

    with autoscaling.running():
        until(lambda: autoscaling.running_on(job), 30, "the job did not start")
        gate.open()
        until(lambda: autoscaling.ended_well(job), 30, "the job did not end well")
        until(autoscaling.all_gone, 30, "the worker did not leave")

    assert len(autoscaling.lifetimes()) == 1
    # With the initial state `enabled`, qmaster itself enables the instance when the execd first reports: that leaves us
    # nothing to enable, unless the report came before the enrolment disabled the instance.
    enabled = autoscaling.log_text().count("enabling ")
    assert enabled == 1 if state == "disabled" else enabled <= 1


def test_tasks_beyond_the_limits_of_users_and_arrays_do_not_count(empty_cell: Cell) -> None:
    autoscaling = Autoscaling(empty_cell, {**MANY, "CP_CAP_AUTOSCALE_WORKERS": "9999"})
    empty_cell.configure(max_aj_instances="40")
    array = empty_cell.submit("-b", "y", "-t", "1-10000", "sleep", "1")
    plan = autoscaling.plan()
    assert counted(plan, array) == {None: 40, "BEYOND_ARRAY_LIMIT": 9960}

    empty_cell.schedule(maxujobs="7")
    assert counted(autoscaling.plan(), array) == {None: 7, "BEYOND_ARRAY_LIMIT": 9960, "BEYOND_USER_LIMIT": 33}


def counted(plan: dict[str, object], job: str) -> dict[str | None, int]:
    """By reason (None: counted), how many tasks of a job."""
    found: dict[str | None, int] = {}
    job_categories = plan["job_categories"]
    assert isinstance(job_categories, list)
    for row in job_categories:
        if any(name.partition(".")[0] == job for name in row["jobs"]):
            code = None if row["counted"] else row["reason"]["code"]
            found[code] = found.get(code, 0) + row["tasks"]
    return found


def calendar(cell: Cell, switch: str, week: str, year: str = "NONE") -> None:
    file = cell.home / "calendar"
    file.write_text(f"calendar_name nights\nyear {year}\nweek {week}\n")
    cell.out("qconf", switch, str(file))


def verdicts_of(autoscaling: Autoscaling, job: str) -> list[tuple[bool, str]]:
    return [(row["counted"], row["reason"]["code"]) for row in autoscaling.explained(job)["waiting"]]


def more_passes(autoscaling: Autoscaling, until: Until) -> None:
    """Until the autoscaler has made this many passes more."""
    first = passes(autoscaling)
    until(lambda: passes(autoscaling) >= first + PASSES, 60, "it made no further passes")


def passes(autoscaling: Autoscaling) -> int:
    files = sorted(autoscaling.state.glob("*.sqlite"))
    if not files:
        return 0
    store = Store.open(files[0])
    try:
        return store.memory.load().passes
    finally:
        store.close()
