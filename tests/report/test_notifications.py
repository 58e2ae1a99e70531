"""The text of notifications: names chosen by job owners mention nobody in a chat."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest

from autoscaler.core.model.reasons import Code, because
from autoscaler.core.notifications.due import Due, KnownCauses, Notification
from autoscaler.report.notifications import body, subject_line
from autoscaler.store.notifications import MOST_WAITING
from autoscaler.store.store import Store


@pytest.mark.parametrize(
    "name",
    ("@everyone", "@here", "@channel", "@all", "x@Everyone", "@online", "@oncall", "@ops_group", "=@online", "(@team)"),
)
def test_a_job_name_mentions_nobody_in_a_chat(name: str) -> None:
    notification = Notification("unsatisfiable_job", f"job 4 {name}", 1_700_000_000.0, because(Code.HELD))
    assert name not in subject_line("default", [notification]) + body([notification])
    assert name.replace("@", "@ ") in body([notification])


@pytest.mark.parametrize(
    ("name", "shown"),
    (
        ("@room", "@ room"),
        ("<!channel>", "<! channel>"),
        ("!here|x>", "! here|x>"),
        ("<!subteam^S1>", "<! subteam^S1>"),
        ("<@U123>", "<@ U123>"),
        ("@U123>", "@ U123>"),
        ("<@&123>", "<@ &123>"),
        ("<users/all>", "<users /all>"),
        ("@**all**", "@ **all**"),
        ("[resume](https://evil.example)", "[resume] (https://evil.example)"),
        ("[resume][1]", "[resume] [1]"),
        ("[1]: https://evil.example", "[1] : https://evil.example"),
        ("<https://evil.example|resume>", "< https://evil.example|resume>"),
    ),
)
def test_a_job_name_mentions_nobody_in_the_syntax_of_any_chat(name: str, shown: str) -> None:
    notification = Notification("unsatisfiable_job", f"job 4 {name}", 1_700_000_000.0, because(Code.HELD))
    for text in (subject_line("default", [notification]), body([notification])):
        assert (name in text, shown in text) == (False, True)


def test_other_names_are_not_changed() -> None:
    notification = Notification("unsatisfiable_job", "main.q@w1 (a) [b] c:d", 1_700_000_000.0, because(Code.HELD))
    assert "main.q@w1 (a) [b] c:d" in subject_line("default", [notification])


def a_job_of(owner: str, number: int) -> Notification:
    return Notification("unsatisfiable_job", f"job {number}", 1_700_000_000.0, because(Code.HELD), owner=owner)


def test_the_gravest_comes_first_and_the_subject_names_it() -> None:
    many = [a_job_of("eve", number) for number in range(1, 56)]
    breaker = Notification(
        "circuit_breaker",
        "",
        1_700_000_100.0,
        because(Code.CIRCUIT_BREAKER, what="removals", count=300, most=200, window_s=600.0),
    )
    passed = replace(breaker, kind="no_observation", reason=because(Code.NOT_OBSERVED, why="x"), passed=True)
    notifications = [*many[:53], passed, breaker, *many[53:]]
    assert subject_line("default", notifications) == (
        "sge-autoscaler, cell default: circuit breaker and 56 more notifications"
    )
    paragraphs = body(notifications, UTC).split("\n\n")
    assert [each.partition(" (")[0] for each in paragraphs] == [
        "circuit breaker",
        "unsatisfiable job: job 1, job 2, job 3, job 4, job 5 and 50 more of eve",
        "resolved: no observation",
    ]


def test_jobs_of_each_owner_are_one_paragraph() -> None:
    text = body([a_job_of("eve", 1), a_job_of("ann", 2), a_job_of("eve", 3)], UTC)
    assert [each.partition(" (")[0] for each in text.split("\n\n")] == [
        "unsatisfiable job: job 1, job 3 of eve",
        "unsatisfiable job: job 2",
    ]


def test_the_gravest_notification_is_the_last_to_be_dropped() -> None:
    store = Store.open(None)
    breaker = Notification("circuit_breaker", "", 1.0, because(Code.HELD))
    many = tuple(a_job_of("eve", number) for number in range(3 * MOST_WAITING))
    store.notifications.keep(Due(KnownCauses(), (breaker, *many)))
    assert breaker in [each for _, each in store.notifications.waiting()]
