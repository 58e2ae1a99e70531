"""Makes the screenshots of README and docs: the page beside a loop that serves a private cell, with jobs of several
people, one that can never run, and an idle worker. Run as `python -m tests.page.pictures [FOLDER]`; needs root.

Look at each picture before it is committed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autoscaler import namespaces
from autoscaler.api.passwords import set_password
from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.page.in_browser import DESK, PHONE, a_browser, log_in
from tests.page.shown import PASSWORD

ROOT = Path(__file__).parents[2]
URL = "http://127.0.0.1:8651"
SETTINGS = {
    "CP_CAP_AUTOSCALE_HTTP": "127.0.0.1:8651",
    "CP_CAP_AUTOSCALE_WORKERS": "4",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "25",
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
    Picture("overview", "./?span=10m"),
    Picture("overview-dark", "./?span=10m", scheme="dark"),
    Picture("overview-phone", "./?span=10m", size=PHONE),
    Picture("workers", "lanes?span=10m", size=(1280, 560)),
)


def submit(cell: Cell) -> None:
    """Jobs as a site has them."""
    for name in ("genomics", "weather", "vision"):
        written = cell.home / f"{name}.project"
        written.write_text(f"name {name}\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n")
        cell.out("qconf", "-Aprj", str(written))
    cell.submit("-b", "y", "-P", "genomics", "-t", "1:30", "sleep", "25")
    cell.submit("-b", "y", "-P", "weather", "-pe", "local", "2", "sleep", "70")
    cell.submit("-b", "y", "-P", "vision", "-t", "1:5", "sleep", "30")
    cell.submit("-b", "y", "-P", "vision", "-h", "sleep", "30")
    cell.submit("-b", "y", "-P", "weather", "-pe", "local", "100", "sleep", "30")


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
                with a_browser(size=picture.size, scheme=picture.scheme, within=within) as browser:
                    page = browser.pages[0]
                    log_in(page, URL, "anna", path=picture.path)
                    page.wait_for_timeout(1000)
                    page.screenshot(path=folder / f"{picture.name}.png")
                    print(f"{folder / picture.name}.png: {(folder / f'{picture.name}.png').stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*(Path(each) for each in sys.argv[1:]))
