"""The page of a policy search in a browser: whole, readable on a phone, without a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.commands.main import main
from autoscaler.simulation.sweep.dispatch import Spread
from autoscaler.simulation.sweep.page import sweep_page
from tests.page.in_browser import DESK, PHONE, a_browser, watched
from tests.page.test_browser import AXE
from tests.simulation.test_sweep_summary import summed


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    judged = {0: (1.0, 0.0), 2: (0.9, -1.0)}
    summary = summed({1: (0.7, 30.0), 2: (0.9, -1.0), 3: (1.2, 60.0)}, judged=judged)
    file = tmp_path / "search.html"
    file.write_text(sweep_page(summary, Spread(), ["An assumption."], ["A window."]))
    return file


@pytest.mark.parametrize("size", (DESK, PHONE), ids=("desk", "phone"))
def test_the_page_of_a_search_stands_alone(page_file: Path, size: tuple[int, int]) -> None:
    with a_browser(size=size, scripts=False) as context:
        page = context.new_page()
        complaints, loaded = watched(page), []
        page.on("request", lambda request: loaded.append(request.url))
        page.goto(page_file.as_uri())
        assert loaded == [page_file.as_uri()]
        assert complaints == []
        circles = page.locator("svg circle")
        assert circles.count() == 4
        assert page.locator("svg circle.today").count() == 1
        frame = page.locator("svg").bounding_box()
        assert frame is not None
        for number in range(circles.count()):
            box = circles.nth(number).bounding_box()
            assert box is not None
            assert frame["x"] <= box["x"] <= frame["x"] + frame["width"] - box["width"]
            assert frame["y"] <= box["y"] <= frame["y"] + frame["height"] - box["height"]
        # Tables scroll within the page; the page itself does not.
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


@pytest.fixture
def compared_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page of `simulate`, which has the same style."""
    monkeypatch.setenv("CP_CAP_AUTOSCALE_INSTANCE_TYPE", "m5.large")
    file = tmp_path / "compared.html"
    assert main(["simulate", "generated:10:2", "--compare", "today,one-per-job", "--page", str(file)]) == 0
    return file


@pytest.mark.parametrize("scheme", ("light", "dark"))
@pytest.mark.parametrize("made", ("page_file", "compared_file"))
def test_pages_of_simulations_meet_wcag_aa_by_axe(made: str, scheme: str, request: pytest.FixtureRequest) -> None:
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    with a_browser(scheme="dark" if scheme == "dark" else "light") as context:
        page = context.new_page()
        page.goto(request.getfixturevalue(made).as_uri())
        page.evaluate(AXE.read_text(encoding="utf-8"))
        result = page.evaluate("rules => axe.run(document, {runOnly: rules})", rules)
        assert [(each["id"], each["nodes"][0]["html"][:150]) for each in result["violations"]] == []
        assert len(result["passes"]) > 10
