"""Our shim stands where Cloud Pipeline starts its autoscaler; the platform's own script is kept, and comes back."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from autoscaler.commands._shim import KEPT, SCRIPT, Repo, prepare_image, shim
from autoscaler.commands.main import main
from autoscaler.errors import NotFound, SettingsError

ORIGINAL = b"#!/usr/bin/env python\n# the platform's own\nimport os, sys\nprint('ORIGINAL', sys.argv[0])\n"
SHIM = Path(__file__).parents[2] / "conf" / "cloud_pipeline" / SCRIPT


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    (tmp_path / "scripts").mkdir()
    repo = Repo(tmp_path)
    repo.script.write_bytes(ORIGINAL)
    repo.script.chmod(0o751)
    return repo


def test_uninstall_restores_what_stood_there_byte_for_byte_with_rights_and_times(repo: Repo) -> None:
    before = repo.script.stat()
    for _ in range(2):
        repo.install()
    assert repo.up_to_date
    assert repo.kept.read_bytes() == ORIGINAL
    repo.uninstall()
    after = repo.script.stat()
    assert repo.script.read_bytes() == ORIGINAL
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert sorted(path.name for path in repo.script.parent.iterdir()) == [SCRIPT]
    assert "nothing to do" in repo.uninstall()


def test_a_link_is_kept_as_a_link(repo: Repo, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.py"
    repo.script.rename(target)
    repo.script.symlink_to(target)
    repo.install()
    repo.uninstall()
    assert repo.script.is_symlink()
    assert target.read_bytes() == ORIGINAL


def test_a_script_that_the_platform_laid_anew_is_kept_in_place_of_the_older_one(repo: Repo) -> None:
    repo.install()
    repo.script.write_bytes(newer := ORIGINAL + b"# newer\n")
    repo.install()
    assert repo.kept.read_bytes() == newer


def test_a_shim_of_another_version_is_replaced_and_the_original_stays(repo: Repo) -> None:
    repo.install()
    repo.script.write_bytes(shim() + b"# of another version\n")
    before = repo.up_to_date
    repo.install()
    assert (before, repo.up_to_date) == (False, True)
    assert repo.kept.read_bytes() == ORIGINAL


def test_many_masters_that_share_the_folder_never_lose_the_original(repo: Repo) -> None:
    """Each looks at the script before another one replaces it."""
    scripts = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "autoscaler.commands.main", "platform", "install", "--repo", str(repo.folder)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    assert [script.wait(120) for script in scripts] == [0] * 4
    assert repo.kept.read_bytes() == ORIGINAL
    assert repo.up_to_date


def test_another_master_between_look_and_step_does_not_become_the_original(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, others = os.link, Repo(repo.folder)

    def linked(source: Path, target: Path, **options: bool) -> None:
        monkeypatch.setattr(os, "link", link)
        others.install()
        link(source, target, **options)

    monkeypatch.setattr(os, "link", linked)
    repo.install()
    assert repo.kept.read_bytes() == ORIGINAL


def test_the_platform_always_finds_a_whole_script(repo: Repo) -> None:
    found: set[bytes] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            found.add(repo.script.read_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(50):
        repo.install()
        repo.uninstall()
    ended.set()
    thread.join()
    assert found <= {ORIGINAL, shim()}


def test_a_folder_that_is_no_common_repo_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no CommonRepo of Cloud Pipeline: give it by --repo"):
        Repo.of(tmp_path, {})
    (tmp_path / "scripts").mkdir()
    with pytest.raises(NotFound, match="no autoscaler to replace"):
        Repo.of(tmp_path, {}).install()


def test_a_lost_original_is_not_replaced_by_nothing(repo: Repo) -> None:
    repo.install()
    repo.kept.unlink()
    with pytest.raises(SettingsError, match="copy it there"):
        repo.uninstall()
    assert repo.installed


@pytest.mark.parametrize("how", ("gone", "dangling", "folder", "shim"))
def test_a_lost_original_is_said_by_status_and_install(
    repo: Repo, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.install()
    repo.kept.unlink()
    if how == "dangling":
        repo.kept.symlink_to("/nowhere")
    elif how == "folder":
        repo.kept.mkdir()
    elif how == "shim":
        repo.kept.write_bytes(shim())
    for step in ("status", "install"):
        assert main(["platform", step, "--repo", str(repo.folder)]) != 0
        said = "".join(capsys.readouterr())
        assert "the shim is in place, but" in said
        assert "so the platform's own script is lost: copy it there" in said
    assert repo.up_to_date
    if how == "folder":
        repo.kept.rmdir()
    repo.kept.unlink(missing_ok=True)
    repo.kept.write_bytes(ORIGINAL)
    assert main(["platform", "status", "--repo", str(repo.folder)]) == 0


@pytest.mark.parametrize(
    ("how", "said"),
    (
        ("nothing", "does not exist"),
        ("dangling", "is a link that leads nowhere"),
        ("folder", "is a directory"),
        ("fifo", "is no regular file"),
    ),
)
def test_what_is_no_script_is_named_and_not_replaced(
    repo: Repo, how: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.script.unlink()
    if how == "dangling":
        repo.script.symlink_to("/nowhere")
    elif how == "folder":
        repo.script.mkdir()
    elif how == "fifo":
        os.mkfifo(repo.script)
    for step in ("install", "status"):
        assert main(["platform", step, "--repo", str(repo.folder)]) != 0
        printed = "".join(capsys.readouterr())
        assert f"{repo.script} {said}" in printed
        assert "is in place" not in printed
    assert "nothing to do" in repo.uninstall()
    assert len(list(repo.script.parent.iterdir())) == (how != "nothing")


def test_a_shim_with_a_line_above_it_is_a_shim_and_no_original(repo: Repo) -> None:
    repo.install()
    repo.script.write_bytes(b"#!/usr/bin/env python2\n" + shim())
    assert (repo.installed, repo.up_to_date) == (True, False)
    repo.install()
    assert repo.up_to_date
    repo.script.write_bytes(b"#!/usr/bin/env python2\n" + shim())
    repo.uninstall()
    assert repo.script.read_bytes() == ORIGINAL


def test_an_original_comes_back_where_the_shim_was_removed_by_hand(repo: Repo) -> None:
    repo.install()
    repo.script.unlink()
    repo.uninstall()
    assert repo.script.read_bytes() == ORIGINAL


def test_what_killed_steps_left_is_removed_and_what_others_do_now_is_not(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [repo.script.with_name(f".{name}.{'0a' * 8}") for name in (SCRIPT, KEPT)]
    others = [repo.script.with_name(name) for name in (f".{SCRIPT}.swp", ".another.py.0a0a0a0a0a0a0a0a")]
    for path in (*left, *others):
        path.write_bytes(b"half")
    repo.install()
    assert [path.exists() for path in left] == [True, True]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 100)
    repo.uninstall()
    assert [path.exists() for path in (*left, *others)] == [False, False, True, True]


def test_a_step_that_fails_leaves_nothing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(SettingsError, match="No space left on device; make room there"):
        repo.install()
    assert [path.name for path in repo.script.parent.iterdir()] == [SCRIPT]


def test_a_step_that_was_interrupted_before_its_end_is_done_again_and_leaves_nothing(repo: Repo) -> None:
    os.link(repo.script, repo.kept)
    repo.install()
    assert sorted(path.name for path in repo.script.parent.iterdir()) == [SCRIPT, KEPT]


@pytest.mark.parametrize(
    ("number", "advice"),
    (
        (errno.EACCES, "; run as root"),
        (errno.EROFS, "; its file system is read-only"),
        (errno.ENOSPC, "; make room there"),
        (errno.EISDIR, ""),
    ),
)
def test_advice_is_for_the_error_that_it_helps_against(
    repo: Repo, number: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("autoscaler.commands._shim.write_file", failing)
    with pytest.raises(SettingsError) as caught:
        repo.install()
    assert f"{os.strerror(number)}{advice}" in str(caught.value)
    assert advice or str(caught.value).endswith(os.strerror(number))


@pytest.mark.parametrize("how", ("folder", "fifo"))
def test_what_is_no_script_is_not_replaced_in_an_image(tmp_path: Path, how: str) -> None:
    path = tmp_path / "sge_setup_master"
    (os.mkfifo if how == "fifo" else os.mkdir)(path)
    with pytest.raises(SettingsError, match="is not ours, and stays"):
        prepare_image(tmp_path)


def test_the_repo_is_that_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "CommonRepo" / "scripts").mkdir(parents=True)
    assert Repo.of(None, {"RUN_DIR": str(tmp_path)}).folder == tmp_path / "CommonRepo"
    assert Repo.of(None, {"COMMON_REPO_DIR": str(tmp_path / "CommonRepo")}).folder == tmp_path / "CommonRepo"


# -- the shim itself ---------------------------------------------------------------------------------------------------


def python_2() -> str | None:
    """An interpreter of Python 2.7, if this machine has one."""
    known = [*Path("/root/.pyenv/versions").glob("2.7*/bin/python2.7"), *map(Path, ("/usr/bin/python2.7",))]
    known += [
        Path(folder) / "python2.7" for folder in os.environ.get("PATH", "").split(os.pathsep) if "shims" not in folder
    ]
    return next((str(path) for path in known if path.is_file()), None)


PYTHONS = [sys.executable, *([python_2()] if python_2() else [])]


def test_the_shim_is_short_and_its_syntax_is_that_of_python_2_too() -> None:
    assert len(SHIM.read_text().splitlines()) < 100
    interpreter = python_2()
    if interpreter is None:
        pytest.skip("no interpreter of Python 2.7 here")
    check = "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')"
    assert subprocess.run([interpreter, "-c", check, str(SHIM)], timeout=60, check=False).returncode == 0


class Shim:
    """The shim in a CommonRepo with an original that waits, and a program of ours that does so, too."""

    def __init__(self, repo: Repo, folder: Path, python: str) -> None:
        self.repo, self.folder, self.python = repo, folder, python
        repo.script.write_text(
            "import os, sys, time\nsys.stdout.write('ORIGINAL\\n')\nsys.stdout.flush()\ntime.sleep(60)\n"
        )
        repo.install()
        text = repo.script.read_text().replace('LOCKS = "/run/sge-autoscaler"', f'LOCKS = "{folder}/locks"')
        repo.script.write_text(text)
        self.ours = folder / "ours"
        self.ours.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho OURS "$@"\nexec sleep 60\n')
        self.ours.chmod(0o755)
        self.running: list[subprocess.Popen[str]] = []

    def start(self, **environ: str) -> str:
        """What it prints first and goes on with; what it prints in all if it ends."""
        given = {"PATH": os.environ["PATH"], "LOG_DIR": str(self.folder), "SGE_AUTOSCALER": str(self.ours), **environ}
        argv = [self.python, str(self.repo.script)]
        process = subprocess.Popen(argv, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.running.append(process)
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(("ORIGINAL", "OURS")):
                break
        return "".join(lines)

    def kill(self) -> None:
        for process in self.running:
            process.kill()

    def end(self) -> None:
        self.kill()
        for process in self.running:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self.running.clear()


@pytest.fixture(params=PYTHONS, ids=lambda path: Path(path).name)
def started(request: pytest.FixtureRequest, repo: Repo, tmp_path: Path) -> Iterator[Shim]:
    shim = Shim(repo, tmp_path, request.param)
    yield shim
    shim.end()


def test_it_becomes_ours_with_the_path_by_which_the_platform_finds_it(started: Shim) -> None:
    assert started.start() == f"OURS platform serve {started.repo.script}\n"


def test_the_libraries_of_another_python_do_not_reach_ours(started: Shim, tmp_path: Path) -> None:
    text = started.ours.read_text().replace("#!/bin/sh\n", '#!/bin/sh\n[ -z "$PYTHONPATH" ] || exit 9\n')
    started.ours.write_text(text)
    assert started.start(PYTHONPATH=str(tmp_path)).startswith("OURS")


@pytest.mark.parametrize(
    "given", ({"CP_CAP_KUBE": "true"}, {"CP_CAP_SLURM": "true"}, {"CP_CAP_AUTOSCALE_GRID_ENGINE": "KUBE"})
)
def test_kubernetes_and_slurm_reach_the_original(started: Shim, given: Mapping[str, str]) -> None:
    assert started.start(**given) == "ORIGINAL\n"


@pytest.mark.parametrize("given", ({"CP_CAP_SLURM": "true"}, {"SGE_AUTOSCALER": "/nowhere"}))
def test_a_lost_original_is_a_sentence_in_the_log_and_no_traceback(
    started: Shim, tmp_path: Path, given: Mapping[str, str]
) -> None:
    started.repo.kept.unlink()
    printed = started.start(**given)
    assert f"{started.repo.kept} is gone, so nothing is started: copy the platform's own script there" in printed
    assert "Traceback" not in printed
    assert "is gone, so nothing is started" in (tmp_path / "autoscaler.sge.main.q.log").read_text()
    assert started.running[-1].wait(10) == 1


def test_without_ours_the_original_starts_and_the_log_of_the_queue_says_so(started: Shim, tmp_path: Path) -> None:
    printed = started.start(SGE_AUTOSCALER="/nowhere", CP_CAP_SGE_QUEUE_NAME="x.q")
    assert "sge-autoscaler is not installed (/nowhere): the platform's own autoscaler is started" in printed
    assert printed.endswith("ORIGINAL\n")
    assert "the platform's own autoscaler is started" in (tmp_path / "autoscaler.sge.x.q.log").read_text()


def test_it_follows_no_link_in_the_place_of_the_log(started: Shim, tmp_path: Path) -> None:
    (tmp_path / "autoscaler.sge.main.q.log").symlink_to(tmp_path / "elsewhere")
    assert started.start(SGE_AUTOSCALER="/nowhere").endswith("ORIGINAL\n")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("how", ("nobody reads", "nobody reads on"))
def test_a_log_that_takes_nothing_does_not_stop_it(started: Shim, tmp_path: Path, how: str) -> None:
    os.mkfifo(fifo := tmp_path / "autoscaler.sge.main.q.log")
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK) if how == "nobody reads on" else None
    if reader is not None:
        with contextlib.suppress(BlockingIOError):
            while os.write(reader, b"x" * 4096):
                pass
    ended = threading.Timer(30, started.kill)  # one that waits for the log would wait for ever
    ended.start()
    printed = started.start(SGE_AUTOSCALER="/nowhere")
    ended.cancel()
    if reader is not None:
        os.close(reader)
    assert printed.endswith("ORIGINAL\n")


def test_a_broken_installation_counts_as_none(started: Shim) -> None:
    started.ours.write_text("#!/bin/sh\nexit 3\n")
    assert "cannot be started (exit status 3)" in (printed := started.start())
    assert printed.endswith("ORIGINAL\n")


def test_a_run_can_ask_for_the_original(started: Shim) -> None:
    assert started.start(CP_CAP_AUTOSCALE_ENGINE="platform") == "ORIGINAL\n"


def test_a_run_that_asks_for_ours_never_falls_back(started: Shim) -> None:
    printed = started.start(CP_CAP_AUTOSCALE_ENGINE="ours", SGE_AUTOSCALER="/nowhere")
    assert "nothing is started" in printed
    assert "ORIGINAL" not in printed


def test_a_queue_that_cannot_start_ours_beside_one_that_did_starts_nothing(started: Shim) -> None:
    assert "OURS" in started.start()
    printed = started.start(SGE_AUTOSCALER="/nowhere")
    assert "other queues of this cell are with sge-autoscaler" in printed
    assert "ORIGINAL" not in printed


def test_a_queue_that_could_start_ours_goes_with_the_one_that_could_not(started: Shim) -> None:
    assert "ORIGINAL" in started.start(SGE_AUTOSCALER="/nowhere")
    printed = started.start()
    assert "other queues of this cell are with the platform's own autoscaler" in printed
    assert printed.endswith("ORIGINAL\n")
    started.end()
    time.sleep(0.1)
    assert started.start().startswith("OURS")


def test_another_cell_is_free_to_choose(started: Shim) -> None:
    assert "ORIGINAL" in started.start(SGE_AUTOSCALER="/nowhere", SGE_ROOT="/opt/a")
    assert started.start(SGE_ROOT="/opt/b").startswith("OURS")


def test_a_verification_takes_part_in_nothing(started: Shim, tmp_path: Path) -> None:
    assert started.start(CP_CAP_AUTOSCALE_DRY_INIT="true").startswith("OURS")
    assert not (tmp_path / "locks").exists()


@pytest.mark.parametrize(
    ("given", "folder", "original"),
    (({}, False, True), ({"CP_CAP_AUTOSCALE_ENGINE": "ours"}, False, False), ({}, True, False)),
)
def test_where_no_lock_can_be_made_it_says_what_is_started(
    started: Shim, tmp_path: Path, given: Mapping[str, str], folder: bool, original: bool
) -> None:
    """With the folder there, another queue may be with ours already: two autoscalers would decide for one cell."""
    locks = tmp_path / "locks"
    if folder:
        (locks / "choosing-default").mkdir(parents=True)
    else:
        locks.write_text("")
    printed = started.start(**given)
    what = "the platform's own autoscaler is started" if original else "nothing is started"
    assert what in (tmp_path / "autoscaler.sge.main.q.log").read_text()
    assert "Traceback" not in printed
    assert printed.endswith("ORIGINAL\n") is original
