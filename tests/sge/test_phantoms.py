"""What Grid Engine says of a job that may never run is taken for exactly what it is, and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from autoscaler.core.actions import PROBE_HOST_PREFIX, ProbeHost
from autoscaler.core.model.evidence import Answer
from autoscaler.errors import CommandTimedOut, GridEngineRefused, HostsFileUnusable
from autoscaler.process import Completed
from sge import probe_hosts as module
from sge.probe_hosts import ProbeHosts, verdicts
from tests.sge.grid_engine_model import GridEngineModel
from tests.simulated.asking import NamesInMemory

NO_PE = 'Job {} cannot run in PE "local" because it only offers 0 slots\nverification: no suitable queues'
POSSIBLE = "verification: found possible assignment with 64 slots"
SUITABLE = "verification: found suitable queue(s)"
BUSY = "verification: job is already running or is held"
GONE = 'denied: job "{}" does not exist'
TWO = (ProbeHost("main.q", 2, ()), ProbeHost("main.q", 4, (("arch", "lx-amd64"), ("h_vmem", "8G"))))


def answers(jobs: Sequence[int], *said: str) -> list[Answer]:
    told = verdicts(jobs, "\n".join(said))
    return [told[job][0] for job in jobs]


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "answer"),
    (
        (NO_PE.format(1), Answer.IMPOSSIBLE),
        ("verification: no suitable queues", Answer.IMPOSSIBLE),
        (POSSIBLE, Answer.POSSIBLE),
        (SUITABLE, Answer.POSSIBLE),
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
def test_only_an_explicit_no_is_a_no(said: str, answer: Answer) -> None:
    assert answers([1], said) == [answer]


def test_several_answers_are_told_apart_by_their_order() -> None:
    said = (POSSIBLE, NO_PE.format(2), BUSY, GONE.format(4), SUITABLE)
    expected = [Answer.POSSIBLE, Answer.IMPOSSIBLE, Answer.NONE, Answer.NONE, Answer.POSSIBLE]
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
def test_answers_that_cannot_be_told_apart_are_none(said: tuple[str, ...]) -> None:
    assert answers([1, 2], *said) == [Answer.NONE, Answer.NONE]


def test_a_request_that_holds_a_line_break_dooms_nobody() -> None:
    forged = "Job 1 (-l h=x\nverification: no suitable queues\n) cannot run\nverification: found suitable queue(s)"
    assert answers([1, 2], forged, POSSIBLE) == [Answer.NONE, Answer.NONE]


def test_grid_engines_words_are_kept_with_the_answer() -> None:
    assert verdicts([2], NO_PE.format(2))[2][1] == NO_PE.format(2).replace("\n", "; ")


def test_words_of_a_thousand_hosts_are_cut_to_their_ends() -> None:
    lines = "\n".join(f'Job 2 cannot run at host "h{number}"' for number in range(1000))
    said = verdicts([2], f"{lines}\nverification: no suitable queues")[2][1]
    assert (len(said) < 500, said.startswith("Job 2 "), said.endswith("no suitable queues")) == (True, True, True)


# -- asking ----------------------------------------------------------------------------------------------------------


class Asking(GridEngineModel):
    """The model with a scheduler that says what the test tells it to, and notes what is there when it is asked."""

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


def test_phantoms_are_there_disabled_while_it_is_asked_and_nowhere_after() -> None:
    model, names = Asking(NO_PE.format(1)), NamesInMemory()
    asked = ProbeHosts(model, names, clock=lambda: 0.0).ask([1], TWO)
    there = {
        f"{PROBE_HOST_PREFIX}1": ("slots=2", 2, True),
        f"{PROBE_HOST_PREFIX}2": ("slots=4,arch=lx-amd64,h_vmem=8G", 4, True),
    }
    assert (asked.answers[1][0], model.there, model.clean, names.there) == (Answer.IMPOSSIBLE, there, True, {})


def test_a_later_question_has_names_that_the_queue_master_has_not_met() -> None:
    """It goes on holding a name for unknown that was looked up again after its phantom had gone."""
    met: list[set[str]] = []
    for now in (1000.0, 1001.0, 1030.0):
        ProbeHosts(model := Asking(NO_PE.format(1)), NamesInMemory(), clock=partial(float, now)).ask([1], TWO * 8)
        met.append(set(model.there))
    assert (len(set().union(*met)), [len(names) for names in met]) == (48, [16, 16, 16])


def test_no_phantom_ever_lets_a_job_in() -> None:
    model = Asking(POSSIBLE)
    ProbeHosts(model, NamesInMemory()).ask([1], TWO)
    assert model.startable == []


def test_no_command_names_a_host_group() -> None:
    model = Asking(POSSIBLE)
    ProbeHosts(model, NamesInMemory()).ask([1], TWO)
    assert not [call for call in model.calls if "@allhosts" in call]


def test_a_no_without_the_jobs_name_in_it_is_asked_for_again_alone() -> None:
    model = Asking(f"{POSSIBLE}\nverification: no suitable queues", POSSIBLE)
    asked = ProbeHosts(model, NamesInMemory()).ask([1, 2], TWO)
    assert [answer for answer, _ in asked.answers.values()] == [Answer.POSSIBLE, Answer.POSSIBLE]


def test_many_jobs_are_asked_about_in_several_commands() -> None:
    jobs = list(range(1, 46))
    model = Asking(*("\n".join([SUITABLE] * count) for count in (20, 20, 5)))
    asked = ProbeHosts(model, NamesInMemory()).ask(jobs, TWO)
    assert {answer for answer, _ in asked.answers.values()} == {Answer.POSSIBLE}


def test_no_jobs_is_no_command() -> None:
    model = Asking()
    assert (ProbeHosts(model, NamesInMemory()).ask([], TWO).answers, model.calls) == ({}, [])


def test_what_an_interrupted_ask_left_is_gone_before_the_next_is_put_up() -> None:
    model = Asking(POSSIBLE)
    model.hosts[f"{PROBE_HOST_PREFIX}7"] = "slots=64"
    model.attached.append(f"{PROBE_HOST_PREFIX}7")
    model.slots[f"{PROBE_HOST_PREFIX}7"] = 64
    ProbeHosts(model, NamesInMemory(), clock=lambda: 0.0).ask([1], TWO)
    assert (sorted(model.there), model.clean) == ([f"{PROBE_HOST_PREFIX}1", f"{PROBE_HOST_PREFIX}2"], True)


@pytest.mark.parametrize("left", ("host", "attached", "slots"))
def test_the_sweep_finds_what_carries_the_prefix_wherever_it_is(left: str) -> None:
    model, name = Asking(), f"{PROBE_HOST_PREFIX}3"
    if left in ("host", "attached"):
        model.hosts[name] = "slots=2"
    if left == "attached":
        model.attached.append(name)
    if left == "slots":
        model.slots[name] = 2
    found = ProbeHosts(model, NamesInMemory()).sweep()
    assert (found, model.clean) == ((name,), True)


def test_the_sweep_touches_nobody_elses_host() -> None:
    model = Asking()
    model.hosts["w1"], model.slots["w1"], model.attached = "slots=2", 2, ["w1"]
    ProbeHosts(model, NamesInMemory()).sweep()
    changing = [call for call in model.calls if not call[1].startswith("-s")]
    assert (changing, model.hosts) == ([], {"w1": "slots=2"})


# -- trouble ---------------------------------------------------------------------------------------------------------


def test_one_that_cannot_be_put_up_is_no_answer_and_leaves_nothing() -> None:
    class Refusing(Asking):
        def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
            if argv[:5:4] == ("qconf", self.queue) or argv[:4] == ("qconf", "-aattr", "queue", "hostlist"):
                return 1, "error: denied: no hosts today"
            return super().answer(argv)

    model = Refusing(NO_PE.format(1))
    asked = ProbeHosts(model, NamesInMemory()).ask([1], TWO)
    assert (asked.answers[1], model.clean) == ((Answer.NONE, "error: denied: no hosts today"), True)


def test_a_value_that_cannot_be_written_is_no_answer() -> None:
    model = Asking(NO_PE.format(1))
    asked = ProbeHosts(model, NamesInMemory()).ask([1], [ProbeHost("main.q", 2, (("arch", "x\ny"),))])
    assert (asked.answers[1][0], model.clean) == (Answer.NONE, True)


def test_a_hosts_file_that_cannot_be_changed_is_no_answer() -> None:
    class Unwritable(NamesInMemory):
        def put(self, addresses: Mapping[str, str]) -> None:
            raise HostsFileUnusable("/etc/hosts cannot be changed (Permission denied)")

    model = Asking(NO_PE.format(1))
    asked = ProbeHosts(model, Unwritable()).ask([1], TWO)
    assert (asked.answers[1][0], "Permission denied" in asked.answers[1][1], model.hosts) == (Answer.NONE, True, {})


def test_what_refuses_to_leave_is_said_and_swept_later() -> None:
    class Sticky(Asking):
        def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
            return (0, "") if argv[:2] == ("qconf", "-de") else super().answer(argv)

    model = Sticky(POSSIBLE)
    asking = ProbeHosts(model, NamesInMemory())
    asked = asking.ask([1], TWO)
    assert (asked.answers[1][0], "could not be removed" in asked.left, asking.swept) == (
        Answer.POSSIBLE,
        True,
        False,
    )


def test_a_sweep_that_leaves_anything_raises() -> None:
    class Sticky(Asking):
        def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
            return (0, "") if argv[:2] == ("qconf", "-de") else super().answer(argv)

    model = Sticky()
    model.hosts[f"{PROBE_HOST_PREFIX}1"] = "slots=1"
    with pytest.raises(GridEngineRefused, match="could not be removed"):
        ProbeHosts(model, NamesInMemory()).sweep()


@pytest.mark.parametrize("each", (0.4, 1.0, 3.0, 7.0, 30.0))
def test_however_slow_the_master_is_it_ends_in_15_seconds(each: float) -> None:
    jobs = list(range(1, 100))
    model = Asking(*["\n".join(NO_PE.format(job) for job in jobs[at : at + 20]) for at in range(0, 100, 20)])
    model.each = each
    ProbeHosts(model, NamesInMemory(), lambda: model.seconds).ask(jobs, TWO)
    assert model.seconds <= 15.0


def test_jobs_that_there_was_no_time_for_have_no_answer() -> None:
    jobs = list(range(1, 41))
    model = Asking(*["\n".join([SUITABLE] * module.JOBS_AT_ONCE)] * 2)
    model.each = 0.95
    asked = ProbeHosts(model, NamesInMemory(), lambda: model.seconds).ask(jobs, TWO[:1])
    told = [answer for answer, _ in asked.answers.values()]
    assert (told[0], told[-1]) == (Answer.POSSIBLE, Answer.NONE)
