"""What `--json` prints: as `json.dumps` writes it, and without the whole text in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from autoscaler.commands._output import print_json

ROWS = [{"name": "a\nb", "facts": {"limit": 1.5, "hosts": []}}, {"name": "\u202ec\x1b", "facts": {}}, 7, [1, [2]]]


@pytest.mark.parametrize("document", ({}, {"a": None}, {"rows": ROWS, "b": {"c": [1, 2], "d": {}}}, {"rows": []}))
def test_json_is_written_with_an_indentation_of_2(document: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    print_json(document)
    printed = capsys.readouterr().out
    assert json.loads(printed) == document
    assert printed == json.dumps(document, indent=2, ensure_ascii=False).replace("\u202e", "\\u202e") + "\n"


@pytest.mark.parametrize("rows", (ROWS, [], [{"a": 1}]))
def test_an_iterator_is_written_as_the_list_of_its_items(rows: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"before": 1, "rows": iter(rows), "after": {"b": []}})
    lazily = capsys.readouterr().out
    print_json({"before": 1, "rows": rows, "after": {"b": []}})
    assert lazily == capsys.readouterr().out


def test_a_long_iterator_is_printed_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made, printed, ahead = 0, 0, 0

    def count(text: str = "", nl: bool = True) -> None:
        nonlocal printed, ahead
        ahead, printed = max(ahead, made - printed), printed + text.count('"number"')

    def rows() -> Iterator[dict[str, str]]:
        nonlocal made
        for made in range(1, 20_001):
            yield {"number": str(made), "text": "x" * 500}

    monkeypatch.setattr("click.echo", count)
    print_json({"rows": rows()})
    assert printed == 20_000
    assert ahead < 200
