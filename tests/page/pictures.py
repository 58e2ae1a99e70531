"""Makes the screenshots of README and docs: the page beside a loop that serves a private cell, with jobs of several
people, one that can never run, and an idle worker. Run as `python -m tests.page.pictures [FOLDER]`; needs root.

Look at each picture before it is committed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from autoscaler import namespaces
from autoscaler.api.passwords import set_password
from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import wait_until
from tests.page.in_browser import DESK, PHONE, a_browser, log_in
from tests.page.shown import PASSWORD

ROOT = Path(__file__).parents[2]
URL = "http://127.0.0.1:8651"
SETTINGS = {
    "CP_CAP_AUTOSCALE_HTTP": "127.0.0.1:8651",
    "CP_CAP_AUTOSCALE_WORKERS": "4",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "60",
    "CP_CAP_AUTOSCALE_POLLING_DELAY": "2",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "3",
    "CP_CAP_AUTOSCALE_LOCAL_BOOT_DELAY": "4",
}


@dataclass(frozen=True)
class Picture:
    """One screenshot."""

    name: str
    path: str
    size: tuple[int, int] = DESK
    scheme: Literal["light", "dark"] = "light"


PICTURES = (
    Picture("jobs", "jobs", size=(1280, 760)),
    Picture("idle", "workers?state=idle", size=(1280, 420)),
    Picture("overview", "./?span=10m"),
    Picture("overview-dark", "./?span=10m", scheme="dark"),
    Picture("overview-phone", "./?span=10m", size=PHONE),
    Picture("workers", "lanes?span=10m", size=(1280, 560)),
    Picture("decisions", "decisions?kind=launch", size=(1280, 760)),
    Picture("cost", "cost", size=(1280, 720)),
)
PEOPLE, FIRST_ID = ("lena", "omar", "wei"), 4001


def people(folder: Path) -> None:
    """Accounts of this process and those that it starts alone: they see files of their own at the usual places."""
    for name, rest in (("passwd", ":{id}::/tmp:/bin/sh"), ("group", ":")):
        lines = [f"{person}:x:{FIRST_ID + at}{rest.format(id=FIRST_ID + at)}" for at, person in enumerate(PEOPLE)]
        own = folder / name
        own.write_text(Path(f"/etc/{name}").read_text() + "\n".join(lines) + "\n")
        subprocess.run(("mount", "--bind", str(own), f"/etc/{name}"), check=True, timeout=30)


def submit(cell: Cell) -> None:
    """Jobs as a site has them."""
    for name in ("genomics", "weather", "vision"):
        written = cell.home / f"{name}.project"
        written.write_text(f"name {name}\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n")
        cell.out("qconf", "-Aprj", str(written))
    for who, *argv in (
        ("lena", "-N", "align", "-P", "genomics", "-t", "1:30", "sleep", "25"),
        ("omar", "-N", "forecast", "-P", "weather", "-pe", "local", "2", "sleep", "70"),
        ("wei", "-N", "train", "-P", "vision", "-t", "1:5", "sleep", "30"),
        ("wei", "-N", "later", "-P", "vision", "-h", "sleep", "30"),
        ("omar", "-N", "ensemble", "-P", "weather", "-pe", "local", "100", "sleep", "30"),
    ):
        number = FIRST_ID + PEOPLE.index(who)
        drop = ("setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--")
        cell.out(*drop, "qsub", "-terse", "-b", "y", "-o", "/dev/null", "-j", "y", *argv)


def workers(scaling: Autoscaling) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(scaling.command("workers", "--json").stdout)["workers"]
    return [row for row in found if row["phase"] == "ready"]


def main(folder: Path = ROOT / "docs" / "pictures") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with Cell.up(hosts=1, scheduler={"schedule_interval": "0:0:1"}) as cell:
        cell.reset()
        scaling = Autoscaling(cell, SETTINGS)
        set_password(scaling.state / "http-passwords", "anna", PASSWORD)
        with scaling.running():
            submit(cell)
            time.sleep(45)
            first = namespaces.holder(cell.tree.directory / "first")
            within = ("nsenter", "--target", str(first), "--net", "--")
            for picture in PICTURES:
                if picture.name == "idle":
                    wait_until(lambda: any(row["id"] and not row["used"] for row in workers(scaling)), 180)
                with a_browser(size=picture.size, scheme=picture.scheme, within=within) as browser:
                    page = browser.pages[0]
                    log_in(page, URL, "anna", path=picture.path)
                    page.wait_for_timeout(1000)
                    page.screenshot(path=folder / f"{picture.name}.png")
                    print(f"{folder / picture.name}.png: {(folder / f'{picture.name}.png').stat().st_size:,} bytes")


if __name__ == "__main__":
    inside, *rest = sys.argv[1:] or [""]
    if inside != "--inside":
        own = ("unshare", "--mount", "--", sys.executable, "-m", "tests.page.pictures", "--inside")
        os.execvp(own[0], (*own, *sys.argv[1:]))
    with TemporaryDirectory() as accounts:
        people(Path(accounts))
        main(*map(Path, rest))
