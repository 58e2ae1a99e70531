"""Grid Engine's answers about jobs that may be unsatisfiable, and the probe hosts that exist while it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from autoscaler.core.actions import PROBE_HOST_PREFIX, ProbeHost
from autoscaler.core.model.evidence import Answer
from autoscaler.errors import CommandTimedOut, GridEngineRefused, HostsFileUnusable
from autoscaler.process import Completed
from autoscaler.sge import probe_hosts as module
from autoscaler.sge.probe_hosts import ProbeHosts, verdicts
from tests.sge.grid_engine_model import GridEngineModel
from tests.simulated.asking import NamesInMemory

NO_PE = 'Job {} cannot run in PE "local" because it only offers 0 slots\nverification: no suitable queues'
POSSIBLE = "verification: found possible assignment with 64 slots"
SUITABLE = "verification: found suitable queue(s)"
BUSY = "verification: job is already running or is held"
GONE = 'denied: job "{}" does not exist'
TWO = (ProbeHost("main.q", 2, ()), ProbeHost("main.q", 4, (("arch", "lx-amd64"), ("h_vmem", "8G"))))


def answers(jobs: Sequence[int], *said: str) -> list[Answer]:
    found = verdicts(jobs, "\n".join(said))
    return [found[job][0] for job in jobs]


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "answer"),
    (
        (NO_PE.format(1), Answer.UNSATISFIABLE),
        ("verification: no suitable queues", Answer.UNSATISFIABLE),
        (POSSIBLE, Answer.SATISFIABLE),
        (SUITABLE, Answer.SATISFIABLE),
        (BUSY, Answer.NONE),
        (GONE.format(1), Answer.NONE),
        ("", Answer.NONE),
        ("verification: no suitable queues today", Answer.NONE),
        ("verification: no suitable queues with 3 slots?", Answer.NONE),
        ("Verification: no suitable queues", Answer.NONE),
        ("no suitable queues", Answer.NONE),
        ("error: no suitable queues", Answer.NONE),
        ("denied: no suitable queues", Answer.NONE),
        ("verification: ", Answer.NONE),
        ("verification: no suitable queues\nverification: no suitable queues", Answer.NONE),
        ("verification: no suitable queues\nsomething after it", Answer.NONE),
        ("Job 2 cannot run\nverification: no suitable queues", Answer.NONE),
        ("Job 11 cannot run\nverification: no suitable queues", Answer.NONE),
    ),
)
def test_only_an_explicit_no_counts_as_impossible(said: str, answer: Answer) -> None:
    assert answers([1], said) == [answer]


def test_several_answers_are_assigned_to_jobs_by_their_order() -> None:
    said = (POSSIBLE, NO_PE.format(2), BUSY, GONE.format(4), SUITABLE)
    expected = [Answer.SATISFIABLE, Answer.UNSATISFIABLE, Answer.NONE, Answer.NONE, Answer.SATISFIABLE]
    assert answers([1, 2, 3, 4, 5], *said) == expected


@pytest.mark.parametrize(
    "said",
    (
        (NO_PE.format(1),),
        (NO_PE.format(2), NO_PE.format(1)),
        (NO_PE.format(1), POSSIBLE, SUITABLE),
        (NO_PE.format(1), GONE.format(3)),
        (NO_PE.format(1), "Job 2 cannot run"),
    ),
    ids=("one-too-few", "another-order", "one-too-many", "of-another-job", "cut-short"),
)
def test_answers_that_cannot_be_assigned_to_jobs_count_as_none(said: tuple[str, ...]) -> None:
    assert answers([1, 2], *said) == [Answer.NONE, Answer.NONE]


def test_a_request_with_a_line_break_makes_no_job_impossible() -> None:
    forged = "Job 1 (-l h=x\nverification: no suitable queues\n) cannot run\nverification: found suitable queue(s)"
    assert answers([1, 2], forged, POSSIBLE) == [Answer.NONE, Answer.NONE]


def test_grid_engines_message_is_kept_with_the_answer() -> None:
    assert verdicts([2], NO_PE.format(2))[2][1] == NO_PE.format(2).replace("\n", "; ")


def test_a_long_message_is_shortened_to_its_beginning_and_end() -> None:
    lines = "\n".join(f'Job 2 cannot run at host "h{number}"' for number in range(1000))
    said = verdicts([2], f"{lines}\nverification: no suitable queues")[2][1]
    assert (len(said) < 500, said.startswith("Job 2 "), said.endswith("no suitable queues")) == (True, True, True)


# -- probe hosts -----------------------------------------------------------------------------------------------------


class SchedulerModel(GridEngineModel):
    """The model with a scheduler that gives prepared answers, and records which probe hosts exist when it is asked."""

    def __init__(self, *said: str) -> None:
        super().__init__()
        self.said = list(said)
        self.there: dict[str, tuple[str, int, bool]] = {}
        self.seconds, self.each = 0.0, 0.0
        """What every command takes of the stopwatch's time."""

    def __call__(self, argv: Sequence[str], *, timeout: float, **more: object) -> Completed:
        if self.each > timeout:
            self.seconds += timeout
            raise CommandTimedOut(f"{argv[0]} did not end within {timeout:g} s")
        self.seconds += self.each
        return super().__call__(argv, timeout=timeout)

    def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
        if argv[:3] != ("qalter", "-w", "v"):
            return super().answer(argv)
        self.there = {
            name: (values, self.slots[name], name in self.disabled)
            for name, values in self.hosts.items()
            if name.startswith(PROBE_HOST_PREFIX)
        }
        return 1, self.said.pop(0)

    @property
    def clean(self) -> bool:
        return not self.hosts and not self.slots and not self.attached and not self.members


def test_probe_hosts_exist_only_while_grid_engine_is_asked_and_are_disabled() -> None:
    model, names = SchedulerModel(NO_PE.format(1)), NamesInMemory()
    asked = ProbeHosts(model, names, clock=lambda: 0.0).ask([1], TWO)
    there = {
        f"{PROBE_HOST_PREFIX}1": ("slots=2", 2, True),
        f"{PROBE_HOST_PREFIX}2": ("slots=4,arch=lx-amd64,h_vmem=8G", 4, True),
    }
    assert (asked.answers[1][0], model.there, model.clean, names.there) == (Answer.UNSATISFIABLE, there, True, {})


def test_later_probe_hosts_have_names_that_qmaster_does_not_know() -> None:
    """qmaster keeps a name as unknown that was looked up again after its probe host had been removed."""
    met: list[set[str]] = []
    for now in (1000.0, 1001.0, 1030.0):
        ProbeHosts(model := SchedulerModel(NO_PE.format(1)), NamesInMemory(), clock=partial(float, now)).ask(
            [1], TWO * 8
        )
        met.append(set(model.there))
    assert (len(set().union(*met)), [len(names) for names in met]) == (48, [16, 16, 16])


def test_questions_within_one_second_name_their_probe_hosts_differently() -> None:
    asking = ProbeHosts(model := SchedulerModel(*[NO_PE.format(1)] * 3), NamesInMemory(), clock=lambda: 1000.0)
    met: list[set[str]] = []
    for _ in range(3):
        asking.ask([1], TWO * 8)
        met.append(set(model.there))
        model.there.clear()
    assert (len(set().union(*met)), [len(names) for names in met]) == (48, [16, 16, 16])


def test_no_job_can_ever_start_on_a_probe_host() -> None:
    model = SchedulerModel(POSSIBLE)
    asked = ProbeHosts(model, NamesInMemory()).ask([1], TWO)
    assert (list(asked.answers), model.startable) == ([1], [])


def test_no_command_names_a_host_group() -> None:
    model = SchedulerModel(POSSIBLE)
    asked = ProbeHosts(model, NamesInMemory()).ask([1], TWO)
    assert list(asked.answers) == [1]
    assert not [call for call in model.calls if "@allhosts" in call]


def test_a_no_that_does_not_name_its_job_is_asked_again_for_that_job_alone() -> None:
    model = SchedulerModel(f"{POSSIBLE}\nverification: no suitable queues", POSSIBLE)
    asked = ProbeHosts(model, NamesInMemory()).ask([1, 2], TWO)
    assert [answer for answer, _ in asked.answers.values()] == [Answer.SATISFIABLE, Answer.SATISFIABLE]


def test_many_jobs_are_asked_in_several_commands() -> None:
    jobs = list(range(1, 46))
    model = SchedulerModel(*("\n".join([SUITABLE] * count) for count in (20, 20, 5)))
    asked = ProbeHosts(model, NamesInMemory()).ask(jobs, TWO)
    assert {answer for answer, _ in asked.answers.values()} == {Answer.SATISFIABLE}


def test_no_command_runs_without_jobs() -> None:
    model = SchedulerModel()
    assert (ProbeHosts(model, NamesInMemory()).ask([], TWO).answers, model.calls) == ({}, [])


def test_leftover_probe_hosts_are_removed_before_the_next_are_created() -> None:
    model = SchedulerModel(POSSIBLE)
    model.hosts[f"{PROBE_HOST_PREFIX}7"] = "slots=64"
    model.attached.append(f"{PROBE_HOST_PREFIX}7")
    model.slots[f"{PROBE_HOST_PREFIX}7"] = 64
    ProbeHosts(model, NamesInMemory(), clock=lambda: 0.0).ask([1], TWO)
    assert (sorted(model.there), model.clean) == ([f"{PROBE_HOST_PREFIX}1", f"{PROBE_HOST_PREFIX}2"], True)


@pytest.mark.parametrize("left", ("host", "attached", "slots"))
def test_the_sweep_removes_everything_with_the_prefix_of_probe_hosts(left: str) -> None:
    model, name = SchedulerModel(), f"{PROBE_HOST_PREFIX}3"
    if left in ("host", "attached"):
        model.hosts[name] = "slots=2"
    if left == "attached":
        model.attached.append(name)
    if left == "slots":
        model.slots[name] = 2
    found = ProbeHosts(model, NamesInMemory()).sweep()
    assert (found, model.clean) == ((name,), True)


def test_the_sweep_changes_no_other_host() -> None:
    model = SchedulerModel()
    model.hosts["w1"], model.slots["w1"], model.attached = "slots=2", 2, ["w1"]
    ProbeHosts(model, NamesInMemory()).sweep()
    changing = [call for call in model.calls if not call[1].startswith("-s")]
    assert (changing, model.hosts) == ([], {"w1": "slots=2"})


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_probe_host_that_cannot_be_created_gives_no_answer_and_leaves_nothing() -> None:
    class Refusing(SchedulerModel):
        def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
            if argv[:5:4] == ("qconf", self.queue) or argv[:4] == ("qconf", "-aattr", "queue", "hostlist"):
                return 1, "error: denied: no hosts today"
            return super().answer(argv)

    model = Refusing(NO_PE.format(1))
    asked = ProbeHosts(model, NamesInMemory()).ask([1], TWO)
    assert (asked.answers[1], model.clean) == ((Answer.NONE, "error: denied: no hosts today"), True)


def test_an_unusable_complex_value_gives_no_answer() -> None:
    model = SchedulerModel(NO_PE.format(1))
    asked = ProbeHosts(model, NamesInMemory()).ask([1], [ProbeHost("main.q", 2, (("arch", "x\ny"),))])
    assert (asked.answers[1][0], model.clean) == (Answer.NONE, True)


def test_an_unwritable_hosts_file_gives_no_answer() -> None:
    class Unwritable(NamesInMemory):
        def put(self, addresses: Mapping[str, str]) -> None:
            raise HostsFileUnusable("/etc/hosts cannot be changed (Permission denied)")

    model = SchedulerModel(NO_PE.format(1))
    asked = ProbeHosts(model, Unwritable()).ask([1], TWO)
    assert (asked.answers[1][0], "Permission denied" in asked.answers[1][1], model.hosts) == (Answer.NONE, True, {})


def test_a_probe_host_that_cannot_be_removed_is_reported_and_not_counted_as_swept() -> None:
    class Sticky(SchedulerModel):
        def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
            return (0, "") if argv[:2] == ("qconf", "-de") else super().answer(argv)

    model = Sticky(POSSIBLE)
    asking = ProbeHosts(model, NamesInMemory())
    asked = asking.ask([1], TWO)
    assert (asked.answers[1][0], "could not be removed" in asked.left, asking.swept) == (
        Answer.SATISFIABLE,
        True,
        False,
    )


def test_a_sweep_that_leaves_a_probe_host_raises() -> None:
    class Sticky(SchedulerModel):
        def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
            return (0, "") if argv[:2] == ("qconf", "-de") else super().answer(argv)

    model = Sticky()
    model.hosts[f"{PROBE_HOST_PREFIX}1"] = "slots=1"
    with pytest.raises(GridEngineRefused, match="could not be removed"):
        ProbeHosts(model, NamesInMemory()).sweep()


@pytest.mark.parametrize("each", (0.4, 1.0, 3.0, 7.0, 30.0))
def test_asking_ends_within_15_seconds_however_slow_qmaster_is(each: float) -> None:
    jobs = list(range(1, 100))
    model = SchedulerModel(*["\n".join(NO_PE.format(job) for job in jobs[at : at + 20]) for at in range(0, 100, 20)])
    model.each = each
    ProbeHosts(model, NamesInMemory(), lambda: model.seconds).ask(jobs, TWO)
    assert model.seconds <= 15.0


def test_jobs_beyond_the_time_limit_have_no_answer() -> None:
    jobs = list(range(1, 41))
    model = SchedulerModel(*["\n".join([SUITABLE] * module.JOBS_AT_ONCE)] * 2)
    model.each = 0.95
    asked = ProbeHosts(model, NamesInMemory(), lambda: model.seconds).ask(jobs, TWO[:1])
    found = [answer for answer, _ in asked.answers.values()]
    assert (found[0], found[-1]) == (Answer.SATISFIABLE, Answer.NONE)
