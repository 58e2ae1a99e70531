"""An image's own `sge_setup_master` puts the shim in place and goes on with the platform's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.commands._shim import Repo, prepare_image
from autoscaler.errors import SettingsError
from tests.deadlines import wait_for

OURS = Path(__file__).parents[2] / "conf" / "cloud_pipeline" / "sge_setup_master"
PROGRAM = str(Path(sys.executable).with_name("sge-autoscaler"))


class Image:
    """A master's container: the platform's set-up writes what it was called with, and its script that it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = Repo(folder / "CommonRepo")
        for name in ("scripts", "shell"):
            (self.repo.folder / name).mkdir(parents=True)
        self.repo.script.write_text(f"open({str(folder / 'started')!r}, 'a').write('x')\n")
        platform = self.repo.folder / "shell" / "sge_setup_master"
        platform.write_text(f'#!/bin/sh\necho "$@" >"{folder}/platform"\nexit "${{PLATFORM_STATUS:-0}}"\n')
        platform.chmod(0o755)
        (folder / "broken").mkdir()
        (folder / "broken" / "click.py").write_text("raise SystemExit('of another Python')\n")
        for queue in ("main.q", "x.q"):
            profile = folder / f"sge_profile_{queue}_queue.sh"
            profile.write_text(
                f"export CP_CAP_SGE_QUEUE_NAME={queue} CP_CAP_AUTOSCALE_ENGINE=platform CP_CAP_SLURM=true\n"
            )

    def set_up(self, **environ: str) -> subprocess.CompletedProcess[str]:
        given = {
            "PATH": os.environ["PATH"],
            "COMMON_REPO_DIR": str(self.repo.folder),
            "CP_CAP_SCRIPTS_DIR": str(self.folder),
            "CP_PYTHON2_PATH": sys.executable,
            "LOG_DIR": str(self.folder),
            "SGE_AUTOSCALER": PROGRAM,
            "PYTHONPATH": str(self.folder / "broken"),
        }
        argv = ["bash", str(OURS), "one", "two"]
        return subprocess.run(argv, env=given | environ, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


def test_it_installs_the_shim_and_hands_on(image: Image) -> None:
    done = image.set_up()
    assert done.returncode == 0, done.stderr
    assert image.repo.up_to_date
    assert (image.folder / "platform").read_text() == "one two\n"
    assert not (image.folder / "started").exists(), "the platform itself starts the processes"


def test_without_ours_the_platform_goes_on_alone(image: Image) -> None:
    done = image.set_up(SGE_AUTOSCALER="/nowhere", PATH="/usr/bin:/bin")
    assert done.returncode == 0
    assert "the platform's own autoscaler starts" in done.stderr
    assert (image.folder / "platform").exists()
    assert not image.repo.installed


def test_the_platforms_failure_is_passed_on(image: Image) -> None:
    assert image.set_up(PLATFORM_STATUS="3", RESUMED_RUN="true").returncode == 3
    assert not (image.folder / "started").exists()


def test_when_a_paused_run_goes_on_each_queue_gets_its_process_again(image: Image) -> None:
    """The platform starts none then. The queues here say that the original serves them, which writes a letter."""
    assert image.set_up(RESUMED_RUN="true").returncode == 0
    started = image.folder / "started"
    assert wait_for(lambda: started.exists() and started.read_text() == "xx", 20)


def test_without_a_profile_a_run_that_goes_on_is_told_that_no_autoscaler_starts(image: Image) -> None:
    done = image.set_up(RESUMED_RUN="true", CP_CAP_SCRIPTS_DIR=str(image.folder / "none"))
    assert done.returncode == 0
    assert f"no profile of a queue that is ours is in {image.folder}/none, so no autoscaler is started" in done.stderr
    assert not (image.folder / "started").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_profile_of_another_user_is_not_run(image: Image) -> None:
    os.chown(image.folder / "sge_profile_x.q_queue.sh", 12345, 12345)
    done = image.set_up(RESUMED_RUN="true")
    assert "sge_profile_x.q_queue.sh belongs to another user" in done.stderr
    started = image.folder / "started"
    assert wait_for(lambda: started.exists() and started.read_text() != "", 20)
    assert started.read_text() == "x", "that of main.q alone"


def test_the_log_of_the_run_has_what_is_wrong(image: Image) -> None:
    tools = image.folder / "tools"
    tools.mkdir()
    (tools / "pipe_log_warn").write_text(f'#!/bin/sh\necho "$2: $1" >>"{image.folder}/run.log"\n')
    (tools / "pipe_log_warn").chmod(0o755)
    image.set_up(SGE_AUTOSCALER="/nowhere", PATH=f"{tools}:/usr/bin:/bin")
    assert (image.folder / "run.log").read_text() == (
        "SGEMasterSetup: sge-autoscaler: the shim is not in place, so the platform's own autoscaler starts\n"
    )


def test_an_image_is_prepared_once_and_another_set_up_is_left_alone(tmp_path: Path) -> None:
    for _ in range(2):
        prepare_image(tmp_path)
    made = tmp_path / "sge_setup_master"
    assert (made.read_bytes(), made.stat().st_mode & 0o777) == (OURS.read_bytes(), 0o755)
    made.write_text("#!/bin/sh\n# somebody's\n")
    with pytest.raises(SettingsError, match="is not ours, and stays"):
        prepare_image(tmp_path)
