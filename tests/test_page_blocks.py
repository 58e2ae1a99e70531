"""Every command block of the pages is run by a test, or listed with the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page_blocks import (
    NOT_RUN_PAGE,
    PAGES,
    ROOT,
    RUN,
    RUN_ELSEWHERE,
    WHY_NOT,
    Block,
    blocks,
    differing,
    elsewhere,
    not_run,
)

MARKS = {*RUN, *(f"run: {where}" for where in RUN_ELSEWHERE)}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_block_is_marked(page: Path) -> None:
    known = {*MARKS, *(f"not run: {why}" for why in WHY_NOT)}
    assert [block.text for block in blocks(page) if block.is_command and block.mark not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_is_shown_follows_a_block_that_is_run(page: Path) -> None:
    before = Block(page, "", "", "")
    for block in blocks(page):
        if block.mark.startswith("shown"):
            assert before.mark in MARKS, block.text
            assert block.within >= 0
        before = block if block.is_command else before


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_no_command_stands_outside_a_block_that_is_marked(page: Path) -> None:
    text = (Path(__file__).parents[1] / page).read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith(("    sge-autoscaler", "    make "))] == []


@pytest.mark.parametrize("where", RUN_ELSEWHERE)
def test_blocks_that_need_another_world_are_run_by_a_test_that_names_their_page(where: str) -> None:
    pages = [page for page in PAGES if elsewhere(where, page)]
    text = (ROOT / RUN_ELSEWHERE[where]).read_text("utf-8")
    assert pages
    assert [page for page in pages if f'"{page}"' not in text or f'elsewhere("{where}"' not in text] == []


def test_the_list_of_blocks_that_are_not_run_is_complete() -> None:
    assert NOT_RUN_PAGE.read_text("utf-8") == not_run(), "run `python -m tests.page_blocks`"


def test_times_ids_and_hosts_count_alike_and_nothing_else() -> None:
    came = "job 2 waits 13s, 64 slots\n  2026-11-27 17:02:46 UTC launched i-0db4c027a279b787e on ip-10-1-0-3\nlast"
    assert differing("job 2 waits 2m3s,   64 slots\nlaunched i-1111111111111111f on ip-10-1-0-9", came) == ""
    assert differing("job 2 … slots\nlast", came) == ""
    assert differing("job 2 waits 13s, 63 slots", came) == "job 2 waits 13s, 63 slots"
    assert differing("last\njob 2", came) == "job 2", "in their order"
