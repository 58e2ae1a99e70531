"""The lines that a demo prints where `top` cannot run: each decision and event once, in order, and each new summary."""

from __future__ import annotations

import io

from rich.console import Console

from autoscaler.terminal.lines import Lines
from autoscaler.terminal.readings import Poller
from tests.terminal.answering import Service, an_event


def printed(text: io.StringIO) -> list[str]:
    """Without the seconds."""
    lines = [line.partition("s  ")[2] for line in text.getvalue().splitlines()]
    text.truncate(0)
    text.seek(0)
    return lines


def test_each_decision_and_event_is_printed_once_in_order() -> None:
    service, text = Service(), io.StringIO()
    lines, poller = Lines(Console(file=text, width=200)), Poller(service.ask)
    lines.show(poller.read())
    first = printed(text)
    assert len(first) == 1 + len(service.documents["passes"]["passes"]) + len(service.documents["events"]["events"])
    assert first[-1].strip().startswith("2 workers, 1 ordered · 0.192 USD an hour")
    lines.show(poller.read())
    assert printed(text) == []
    service.documents["events"]["events"].append(an_event(50, "ended", "job 40 of ann ended", jobs="40"))
    service.number += 1
    lines.show(poller.read())
    assert printed(text) == ["  job 40 of ann ended"]


def test_lines_that_arrive_during_a_pause_are_printed_afterwards() -> None:
    service, text = Service(), io.StringIO()
    lines, poller = Lines(Console(file=text, width=200)), Poller(service.ask)
    lines.paused = True
    lines.show(poller.read())
    assert printed(text) == []
    lines.paused = False
    lines.show(poller.read())
    assert len(printed(text)) > 1


def test_nothing_is_printed_while_the_autoscaler_does_not_answer() -> None:
    service, text = Service(), io.StringIO()
    service.away = "nobody answers"
    Lines(Console(file=text)).show(Poller(service.ask).read())
    assert printed(text) == []
