"""The command line: one line an error, one exit code a kind, and operator overrides that reach the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.commands import main as module
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import cli, main
from autoscaler.core.model.fleet import BucketKey, FailureKind, InstanceType, MachineState, Worker
from autoscaler.core.model.memory import Backoff, Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import CreatedNode
from autoscaler.errors import GridEngineNotObservable
from autoscaler.store.lock import hold, lock_directory
from autoscaler.store.nodes import NodeRow
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.simulated.cluster import START

Run = Callable[..., int]


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A cell's files without any Grid Engine, and state of our own."""
    common = tmp_path / "sge" / "default" / "common"
    common.mkdir(parents=True)
    (common / "act_qmaster").write_text("Master.example.org\n")
    (common / "bootstrap").write_text("admin_user sgeadmin\nignore_fqdn             true\n")
    values = {
        "SGE_ROOT": str(tmp_path / "sge"),
        "SGE_CELL": "default",
        "SGE_QMASTER_PORT": "6444",
        "CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"),
        "CP_CAP_AUTOSCALE_PROVIDER": "fake",
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
        "CP_CAP_AUTOSCALE_CONFIG": "",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CP_CAP_AUTOSCALE", raising=False)
    monkeypatch.delenv("SUDO_USER", raising=False)
    return values


@pytest.fixture
def worker_store(environ: dict[str, str]) -> Store:
    """With one live worker, `fake-1`."""
    store = Store.open(Invocation(environ).store_file)
    kind = InstanceType("m5.large", "m5", 2, 8 << 30)
    store.history.note_workers([Worker("i-1", kind, "execute", MachineState.RUNNING, START, name="fake-1")], [], START)
    return store


@pytest.mark.usefixtures("environ")
@pytest.mark.parametrize("command", cli.list_commands(None))  # type: ignore[arg-type] # it looks at modules only
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main([command, "--help"]), "Usage: sge-autoscaler" in capsys.readouterr().out) == (0, True)


def test_the_main_commands_are_listed() -> None:
    assert {"run", "once", "stop", "pause", "resume", "drain", "keep"} <= set(cli.list_commands(None))  # type: ignore[arg-type]


@pytest.mark.usefixtures("environ")
@pytest.mark.parametrize(
    ("arguments", "code"),
    (
        (["--version"], 0),
        (["no-such-command"], 2),
        (["stop"], 2),
        (["stop", "--now", "--drain"], 2),
        (["keep", "nobody"], 3),
        (["drain", "nobody"], 3),
        (["run", "--no-such-option"], 2),
    ),
)
def test_each_kind_of_outcome_has_its_exit_code(arguments: list[str], code: int) -> None:
    assert main(arguments) == code


def test_a_failed_observation_exits_with_4(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def blind(*_: object, **__: object) -> None:
        raise GridEngineNotObservable("qstat is not there")

    monkeypatch.setattr("autoscaler.engine.observe.read_outputs", blind)
    assert (main(["once"]), capsys.readouterr().err.splitlines()[-1]) == (4, "sge-autoscaler: qstat is not there")


def test_a_second_autoscaler_exits_with_5_and_names_the_first(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with hold(Invocation(environ).cell, lock_directory()):
        code = main(["once"])
    assert (code, "another autoscaler serves cell default of master:6444" in capsys.readouterr().err) == (5, True)


@pytest.mark.usefixtures("environ")
def test_ctrl_c_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.cli, "main", interrupted)
    assert main(["status"]) == 130


@pytest.mark.usefixtures("environ")
def test_an_unreadable_state_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied", "/var/lib/x.sqlite")

    monkeypatch.setattr(Path, "exists", refuse)
    code = main(["status"])
    message = "sge-autoscaler: /var/lib/x.sqlite: you may not read it: ask root, or the user who runs the autoscaler\n"
    assert (code, capsys.readouterr().err) == (1, message)


@pytest.mark.usefixtures("environ")
def test_run_ends_only_with_an_explicit_false_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE", "false")
    assert (main(["run"]), "CP_CAP_AUTOSCALE is false" in capsys.readouterr().out) == (0, True)


@pytest.mark.usefixtures("environ")
def test_without_grid_engine_a_command_names_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SGE_ROOT", str(tmp_path / "nowhere"))
    assert (main(["pause"]), "set SGE_ROOT and SGE_CELL" in capsys.readouterr().err) == (2, True)


def test_a_settings_file_given_on_the_command_line_is_read_by_every_command(
    environ: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("CP_CAP_AUTOSCALE_WORKERZ = 3\n")
    assert main(["--config", str(file), "pause"]) == 2


def test_the_master_name_is_as_grid_engine_prints_it(environ: dict[str, str]) -> None:
    assert Invocation(environ).cell.master == "master"


def test_pause_and_resume_are_overrides_with_their_author(worker_store: Store) -> None:
    main(["pause"])
    paused = worker_store.overrides.load()
    main(["resume"])
    assert (paused.paused, bool(paused.paused_by), worker_store.overrides.load().paused) == (True, True, False)


def test_resume_is_stored_for_the_circuit_breaker(worker_store: Store) -> None:
    main(["resume"])
    assert worker_store.overrides.resumed_at is not None


def test_retry_names_the_buckets_and_arrays_to_retry(worker_store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    backoffs = [
        Backoff(BucketKey("m5.large", zone=zone), time.time() + 600, 5, FailureKind.CAPACITY, "none left")
        for zone in "ab"
    ]
    worker_store.memory.save(Memory(backoffs=tuple(backoffs), stopped={"gpu": "no such image"}), 1.0)
    main(["retry"])
    assert capsys.readouterr().out == "tried again: m5.large (none left), gpu (no such image)\n"
    assert worker_store.overrides.load().retried_at is not None


def test_retry_says_when_there_is_nothing_to_retry(worker_store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    main(["retry"])
    assert capsys.readouterr().out == "no bucket is in backoff, and no node has failed\n"


def test_retry_retries_failed_nodes(worker_store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    worker_store.nodes.create([NodeRow(CreatedNode("n1", "execute-1", "execute", 1.0))])
    worker_store.nodes.bind("n1", "i-1")
    worker_store.nodes.lose({"i-1": because(Code.GONE)}, at=2.0)
    main(["retry"])
    assert capsys.readouterr().out == "tried again: node execute-1\n"
    assert [node.id for node in worker_store.nodes.live()] == ["n1"]


def test_keep_ends_a_drain_of_the_same_host(worker_store: Store) -> None:
    main(["drain", "FAKE-1.example.org"])
    drained = worker_store.overrides.load()
    main(["keep", "fake-1"])
    kept = worker_store.overrides.load()
    assert (drained.drain, kept.drain, kept.keep) == (frozenset({"fake-1"}), frozenset(), frozenset({"fake-1"}))


@pytest.mark.parametrize("command", ("keep", "drain"))
def test_a_keep_or_drain_of_a_host_can_be_undone(worker_store: Store, command: str) -> None:
    codes = [main([command, "fake-1"]), main([command, "fake-1", "--undo"])]
    assert (codes, worker_store.overrides.in_force(), len(worker_store.database.rows("SELECT * FROM overrides"))) == (
        [0, 0],
        (),
        1,
    )


def test_stop_ends_earlier_keeps(worker_store: Store) -> None:
    main(["keep", "fake-1"])
    main(["stop", "--now", "--no-wait"])
    assert [override.verb for override in worker_store.overrides.in_force()] == [Verb.STOP_NOW]


@pytest.mark.parametrize("shell", ("bash", "zsh", "fish"))
def test_shell_completion_is_available(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["completion", shell]), "_SGE_AUTOSCALER_COMPLETE" in capsys.readouterr().out) == (0, True)
