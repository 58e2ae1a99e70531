"""Filter expressions over node records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.expressions import InvalidExpression, expression

RECORD = {
    "Name": "execute-1",
    "State": "Started",
    "CoreCount": 4,
    "KeepAlive": True,
    "Configuration": {"autoscale": {"resources": {"gpu": 2}}},
}


@pytest.mark.parametrize(
    ("text", "holds"),
    (
        ('State === "Started"', True),
        ('State === "started"', False),
        ('State == "started"', True),
        ('state === "Started"', True),
        ('State != "Off"', True),
        ('State =!= "Off"', True),
        ("CoreCount >= 4", True),
        ("CoreCount < 4", False),
        ("CoreCount === 4.0", True),
        ('CoreCount < "5"', False),
        ("KeepAlive", True),
        ("KeepAlive === true", True),
        ("CoreCount === true", False),
        ("!KeepAlive", False),
        ("Nothing === undefined", True),
        ("Nothing < 5", False),
        ("Configuration.autoscale.resources.gpu > 1", True),
        ("Name.x === undefined", True),
        ('State === "Off" || CoreCount === 4 && KeepAlive', True),
        ('(State === "Off" || CoreCount === 4) && !KeepAlive', False),
        ('Name === "exec\\"ute"', False),
    ),
)
def test_an_expression_matches_as_written(text: str, holds: bool) -> None:
    assert expression(text)(RECORD) is holds


@pytest.mark.parametrize(
    "text", ("", "===", "State ===", '(State === "a"', 'State === "a', "a b", "a && ", "a)", "#", "!" * 999, "(" * 999)
)
def test_a_malformed_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidExpression):
        expression(text)


SIGNS = [
    "===",
    "=!=",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "&&",
    "||",
    "!",
    "(",
    ")",
    "true",
    "undefined",
    '"a"',
    "1",
    "Name",
    " ",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(SIGNS)).map(" ".join)))
def test_any_text_is_either_an_expression_or_refused(text: str) -> None:
    try:
        matches: Any = expression(text)
    except InvalidExpression:
        return
    assert matches(RECORD) in (True, False)
