"""The command blocks of README, the pages for operators and the tutorials, run on a private cell as they stand there.

What a page shows is compared with what came. A page begins on a bare master, or after what `PREPARED` says.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.lab.played_cloud import played_cloud
from autoscaler.process import Running
from tests.deadlines import wait_for
from tests.page_blocks import PAGES, ROOT, RUN, Block, blocks, differing

BIN = Path(sys.executable).parent
SETTLED = (
    "export CP_CAP_AUTOSCALE_INSTANCE_TYPE=m5.large CP_CAP_SGE_MASTER_CORES=0 CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT=0\n"
)
MADE = f"{SETTLED}sge-autoscaler init --yes\n"
SETTINGS = "\\n".join(
    (
        'CP_CAP_AUTOSCALE_PROVIDER = "local"',
        'CP_CAP_AUTOSCALE_INSTANCE_TYPE = "m5.large"',
        "CP_CAP_SGE_MASTER_CORES = 0",
    )
)
ANSWERED = """sge-autoscaler() { case $* in
    init | 'init --jsv') command sge-autoscaler $* --yes ;;
    *) command sge-autoscaler "$@" ;;
esac; }"""
"""Questions are answered with yes."""
RUNNING = "sge-autoscaler run\n"
PREPARED: dict[str, tuple[str, str, str]] = {
    "README.md": (f"{SETTLED}unset CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT\n", "", ""),
    "docs/operate/install.md": (f"mkdir -p $HOME/etc\nprintf '{SETTINGS}' > /etc/sge-autoscaler.toml\n", "", ""),
    "docs/operate/submission.md": (MADE, RUNNING, ""),
    "docs/operate/by-day.md": (MADE, RUNNING, "qsub -b y -t 1:4 sleep 600\n"),
    "docs/operate/at-night.md": (MADE, RUNNING, "qsub -b y -t 1:2 sleep 600\n"),
    "docs/tutorials/why-does-my-job-wait.md": (
        f"{MADE}export CP_CAP_AUTOSCALE_JOB_CONTEXT=true\n",
        RUNNING,
        "qsub -b y sleep 600\nqsub -b y -h sleep 1\nqsub -b y -pe local 64 sleep 1\n",
    ),
}
"""By page what is run before it: to its end, in the background, to its end."""
WRONG = "ended with exit code"
CLOUD = {"docs/tutorials/cyclecloud.md": "cyclecloud"}
"""The cloud that is played, from the page's block that is run with it."""
AFTER = {"README.md": "qsub -b y sleep 1\n"}
"""What somebody does in another terminal while the page's last block goes on."""


@dataclass
class Session:
    """One shell on the master of a cell, whose variables last from block to block."""

    cell: Cell
    started: list[Running] = field(default_factory=list)
    of_cloud: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "PATH": f"{BIN}:{self.cell.environment['PATH']}",
            "CP_CAP_AUTOSCALE_PROVIDER": "local",
            "CP_CAP_AUTOSCALE_LOCAL_NETWORK": str(self.cell.tree.directory),
            "CP_CAP_AUTOSCALE_LOCAL_STATE": str(self.cell.home / "machines"),
            "CP_CAP_AUTOSCALE_WORKDIR": str(self.cell.directory / "state"),
        }
        return {**self.cell.environment, **own}

    def script(self, text: str) -> tuple[str, ...]:
        """What lies in /etc is in the cell's home."""
        kept = self.cell.home / "exported"
        here = text.replace("/etc/sge-autoscaler", f"{self.cell.home}/etc/sge-autoscaler")
        return (
            "bash",
            "-c",
            f"[ -e {kept} ] && . {kept}; {ANSWERED}\n{here}\nended=$?; export -p > {kept}; exit $ended",
        )

    def run(self, text: str) -> tuple[int, str]:
        exported = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self.of_cloud.items())
        done = self.cell.runner(self.script(exported + text), timeout=600.0, env=self.environment, cwd=self.cell.home)
        return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")

    def start(self, text: str) -> Path:
        output = self.cell.home / f"background-{len(self.started)}"
        self.started.append(self.cell.start(self.script(text), env=self.environment, output=output))
        return output

    def end(self) -> None:
        for running in self.started:
            running.signal(signal.SIGTERM)
        for running in self.started:
            running.wait(60.0)


@contextlib.contextmanager
def session(page: Path) -> Iterator[Session]:
    with Cell.up(prepared=False, scheduler={"schedule_interval": "0:0:1"}) as cell:
        made = Session(cell)
        first, background, last = PREPARED.get(str(page), ("", "", ""))
        try:
            code, came = made.run(first)
            assert code == 0, came
            if background:
                until_serving(made.start(background))
            made.run(last)  # qsub warns, and fails, while no queue has a slot
            yield made
        finally:
            made.end()


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", [page for page in PAGES if any(block.mark in RUN for block in blocks(page))], ids=str)
def test_a_page_does_what_it_shows(page: Path) -> None:
    found = list(blocks(page))
    with session(page) as shell:
        for block, after in zip_longest(found, found[1:]):
            shows = after if after is not None and after.mark.startswith("shown") else None
            match block.mark:
                case "run" | "run: fails":
                    run(shell, block, shows)
                case "run in the background":
                    log = shell.start(block.text)
                    until_serving(log)
                    if beside := AFTER.get(str(page)):
                        shell.run(beside)
                    if shows:
                        come(lambda log=log: log.read_text("utf-8"), shows)  # type: ignore[misc]
                case "run in the checkout":
                    in_checkout(block)
                case "run with the cloud played":
                    with played_cloud(shell.cell, CLOUD[str(page)]) as cloud:
                        shell.of_cloud = dict(cloud.environment)
                        run(shell, block, shows)
                case _:
                    pass


def run(shell: Session, block: Block, shows: Block | None) -> None:
    """Again and again, if the page says that it takes a while until this comes."""

    def output() -> str:
        code, came = shell.run(block.text)
        return came if (code == 0) == (block.mark != "run: fails") else f"{WRONG} {code}:\n{came}"

    if shows is None:
        assert WRONG not in (came := output()), came
    else:
        come(output, shows)


def come(output: Callable[[], str], shows: Block) -> None:
    """Until the output has what is shown; at once if the page names no time."""
    came = ""

    def there() -> bool:
        nonlocal came
        came = output()
        return WRONG not in came and not differing(shows.text, came)

    met = wait_for(there, shows.within, step=0.5) if shows.within else there()
    assert met, f"{differing(shows.text, came)!r} is not in:\n{came}"


def until_serving(log: Path) -> None:
    assert wait_for(lambda: "serving cell" in log.read_text("utf-8"), 60.0), log.read_text("utf-8")


def in_checkout(block: Block) -> None:
    """As somebody calls it, a line at a time, in a terminal: a shell that a line opens is left at once."""
    for line in block.text.splitlines():
        done = subprocess.run(
            ("script", "--quiet", "--return", "--command", line.partition("  #")[0], "/dev/null"),
            cwd=ROOT,
            input="exit\n",
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "CI": ""},
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
