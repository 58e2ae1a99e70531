"""The tutorial of Cloud Pipeline's launch page, on a master run that is played: its command blocks as they stand there.

`sge` is the platform's tool, which is played in Python (`lab.played_launcher`); all else runs in a shell of the master.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.lab.played_cloud import PlayedCloud, played_cloud
from autoscaler.lab.played_launcher import Launcher
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.test_cloud_pipeline_launcher import QUICK, THEIRS, launcher_of
from tests.grid_engine.waiting import Shown, Until
from tests.page_blocks import elsewhere

PAGE = Path("docs/tutorials/cloud-pipeline.md")
RESTART = re.compile(r"sge restart (\S+)")


@pytest.fixture
def cloud(empty_cell: Cell) -> Iterator[PlayedCloud]:
    with played_cloud(empty_cell, "cloud_pipeline") as cloud:
        yield cloud


def said(launcher: Launcher, text: str) -> str:
    """What the lines of a block print, which must succeed. What follows a log is started, and goes on."""
    came = []
    for line in text.splitlines():
        words = line.replace("/opt/sge-autoscaler/bin/", "").replace("tail -f", "tail -n 99")
        if restarts := RESTART.match(words):
            launcher.restart(restarts[1])
            continue
        done = launcher.shell(words)
        assert done.returncode == 0, (line, done.stdout.decode(), done.stderr.decode())
        came.append(done.stdout.decode() + done.stderr.decode())
    return "".join(came)


def test_the_tutorial_leads_to_ours_and_back_again(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    install, submit, uninstall = elsewhere("platform", PAGE)
    launcher = launcher_of(empty_cell, cloud, {**QUICK, "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"}, installed=False)
    show_on_failure["logs"] = launcher.shown
    script = launcher.script.read_bytes()
    with launcher.launched():
        until(lambda: THEIRS in launcher.console("main.q").read_text(), 30, "the platform's own does not run")
        assert "the shim is in place" in said(launcher, install.text)
        until(lambda: "main.q" in said(launcher, install.text.splitlines()[-1]), 30, "ours does not run")
        until(lambda: Path(launcher.logs / "autoscaler.sge.main.q.log").exists(), 30, "it has no log")
        said(launcher, submit.text)
        until(lambda: Autoscaling(empty_cell).running_on("1"), 90, "the job did not start")
        assert "launching 1 " in said(launcher, submit.text.splitlines()[-1]), "the line that reads the log"
        said(launcher, uninstall.text)
        until(lambda: THEIRS in launcher.console("main.q").read_text(), 30, "the platform's own is not back")

    assert launcher.script.read_bytes() == script
