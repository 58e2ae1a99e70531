"""`top`, run by Textual's own pilot: the screen, which requests and actions it makes, and what it redraws."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable

from autoscaler.core.events.event import EventKind, JobEvent
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.report.events import event_part
from autoscaler.report.sentence import sentence
from autoscaler.report.wording import text
from autoscaler.store.events import KeptEvent
from autoscaler.terminal.rows import subject_of
from autoscaler.terminal.top import INTERRUPTED, Top
from tests.core.building import a_snapshot, jobs
from tests.terminal.answering import HOSTILE, Service, a_worker, an_event, waiting

NARROW, BROAD = (80, 24), (200, 50)
Play = Callable[[Top, Pilot[None]], Awaitable[None]]


def played(service: Service, play: Play, *, size: tuple[int, int] = BROAD, acts: bool = True) -> Top:
    """Runs `top` from start to end on a terminal of this size."""

    async def run() -> Top:
        top = Top(service.ask, service.act if acts else None, every=0.02)
        async with top.run_test(size=size, notifications=True) as pilot:
            await until(pilot, lambda: bool(top._readings.status) or bool(service.away))
            await play(top, pilot)
        return top

    return asyncio.run(asyncio.wait_for(run(), 300))


async def until(pilot: Pilot[None], happened: Callable[[], bool]) -> None:
    while not happened():
        await pilot.pause(0.02)


def seen(top: Top) -> str:
    """The screen, line by line."""
    strips = top.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def shown(top: Top, name: str) -> list[list[str]]:
    table = top.screen_stack[0].query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(row)] for row in range(table.row_count)]


@pytest.mark.parametrize("size", (NARROW, BROAD), ids=("80", "200"))
def test_queue_workers_decisions_and_demand_are_on_one_screen(size: tuple[int, int]) -> None:
    async def play(top: Top, pilot: Pilot[None]) -> None:
        for words in (
            "default of master:6444 · local · pass 7",
            "2 workers, 1 ordered · 0.192 USD an hour · 5 wait, 3 counted, 1 can start",
            "waits for a worker",
            "w1",
            "ready",
            "0.096",
            "worker w1 joined",
            "demand",
            "supply",
            "Drain",
        ):
            await until(pilot, lambda words=words: words in seen(top))  # type: ignore[misc]
        assert all(len(line) <= size[0] for line in seen(top).splitlines())

    played(Service(), play, size=size)


def test_a_wide_terminal_shows_more_columns_than_a_narrow_one() -> None:
    async def play(top: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(shown(top, "workers")[0]) == 11)
        await pilot.resize_terminal(*NARROW)
        await until(pilot, lambda: len(shown(top, "workers")[0]) == 7)
        assert shown(top, "workers")[0] == ["w1", "ready", "1/2", "0.5", "0.096", "keep", "-"]

    played(Service(), play)


def test_bars_of_demand_and_supply_share_a_scale() -> None:
    async def play(top: Top, pilot: Pilot[None]) -> None:
        await pilot.pause()
        lines = {line.split()[0]: line.split() for line in seen(top).splitlines() if line[:6] in ("demand", "supply")}
        assert (lines["demand"][1:], lines["supply"][1:]) == (["█▅", "4"], ["▃▅", "4"])

    played(Service(), play)


def test_hostile_text_sends_no_command_to_the_terminal() -> None:
    service = Service()
    service.documents["queue"]["reasons"] = [waiting("HELD", HOSTILE, 1)]
    service.documents["queue"]["reasons"][0]["first"][0]["owner"] = HOSTILE
    service.documents["workers"]["workers"] = [a_worker(HOSTILE)]
    service.documents["events"]["events"] = [an_event(1, "submitted", HOSTILE, jobs="40")]
    service.documents["explain"] = [["", [], [], [HOSTILE]]]
    service.documents["status"]["cell"] = service.documents["status"]["drain"] = HOSTILE
    service.documents["status"]["drain"] = [HOSTILE]

    def harmless(top: Top, times: int) -> None:
        text = seen(top)
        assert text.count("[bold red]x[/]") >= times, text
        assert not [letter for letter in text if (ord(letter) < 32 and letter != "\n") or letter == "\u202e"]

    async def play(top: Top, pilot: Pilot[None]) -> None:
        await pilot.pause()
        harmless(top, 5)
        await pilot.press("enter")
        await until(pilot, lambda: len(top.screen_stack) == 2)
        await pilot.pause()
        harmless(top, 2)
        await pilot.press("enter")
        await until(pilot, lambda: "explain 40" in service.asked and len(top.screen_stack) == 2)
        await pilot.pause()
        harmless(top, 1)
        await pilot.press("escape")
        await until(pilot, lambda: len(top.screen_stack) == 1)
        top.query_one("#workers").focus()
        await pilot.press("d")
        await until(pilot, lambda: len(top.screen_stack) == 2)
        await pilot.pause()
        harmless(top, 1)
        await pilot.press("y")
        await until(pilot, lambda: bool(service.done))
        await pilot.pause(0.1)
        harmless(top, 5)

    played(service, play)


def test_a_reason_leads_to_its_jobs_and_a_job_to_its_explanation() -> None:
    service = Service()

    async def play(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: len(top.screen_stack) == 2)
        await pilot.pause()
        assert "→ wait for HELD" in seen(top)
        await pilot.press("enter")
        await until(pilot, lambda: "job 40 waits 10m" in seen(top))

    played(service, play)
    assert "explain 40" in service.asked


@pytest.mark.parametrize(
    ("table", "downs", "subject"),
    (("workers", 1, "i-w2"), ("log", 0, "i-w1"), ("log", 2, "0f0f"), ("log", 3, "40")),
    ids=("worker", "joined", "launch", "job"),
)
def test_a_worker_a_launch_and_a_job_of_an_event_are_explained(table: str, downs: int, subject: str) -> None:
    service = Service()

    async def play(top: Top, pilot: Pilot[None]) -> None:
        top.query_one(f"#{table}").focus()
        await pilot.press(*["down"] * downs, "enter")
        await until(pilot, lambda: len(top.screen_stack) == 2)

    played(service, play)
    assert service.asked[-1] == f"explain {subject}" or f"explain {subject}" in service.asked


def test_a_decision_is_shown_in_full() -> None:
    async def play(top: Top, pilot: Pilot[None]) -> None:
        top.query_one("#log").focus()
        await pilot.press("down", "enter")
        await until(pilot, lambda: len(top.screen_stack) == 2)
        await pilot.pause()
        assert "pass 6: launching 1 m5.large" in seen(top)

    played(Service(), play)


def test_an_unknown_subject_is_reported() -> None:
    service = Service()
    service.documents["events"]["events"] = [an_event(9, "joined", "worker x joined", worker_id="nobody")]

    async def play(top: Top, pilot: Pilot[None]) -> None:
        top.query_one("#log").focus()
        await pilot.press("enter")
        await until(pilot, lambda: "there is no such thing" in seen(top))

    played(service, play)


def test_tables_are_sorted_and_filtered() -> None:
    async def play(top: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(shown(top, "queue")))
        assert [row[0] for row in shown(top, "queue")] == ["3", "2"]
        top.query_one("#log").focus()
        await pilot.press("s")
        assert [row[0] for row in shown(top, "queue")] == ["3", "2"], "the focused table is sorted"
        top.query_one("#queue").focus()
        await pilot.press("s")
        assert [row[0] for row in shown(top, "queue")] == ["2", "3"]
        await pilot.press("S")
        assert [row[0] for row in shown(top, "queue")] == ["3", "2"]
        await pilot.press("slash", *"held")
        await until(pilot, lambda: [row[0] for row in shown(top, "queue")] == ["2"])
        assert shown(top, "workers") == []
        await pilot.press("escape")
        await until(pilot, lambda: len(shown(top, "queue")) == 2)

    played(Service(), play)


def test_a_user_who_may_not_act_is_offered_no_action() -> None:
    service = Service()

    async def play(top: Top, pilot: Pilot[None]) -> None:
        await pilot.pause()
        assert not [word for word in ("Pause", "Drain", "Keep") if word in seen(top)]
        await pilot.press("p", "d", "k", "y")
        assert len(top.screen_stack) == 1

    played(service, play, acts=False)
    assert service.done == []


@pytest.mark.parametrize(
    ("keys", "status", "words"),
    (
        ("p", {}, ("pause",)),
        pytest.param("p", {"paused": {"by": "ann"}}, ("resume",), marks=pytest.mark.thorough),
        pytest.param("d", {}, ("drain", "w1"), marks=pytest.mark.thorough),
        ("d", {"drain": ["w1"]}, ("drain", "--undo", "w1")),
        ("k", {}, ("keep", "w1")),
        pytest.param("k", {"keep": ["i-w1"]}, ("keep", "--undo", "w1"), marks=pytest.mark.thorough),
    ),
)
def test_an_action_runs_only_after_confirmation(keys: str, status: dict[str, object], words: tuple[str, ...]) -> None:
    service = Service()
    service.documents["status"] |= status

    async def play(top: Top, pilot: Pilot[None]) -> None:
        top.query_one("#workers").focus()
        for answer in ("n", "escape", "y"):
            assert service.done == []
            await pilot.press(keys)
            await until(pilot, lambda: len(top.screen_stack) == 2)
            await pilot.press(answer)
            await until(pilot, lambda: len(top.screen_stack) == 1)
        await until(pilot, lambda: bool(service.done))
        await until(pilot, lambda: f"done: {' '.join(words)}" in seen(top))

    played(service, play)
    assert service.done == [words]


def test_a_persistent_host_is_never_drained() -> None:
    service = Service()
    service.documents["workers"]["workers"] = [a_worker("master", id=None, phase=None, price_per_hour=None)]

    async def play(top: Top, pilot: Pilot[None]) -> None:
        top.query_one("#workers").focus()
        await pilot.press("d")
        await until(pilot, lambda: "persistent hosts are left alone" in seen(top))

    played(service, play)
    assert service.done == []


def test_a_lost_connection_is_reported_and_recovers() -> None:
    service = Service()

    async def play(top: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(shown(top, "workers")))
        service.away = "the autoscaler at /x.sock does not answer: Connection refused"
        await until(pilot, lambda: "trying again: the autoscaler at /x.sock does not answer" in seen(top))
        assert shown(top, "workers")[0][0] == "w1"
        service.number, service.away = 8, ""
        service.documents["workers"]["workers"].append(a_worker("w3"))
        await until(pilot, lambda: "trying again" not in seen(top) and len(shown(top, "workers")) == 3)

    played(service, play)


def test_the_reason_for_a_missing_observation_is_shown() -> None:
    service = Service()
    service.trouble = "qstat did not answer"

    async def play(top: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "nothing was observed since: qstat did not answer" in seen(top))

    played(service, play)


def counted(function: Callable[..., object], calls: list[int]) -> Callable[..., object]:
    """The same function, which counts its calls."""

    def called(*given: object, **named: object) -> object:
        calls.append(1)
        return function(*given, **named)

    return called


def test_nothing_is_redrawn_without_a_change_and_a_new_pass_redraws_only_its_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service()
    draws: list[int] = []

    async def play(top: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(shown(top, "workers")))
        asked = len(service.asked)
        await until(pilot, lambda: len(service.asked) > asked + 10)
        table = top.query_one("#workers", DataTable)
        table.move_cursor(row=1)
        monkeypatch.setattr(top, "_draw", counted(top._draw, draws))
        asked = len(service.asked)
        await until(pilot, lambda: len(service.asked) > asked + 10)
        assert (draws, set(service.asked[asked:])) == ([], {"status"})
        cleared: list[int] = []
        monkeypatch.setattr(table, "clear", counted(table.clear, cleared))
        service.documents["workers"]["workers"][1] = a_worker("w2", load=1.75)
        service.number = 8
        await until(pilot, lambda: shown(top, "workers")[1][3] == "1.75")
        assert (cleared, table.cursor_row) == ([], 1)

    played(service, play)


def test_events_that_arrive_after_their_pass_are_shown() -> None:
    """A pass is known before its events are written."""
    service = Service()

    async def play(top: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(shown(top, "log")) == 4)
        service.number = 8
        ask = service.ask

        def late(question: str, query: dict[str, str]) -> dict[str, object]:
            if question == "history":  # the last question about a pass
                service.documents["events"]["events"].append(an_event(8, "started", "job 40 started", jobs="40"))
                service.ask = ask  # type: ignore[method-assign]
                top._poller._ask = ask
            return ask(question, query)

        top._poller._ask = late  # type: ignore[assignment]
        await until(pilot, lambda: shown(top, "log")[0][1] == "job 40 started")

    played(service, play)


def test_quit_and_ctrl_c_have_their_exit_codes() -> None:
    async def quits(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("q")

    async def interrupts(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+c")

    assert played(Service(), quits).return_code == 0
    assert played(Service(), interrupts).return_code == INTERRUPTED


def test_top_ends_when_its_until_condition_holds() -> None:
    over = threading.Event()

    async def run() -> Top:
        top = Top(Service().ask, every=0.02, until=over.is_set)
        async with top.run_test(size=BROAD) as pilot:
            await until(pilot, lambda: bool(top._readings.status))
            assert top._running
            over.set()
            await until(pilot, lambda: not top._running)
        return top

    assert asyncio.run(asyncio.wait_for(run(), 300)).return_code == 0


@pytest.mark.parametrize("answer", ({"document": {}}, {"document": {"pass": {"number": []}}}, {}), ids=str)
def test_an_answer_that_cannot_be_drawn_ends_top(answer: dict[str, object]) -> None:
    """A screen that does not change looks as if all were well."""

    async def run() -> Top:
        top = Top(lambda _question, _query: answer, every=0.02)
        async with top.run_test(size=BROAD) as pilot:
            await until(pilot, lambda: not top._running)
        return top

    top = asyncio.run(asyncio.wait_for(run(), 300))
    assert (top.return_code, isinstance(top.defect, LookupError | TypeError | AttributeError)) == (1, True)


def test_a_start_event_is_explained_by_its_job_not_its_worker() -> None:
    """Also where the event names the worker."""
    started = an_event(9, "started", "job 40 of ann started on main.q@w1", jobs="40-41", worker_id="i-w1")
    assert subject_of(started) == "40"
    assert subject_of(an_event(9, "joined", "worker w1 joined", worker_id="i-w1")) == "i-w1"
    assert subject_of(an_event(9, "failed", "launch failed", order_id="o-1")) == "o-1"


def test_the_newest_event_stays_in_view_until_a_person_chooses_a_row() -> None:
    service = Service()
    events = service.documents["events"]["events"]
    events += [an_event(number, "joined", f"worker n{number} joined") for number in range(10, 50)]

    async def arrive(pilot: Pilot[None], top: Top, numbers: range) -> None:
        for number in numbers:
            events.append(an_event(number, "joined", f"worker n{number} joined"))
            service.number += 1
            await until(pilot, lambda number=number: f"worker n{number} joined" in str(shown(top, "log")))  # type: ignore[misc]
            await pilot.pause()

    async def play(top: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(shown(top, "log")) == 44)
        await arrive(pilot, top, range(50, 59))
        assert "worker n58 joined" in seen(top)
        top.query_one("#log").focus()
        await pilot.press("down", "down")
        line = next(at for at, line in enumerate(seen(top).splitlines()) if "worker n56 joined" in line)
        await arrive(pilot, top, range(59, 60))
        assert "worker n56 joined" in seen(top).splitlines()[line]

    played(service, play, size=NARROW)


def test_a_long_cause_is_in_view_on_a_broad_terminal() -> None:
    service = Service()
    long = "it requests a resource which workers are not given, and this sentence goes on up to here: the end of it"
    service.documents["queue"]["reasons"] = [waiting("NOT_GIVEN_TO_WORKERS", long, 1)]

    async def play(top: Top, pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(*BROAD)
        await until(pilot, lambda: "it requests a resource" in seen(top))
        assert "the end of it" in seen(top)

    played(service, play, size=NARROW)


def test_the_page_of_top_shows_sentences_that_the_code_writes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operate" / "top.md").read_text("utf-8")
    block = page.split("```")[1]
    rows = block.partition("waits because\n")[2].partition(" worker ")[0].splitlines()
    causes = [re.split(r"  +", row.strip(), maxsplit=3)[3] for row in rows if row.strip()]
    written = {
        text(because(Code.CAPPED, cap="max_workers", limit=2)),
        text(because(Code.HELD, state="hqw")),
    }
    assert causes
    assert set(causes) == written
    order = JobEvent(EventKind.ORDERED, 0.0, 0.0, 0.0, "40-42", count=3, message="1 m5.large", order_id="0f0f3a1b")
    assert event_part(KeptEvent(1, order))["text"] in block
    made = plan(a_snapshot(jobs(5, waited=900.0), limits=Limits(max_workers=1)))
    assert f"pass 811: {sentence(made).partition(': ')[2]}" in block
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert block.strip("\n").startswith(readme.split("```")[1].strip("\n"))
