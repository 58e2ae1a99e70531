"""The text of notifications: names chosen by job owners mention nobody in a chat."""

from __future__ import annotations

import pytest

from autoscaler.core.model.reasons import Code, because
from autoscaler.core.notifications.due import Notification
from autoscaler.report.notifications import body, subject_line


@pytest.mark.parametrize("name", ("@everyone", "@here", "@channel", "@all", "x@Everyone"))
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
    ),
)
def test_a_job_name_mentions_nobody_in_the_syntax_of_any_chat(name: str, shown: str) -> None:
    notification = Notification("unsatisfiable_job", f"job 4 {name}", 1_700_000_000.0, because(Code.HELD))
    for text in (subject_line("default", [notification]), body([notification])):
        assert (name in text, shown in text) == (False, True)


def test_other_names_are_not_changed() -> None:
    notification = Notification("unsatisfiable_job", "main.q@w1 @allhosts", 1_700_000_000.0, because(Code.HELD))
    assert "main.q@w1 @allhosts" in subject_line("default", [notification])
