"""The demo's page is reached from this machine while the demo runs, and ends with it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest
import requests

from autoscaler import namespaces
from autoscaler.lab import private_root
from tests.page.shown import Browser
from tests.web.served import until

pytestmark = [pytest.mark.slow, pytest.mark.cell, pytest.mark.timeout(240)]


@pytest.mark.skipif(bool(namespaces.probe() or private_root.missing()), reason="no private cell can run here")
def test_the_demo_shows_its_page_until_it_ends() -> None:
    argv = (sys.executable, "-m", "autoscaler.commands.main", "demo", "--page")
    demo = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert demo.stdout is not None
    try:
        offered = next(
            found for line in demo.stdout if (found := re.search(r"at (\S+)/page/: user (\w+), password (\S+)", line))
        )
        browser = Browser(offered[1])
        assert browser.log_in(offered[2], offered[3]).status_code == 303
        assert until(lambda: browser.get("jobs").status_code == 200, 30.0)
    finally:
        demo.send_signal(signal.SIGTERM)
        demo.stdout.close()
        demo.wait(60)

    def ended() -> bool:
        try:
            return requests.get(offered[1], timeout=5) is None
        except requests.ConnectionError:
            return True

    assert until(ended, 30.0)
