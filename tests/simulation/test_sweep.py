"""`sge-autoscaler sweep` as a person uses it: processes of Dask, killed and resumed, stopped, wrong files."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from autoscaler.commands._simulated import SimulationOptions, workload_of
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.commands.sweep import _Search
from autoscaler.core.model.fleet import FailureKind
from autoscaler.providers.catalog import load_catalog
from autoscaler.simulation.candidates import Candidate, Conditions
from autoscaler.simulation.cloud import Delays
from autoscaler.simulation.market import Limit, Market
from autoscaler.simulation.sweep import dispatch
from autoscaler.simulation.sweep.points import points_of
from autoscaler.simulation.sweep.results import Results
from autoscaler.simulation.sweep.runs import OtherProgram, Run, keys_of, perform, program_digest
from autoscaler.simulation.sweep.sweep_file import GRID_ENGINE, Source, read_sweep
from autoscaler.simulation.sweep.windows import Window, market_in, windows_of
from tests.deadlines import wait_for
from tests.simulation.playing import a_policy, a_workload
from tests.simulation.test_command import SETTINGS

IDLE = "CP_CAP_AUTOSCALE_IDLE_TIMEOUT"
SWEEP = f"""
seeds = [1, 2]
judge = 0.5
[settings]
{IDLE} = [5, 30, 900]
[[workload]]
source = "generated:40:2"
windows = 2
jobs = 10
[conditions]
spread = 0.3
"""


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def kept(file: Path) -> dict[str, str]:
    """The finished runs of its results: documents without the times that a run took, by key."""
    if not file.with_suffix(".sqlite").exists():
        return {}
    connection = sqlite3.connect(file.with_suffix(".sqlite"))
    try:
        return {key: _without_times(document) for key, document in connection.execute("SELECT key, document FROM runs")}
    except sqlite3.OperationalError:  # its table is not made yet
        return {}
    finally:
        connection.close()


def _without_times(text: str) -> str:
    document = json.loads(text)
    return json.dumps({name: value for name, value in document.items() if name not in ("run_s", "run_cpu_s", "cpu_s")})


# -- as a command ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_finds_the_cheapest_point_and_judges_it(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    page, lines = file.with_suffix(".html"), file.with_name("chosen.toml")
    words = ["sweep", str(file), "--processes", "2", "--page", str(page), "--settings", str(lines), "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    points = {point["point"]: point for point in document["points"]}
    assert list(points) == ["today", f"{IDLE}=5", f"{IDLE}=30", f"{IDLE}=900"]
    # Idle workers cost: what waits the same or a little longer is cheaper the sooner they leave.
    ratios = [points[name]["chosen_on"]["price_of_today"]["mean"] for name in points]
    assert ratios[0] == 1.0
    assert ratios[1] < 1.0 < ratios[3]
    assert ratios[2] == pytest.approx(1.0)  # 30 is the default
    assert points["today"]["judged_on"]["price_of_today"]["mean"] == 1.0
    assert points[f"{IDLE}=5"]["on_front"]
    assert "<svg" in page.read_text()
    # Nothing is played twice, and what has been played is enough for all outputs.
    before = kept(file)
    assert main(["sweep", str(file), "--csv"]) == 0
    assert kept(file) == before
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 5
    assert "runs are known from before" in shown.err


def test_a_job_finds_a_python_below_a_folder_with_a_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/srv/some where/bin/python3")
    assert shlex.split(dispatch.worker_python())[:2] == ["/srv/some where/bin/python3", "-P"]


@pytest.mark.slow
def test_the_chosen_settings_give_what_the_sweep_said(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """The same point by `simulate`, on the whole workload: another way to the same figure."""
    text = SWEEP.replace("windows = 2\njobs = 10\n", "").replace("seeds = [1, 2]\njudge = 0.5\n", "mean_wait = '1h'\n")
    file.write_text(text)
    lines = file.with_name("chosen.toml")
    assert main(["sweep", str(file), "--processes", "1", "--settings", str(lines), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    chosen = next(point for point in document["points"] if point["chosen"])
    assert chosen["settings"] == {IDLE: "5"}
    assert main(["simulate", "generated:40:2", "--spread", "0.3", "--compare", f"today,{lines}", "--json"]) == 0
    today, same = json.loads(capsys.readouterr().out)["policies"]
    assert chosen["chosen_on"]["price"]["mean"] == pytest.approx(same["price"])
    assert chosen["chosen_on"]["mean_wait_s"]["mean"] == pytest.approx(same["wait_s"]["mean"])
    assert chosen["chosen_on"]["price_of_today"]["mean"] == pytest.approx(same["price"] / today["price"])


@pytest.mark.parametrize(
    ("changed", "message"),
    (
        (
            ("IDLE_TIMEOUT =", "IDEL_TIMEOUT ="),
            "settings (CP_CAP_AUTOSCALE_IDEL_TIMEOUT=5): CP_CAP_AUTOSCALE_IDEL_TIMEOUT is not a setting; did you mean "
            "CP_CAP_AUTOSCALE_IDLE_TIMEOUT",
        ),
        (
            ("CP_CAP_AUTOSCALE_IDLE_TIMEOUT =", "CP_CAP_NOPE ="),
            "settings (CP_CAP_NOPE=5): CP_CAP_NOPE is not a setting",
        ),
        ((f"{IDLE} = [5, 30, 900]", "CP_CAP_AUTOSCALE_PROVIDER = ['azur']"), "'azur': did you mean azure?"),
        (("[5, 30, 900]", "['soon']"), "IDLE_TIMEOUT"),
        (("spread = 0.3", "spraed = 0.3"), "conditions: 'spraed' is not known here; did you mean spread?"),
        (("spread = 0.3", "spread = 'wide'"), "conditions: Invalid value for '--spread'"),
        (("spread = 0.3", "fixed_order = 3"), "conditions: fixed_order: 3 is neither true nor false"),
        (("spread = 0.3", "market = 'none.toml'"), "none.toml"),
        (("spread = 0.3", "memory = 'h_vmen'"), "can be counted; did you mean h_vmem?"),
        (("generated:40:2", "nosuch.swf"), "workload 1: cannot read the workload"),
        (("jobs = 10", "jobs = 100"), "too few for 2 windows of 100"),
        ((f"{IDLE} = [5, 30, 900]", "CP_CAP_AUTOSCALE_INSTANCE_TYPE = ['z9.large']"), "nothing can be rented"),
    ),
)
def test_a_wrong_file_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], file: Path, changed: tuple[str, str], message: str
) -> None:
    file.write_text(SWEEP.replace(*changed))
    assert main(["sweep", str(file)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert str(file) in said


def test_settings_that_change_nothing_are_named(file: Path) -> None:
    file.write_text(SWEEP.replace("[settings]", "[settings]\nCP_CAP_AUTOSCALE_PROVIDER = ['azure', 'aws']"))
    said = [each for each in _Search(Invocation(os.environ), read_sweep(file)).assumptions if "changes nothing" in each]
    assert [each.split()[0] for each in said] == ["CP_CAP_AUTOSCALE_PROVIDER"]


def test_points_are_paid_by_the_catalogue_and_the_billing_in_force(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[types]\n"m5.large" = { on_demand = 9.6 }\n')
    monkeypatch.setenv("CP_CAP_AUTOSCALE_PROVIDER", "local")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_LOCAL_CATALOG", str(own))
    monkeypatch.setenv("CP_CAP_AUTOSCALE_BILLING_STEP", "600")
    search = _Search(Invocation(os.environ), read_sweep(file))
    assert 9.6 in {bucket.price_per_hour for bucket in search.task.conditions.buckets}
    assert search.task.conditions.billing.granularity == 600.0
    assert any(each.startswith(f"Prices are those of {own}") for each in search.assumptions)


def test_several_consumables_may_be_counted(file: Path) -> None:
    for value, counted in (('"h_vmem"', ("h_vmem",)), ('["h_vmem", "mem_free"]', ("h_vmem", "mem_free"))):
        file.write_text(SWEEP.replace("[conditions]", f"[conditions]\nmemory = {value}"))
        search = _Search(Invocation(os.environ), read_sweep(file))
        assert search.task.conditions.cell.consumables == counted


def test_wrong_calls_are_one_clear_error(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["sweep", str(file), "--processes", "2", "--grid-engine", "2"]) == 2
    assert "exclude each other" in capsys.readouterr().err
    assert main(["sweep", str(file), "--results", str(file)]) == 2
    assert "name a new file with --results" in capsys.readouterr().err
    assert main(["sweep", str(file), "--results", str(file / "x")]) == 2
    assert "name a file with --results" in capsys.readouterr().err
    assert main(["sweep", str(file), "--scheduler", "tcp://127.0.0.1:1"]) == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["sweep", str(file)]) == 2
    assert "pip install 'sge-autoscaler[dask]'" in capsys.readouterr().err


def test_the_example_is_a_sweep(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert main(["sweep", "--example"]) == 0
    text = capsys.readouterr().out
    file.write_text(text)
    assert len(points_of(read_sweep(file))) == 10
    # Everything that it shows as a comment may be written, too; of `search`, what a grid has none of.
    shown = re.sub(r"(?m)^# (?=[a-z_A-Z]+ = )", "", text)
    file.write_text(shown)
    full = read_sweep(file)
    assert {*full.grid_engine} == {*GRID_ENGINE}
    assert len(points_of(full)) == 65
    assert main(["sweep"]) == 2
    assert "--example prints one" in capsys.readouterr().err


def test_one_sweep_at_a_time_writes_results(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    with Results.opened(file.with_suffix(".sqlite")):
        assert main(["sweep", str(file)]) == 2
    assert "another sweep writes there" in capsys.readouterr().err


def test_the_file_of_another_program_is_left_alone(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    other = file.with_suffix(".sqlite")
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    assert main(["sweep", str(file)]) == 2
    assert "is another program's file" in capsys.readouterr().err


# -- killed, stopped, resumed ------------------------------------------------------------------------------------------


@pytest.fixture
def start(file: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts the sweep as a program in a process group of its own."""
    started: list[subprocess.Popen[str]] = []

    def start_it() -> subprocess.Popen[str]:
        argv = (sys.executable, "-P", "-m", "autoscaler.commands.main", "sweep", str(file), "--processes", "1")
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start_it
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def killed_after(runs: int, file: Path, process: subprocess.Popen[str]) -> None:
    """Kill it as soon as so many runs are kept. Nothing of it goes on."""
    assert wait_for(lambda: len(kept(file)) >= runs or process.poll() is not None, 120)
    workers = children(process)
    process.kill()
    process.wait()
    assert wait_for(lambda: not any(one.is_running() and one.status() != "zombie" for one in workers), 60)


@pytest.mark.slow
def test_killed_and_resumed_no_finished_run_is_lost_or_made_again(
    file: Path, start: Callable[[], subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, str] = {}
    for _ in range(2):
        killed_after(len(seen) + 2, file, start())
        now = kept(file)
        assert seen.items() <= now.items()
        seen = now
    assert main(["sweep", str(file), "--processes", "1"]) == 0
    resumed = kept(file)
    assert seen.items() <= resumed.items()
    assert len(resumed) > len(seen)
    assert re.search(r"[1-9]\d* of \d+ runs are known from before", capsys.readouterr().err)
    # Whole, and as one that was never killed.
    again = file.with_name("again.toml")
    again.write_text(SWEEP)
    assert main(["sweep", str(again), "--processes", "2"]) == 0
    assert kept(again) == resumed


@pytest.mark.slow
def test_ctrl_c_shows_what_is_done(file: Path, start: Callable[[], subprocess.Popen[str]]) -> None:
    file.write_text(SWEEP.replace("generated:40:2", "generated:400:2").replace("jobs = 10", "jobs = 100"))
    process = start()
    assert wait_for(lambda: kept(file) or process.poll() is not None, 180)
    process.send_signal(signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)  # as `timeout` does it, and a terminal: to the workers, too
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "In short" in out
    assert err == ""
    assert 0 < len(kept(file)) < 24


# -- runs --------------------------------------------------------------------------------------------------------------


def conditions(**changed: Any) -> Conditions:
    return Conditions(load_catalog().buckets(), **changed)


def a_window(jobs: int = 10, begins: float = 0.0) -> Window:
    return Window("test", tuple(a_workload(jobs).jobs), begins, 0.0)


def test_a_key_names_all_that_a_result_depends_on() -> None:
    def key(candidate: Candidate, window: Window, shared: Conditions) -> str:
        return keys_of([candidate], [window], shared)[0][0]

    one = Candidate("one", a_policy())
    first = key(one, a_window(), conditions())
    assert first == key(Candidate("renamed", a_policy()), a_window(), conditions())
    others = {
        key(Candidate("one", a_policy(idle_timeout=31.0)), a_window(), conditions()),
        key(one, a_window(11), conditions()),
        key(one, a_window(begins=60.0), conditions()),
        key(one, a_window(), conditions(delays=Delays(boot=121.0))),
        key(one, a_window(), Conditions(load_catalog().buckets()[1:])),
    }
    assert len(others | {first}) == 6


def test_keys_are_the_same_in_every_process() -> None:
    """Sets have another order in each."""
    code = (
        "from tests.simulation.test_sweep import *\n"
        "print(keys_of([Candidate('one', a_policy())], [a_window()], conditions())[0][0])"
    )
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    printed = [
        subprocess.run((sys.executable, "-c", code), env=env, capture_output=True, text=True, check=True, timeout=120)
        for env in environments
    ]
    assert printed[0].stdout == printed[1].stdout
    assert len(printed[0].stdout.strip()) == 64


def test_a_worker_with_another_program_refuses() -> None:
    with pytest.raises(OtherProgram, match="install the same one there"):
        perform("other", Candidate("one", a_policy()), a_window(), conditions(), 1)


def test_a_run_that_fails_is_told_and_not_kept() -> None:
    """On a Dask scheduler that is there, with one run that cannot be played."""
    distributed = pytest.importorskip("distributed")
    broken = Candidate("broken", a_policy(instance_type="z9.large"))
    task = dispatch.Task([Candidate("one", a_policy()), broken], [a_window()], conditions())
    spent = dispatch.Spread()
    finished: list[tuple[Run, Any]] = []
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, host=dispatch.LOOPBACK, dashboard_address=dispatch.WEB
        ) as cluster,
        dispatch.on_scheduler(cluster.scheduler_address) as workers,
    ):
        runs = [Run(0, 0, 1, "a"), Run(1, 0, 1, "b")]
        dispatch.spread(
            workers, task, runs, spent, lambda run, document: finished.append((run, document)), lambda _: True
        )
    assert [(run.key, document["tasks"]["submitted"]) for run, document in finished] == [("a", 10)]
    ((message, failed),) = spent.failed.items()
    assert "nothing can be rented" in message
    assert [run.key for run in failed] == ["b"]


def test_the_program_digest_is_of_files_that_decide() -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", program_digest())


# -- nobody else runs code in our workers ------------------------------------------------------------------------------


def listening() -> set[tuple[int | None, str, int]]:
    """Process, address and port of everything that listens here, of ours and our children."""
    ours = {os.getpid(), *(one.pid for one in psutil.Process().children(recursive=True))}
    return {
        (one.pid, one.laddr.ip, one.laddr.port)
        for one in psutil.net_connections("inet")
        if one.status == "LISTEN" and one.pid in ours and one.laddr
    }


def test_only_loopback_listens_and_nobody_without_our_keys_gets_in() -> None:
    distributed = pytest.importorskip("distributed")
    before = listening()
    with dispatch.on_processes(1) as workers:
        address = workers.client.scheduler_info()["address"]
        assert address.startswith("tls://127.0.0.1:")
        ours = listening() - before
        assert len(ours) >= 3
        assert {ip for _, ip, _ in ours} == {"127.0.0.1"}
        for stranger in (address, address.replace("tls:", "tcp:")):
            with pytest.raises((OSError, ValueError, TypeError)):
                distributed.Client(stranger, timeout=2, set_as_default=False)
        other = distributed.Security.temporary()
        with pytest.raises(OSError, match=r"Timed out|certificate|Failed"):
            distributed.Client(address, security=other, timeout=2, set_as_default=False)


@pytest.mark.slow
def test_workers_import_nothing_from_the_current_directory(
    tmp_path: Path, file: Path, start: Callable[[], subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "distributed.py").write_text("raise SystemExit('from the current directory')\n")
    process = start()
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "In short" in out


def test_the_first_window_begins_with_the_first_job_of_a_file_whose_time_begins_earlier(tmp_path: Path) -> None:
    file = tmp_path / "late.swf"
    rows = (f"{number} {864_000 + 60 * number} -1 600 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1" for number in range(4))
    file.write_text("".join(f"{row}\n" for row in rows))
    read = workload_of(str(file), SimulationOptions(), 16)
    market = Market(limits=(Limit(FailureKind.CAPACITY, ends=3600.0),))
    first, second = windows_of(read, Source(str(file), windows=2, jobs=2), 0.0)
    assert [window.begins for window in (first, second)] == [0.0, 120.0]
    assert market_in(market, second).limits[0].ends == 3480.0
