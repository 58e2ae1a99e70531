"""A real browser: Debian's chromium, driven by Playwright, with an empty profile and no network but loopback."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.page.shown import PASSWORD

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE, DESK = (380, 800), (1280, 900)
"""Widths and heights in CSS pixels."""


def chromium() -> str:
    """Its path. Without it a developer's machine skips; continuous integration fails: `make setup` installs it."""
    found = shutil.which("chromium")
    if found is None and os.environ.get("CI"):
        pytest.fail("chromium is missing: bin/setup installs it")
    return found or pytest.skip("chromium is missing: `make setup` installs it, as root")


@contextmanager
def a_browser(
    *,
    size: tuple[int, int] = DESK,
    scheme: Literal["light", "dark"] = "light",
    scripts: bool = True,
    zone: str = "Europe/Berlin",
    within: Sequence[str] = (),
) -> Iterator[BrowserContext]:
    """A window with a profile of its own. `within`: words of a command that starts it, in a network of its own."""
    path = chromium()
    with TemporaryDirectory(prefix="sge-autoscaler-browser-") as folder, sync_playwright() as playwright:
        if within:
            starter = Path(folder) / "chromium"
            starter.write_text(f'#!/bin/sh\nexec {shlex.join((*within, path))} "$@"\n')
            starter.chmod(0o755)
            path = str(starter)
        context = playwright.chromium.launch_persistent_context(
            Path(folder) / "profile",
            executable_path=path,
            headless=True,
            args=FLAGS,
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            java_script_enabled=scripts,
            timezone_id=zone,
            locale="en-GB",
        )
        try:
            yield context
        finally:
            context.close()


def watched(page: Page) -> list[str]:
    """What the browser complains about from now on: refused loads, errors of scripts."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    return found


def log_in(page: Page, url: str, name: str = "root", password: str = PASSWORD, path: str = "") -> None:
    page.goto(f"{url}/page/{path}")
    page.get_by_label("User").fill(name)
    page.get_by_label("Password or token").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("nav[aria-label=Views]")


def save(page: Page, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=place, full_page=True)
