"""Serving a cell: the boot script of its workers, the systemd unit, and reloads of the settings."""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import time
from importlib import resources
from pathlib import Path

import pytest

from autoscaler.commands._observation import observer_of, reading_store
from autoscaler.commands.context import Invocation
from autoscaler.commands.serving import (
    boot_script,
    key_in_metadata,
    refuse_unusable,
    report_former_tags,
    serving,
    worker_boot,
)
from autoscaler.core.actions import Launch, LaunchSet
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import ArrayDefinition, Target
from autoscaler.core.snapshot import Plan
from autoscaler.engine.pass_reporter import PassReporter
from autoscaler.errors import SettingsError
from autoscaler.providers.interface import LaunchOrder
from autoscaler.store.identity import FILE, cell_secret
from autoscaler.store.journal import OrderRecord
from autoscaler.worker_configuration import order_key
from tests.cell_files import cell_files
from tests.test_listeners import Counts


@pytest.fixture
def invocation(tmp_path: Path) -> Invocation:
    return Invocation(
        cell_files(tmp_path / "it's a root", "localhost")
        | {
            "SGE_EXECD_PORT": "6445",
            "CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"),
            "CP_CAP_AUTOSCALE_PROVIDER": "fake",
            "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
        }
    )


def test_the_boot_script_names_this_cell(invocation: Invocation, tmp_path: Path) -> None:
    lines = worker_boot(invocation, "execute").script().splitlines()
    settings = "\n".join(line for line in lines if re.match(r"SGE_\w+=", line))
    shown = subprocess.run(
        ["sh", "-c", f'{settings}\nprintf "%s|" "$SGE_ROOT" "$SGE_CELL" "$SGE_QMASTER_PORT" "$SGE_EXECD_PORT"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == f"{tmp_path}/it's a root|default|6444|6445|"


def test_a_machine_waits_longer_to_join_than_its_autoscaler_waits_for_it(invocation: Invocation) -> None:
    """Otherwise it would leave as released, and a type whose machines never join would never get a backoff."""
    (waits,) = re.findall(r"^JOIN_WITHIN=(\d+)$", worker_boot(invocation, "execute").script(), re.MULTILINE)
    assert int(waits) > invocation.policy.node_arrays[0].boot_timeout


def test_a_machine_waits_as_long_as_the_rules_set(invocation: Invocation, tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text('{"boot_timeout": {"default": 7200}}')
    ruled = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_RULES": str(tmp_path / "rules.json")})
    assert "JOIN_WITHIN=14460" in worker_boot(ruled, "execute").script()


def test_a_worker_gets_the_bootstrap_file_of_the_cell(invocation: Invocation) -> None:
    assert "BOOTSTRAP='ignore_fqdn true'" in worker_boot(invocation, "execute").script()


def test_on_aws_no_boot_script_differs_by_order(
    invocation: Invocation,
) -> None:
    given = {"CP_CAP_AUTOSCALE_AUTOSTOP": "10.0.0.1:8650", "CP_CAP_AUTOSCALE_PROVIDER": "aws"}
    invocation = Invocation({**invocation.environ, **given, "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "c5.large"})
    orders = [
        OrderRecord(name, "execute", 100.0, (), (), closed=False, group_id=f"execute:2-{name}")
        for name in ("0abc", "0def")
    ]
    with invocation.store() as store:
        scripts = {boot_script(invocation, store, order) for order in orders}
    secret = cell_secret(invocation.store_file.with_suffix(".secret"))
    keys = [key_in_metadata(invocation, order) for order in orders]
    assert (len(scripts), keys) == (1, [order_key(secret, "0abc"), order_key(secret, "0def")])


def test_a_worker_gets_the_bootstrap_of_the_operator(invocation: Invocation, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\nmount efs:/home /home\n")
    hooked = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_WORKER_BOOTSTRAP": str(tmp_path / "mine")})
    assert "HOOK='#!/bin/sh\nmount efs:/home /home'" in worker_boot(hooked, "execute").script()


@pytest.mark.parametrize("text", (None, "mount efs:/home /home\n"))
def test_a_bootstrap_that_cannot_run_stops_the_start(invocation: Invocation, tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "mine").write_text(text)
    hooked = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_WORKER_BOOTSTRAP": str(tmp_path / "mine")})
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_WORKER_BOOTSTRAP"):
        refuse_unusable(hooked.settings)


def test_a_boot_script_has_the_configuration_and_the_auto_stop_address(invocation: Invocation) -> None:
    invocation = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_AUTOSTOP": "10.0.0.1:8650"})
    given = ArrayDefinition("execute", configuration='{"app": {"version": "1.2.3"}}')
    order = OrderRecord("0abc", "execute", 100.0, (), (), closed=False, group_id="execute:64-1")
    with invocation.store() as store:
        store.requests.update("standard", "ann", 99.0, None, (), (given,))
        script = boot_script(invocation, store, order)
    key = order_key(cell_secret(invocation.store_file.with_suffix(".secret")), "0abc")
    values = ("app.version\t1.2.3\n", "cyclecloud.node.group_id\texecute:64-1\n")
    results = [text in script for text in (*values, "http://10.0.0.1:8650/autostop/0abc", key)]
    assert results == [True, True, True, True]


def test_a_boot_script_for_a_joining_image_has_them_and_starts_no_execd(invocation: Invocation) -> None:
    invocation = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_AUTOSTOP": "10.0.0.1:8650"})
    with invocation.store() as store:
        order = OrderRecord("0abc", "execute", 100.0, (), (), closed=False)
        script = boot_script(invocation, store, order, joins=False)
    results = [
        text in script for text in ("cyclecloud.node.template\texecute\n", "/autostop/0abc", "sge_execd", "watch")
    ]
    assert results == [True, True, False, False]


def test_the_secret_of_a_cell_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "cell.secret"
    first = cell_secret(path)
    assert (cell_secret(path), path.stat().st_mode & 0o777) == (first, 0o600)


def test_an_empty_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cell.secret").write_text("\n")
    with pytest.raises(SettingsError, match="contains no secret"):
        cell_secret(tmp_path / "cell.secret")


def test_without_an_instance_type_serving_is_refused(invocation: Invocation) -> None:
    invocation = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_INSTANCE_TYPE": ""})
    with pytest.raises(SettingsError, match="no instance type"), serving(invocation):
        pass


def test_serving_creates_the_tag_and_the_store(invocation: Invocation) -> None:
    with serving(invocation):
        made = ((invocation.common / FILE).exists(), invocation.store_file.exists())
    assert made == (True, True)


def test_passes_and_commands_of_the_service_are_measured(invocation: Invocation) -> None:
    """Here a service that finds no Grid Engine."""
    with serving(invocation) as loop:
        loop._guarded_pass()
        values = loop.store.measures.load().values
    assert values["passes_total"]["grid_engine_not_observed",] == 1
    assert sum(values["grid_engine_command_failures_total"].values()) >= 1


def test_a_pass_listener_that_the_settings_name_hears_of_the_services_passes(invocation: Invocation) -> None:
    """Here a service that finds no Grid Engine."""
    invocation = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_LISTENERS": "tests.test_listeners:Counts"})
    with serving(invocation) as loop:
        (counts,) = (each for each in loop.listeners.attached if isinstance(each, Counts))
        loop._guarded_pass()
    assert counts.failures == 1


def test_a_dry_run_creates_no_files(invocation: Invocation, tmp_path: Path) -> None:
    invocation = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_DRY_RUN": "true"})
    with serving(invocation) as loop:
        made = (loop.dry_run, (invocation.common / FILE).exists(), (tmp_path / "state").exists())
    assert made == (True, False, False)


def test_a_dry_run_ignores_requests_that_plan_shows(invocation: Invocation) -> None:
    with invocation.store() as store:
        store.requests.update("standard", "ann", 99.0, None, (Target("execute", count=1),), ())
    dry = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_DRY_RUN": "true"})
    with serving(dry) as loop, reading_store(dry) as store:
        sets = [len(each.requests.load(100.0).sets) for each in (loop.observer.store, store)]
    assert sets == [0, 1]


def test_a_reload_returns_the_new_policy_and_names_what_needs_a_restart(
    invocation: Invocation, caplog: pytest.LogCaptureFixture
) -> None:
    environ = dict(invocation.environ)
    with serving(Invocation(environ)) as loop:
        environ["CP_CAP_AUTOSCALE_WORKERS"] = "7"
        environ["CP_CAP_AUTOSCALE_POLLING_DELAY"] = "5"
        environ["CP_CAP_AUTOSCALE_LEASE"] = "600"
        assert loop.reload is not None
        policy, poll = loop.reload()
    assert (policy.node_arrays[0].limits.max_workers, poll) == (7, 5.0)
    assert "these settings change only with a restart: CP_CAP_AUTOSCALE_LEASE" in caplog.messages


def test_the_service_unit_uses_systemd_notification() -> None:
    unit = resources.files("autoscaler.conf").joinpath("sge-autoscaler.service").read_text(encoding="utf-8")
    wanted = {"Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "RestartPreventExitStatus=0 2", "Restart=on-failure"}
    assert wanted <= set(unit.splitlines())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize(
    "unit", ("sge-autoscaler.service", "sge-autoscaler-serve.service", "sge-autoscaler-hosts@.service")
)
def test_the_exposure_of_each_unit_is_at_most_2_5_of_10(unit: str) -> None:
    path = Path(__file__).parents[2] / "conf" / unit
    argv = ("systemd-analyze", "security", "--offline=true", "--threshold=25", str(path))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_machines_of_a_former_tag_are_reported_at_the_start(
    invocation: Invocation, caplog: pytest.LogCaptureFixture
) -> None:
    """No listing shows them any more, so nobody would end them."""
    invocation = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_TAG": "second-tag"})
    bucket = invocation.provider().buckets()[0]
    launch = Launch("execute", (LaunchSet((bucket,), 1),), because(Code.DEMAND))
    with invocation.store() as store:
        store.accept(Plan((launch,), Memory()), pass_number=1, at=time.time())
        order = store.journal.orders(0)[0]
        asked = LaunchOrder(f"{order.id}-0", order.id, "first-tag", "execute", (bucket,), 1, boot_script="")
        store.journal.send(asked, 0, time.time())
        store.journal.answer(asked.token, ids=("a",), failures=(), message="", at=time.time())
        for tag, reported in (("first-tag", False), ("second-tag", True)):
            caplog.clear()
            report_former_tags(store, Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_TAG": tag}))
            assert ("former tag first-tag" in caplog.text) is reported
        assert observer_of(invocation, store, invocation.provider()).tag == "second-tag"


def test_wrong_rules_stop_the_start_and_leave_running_ones_in_force(invocation: Invocation, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    ruled = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_RULES": str(rules)})
    rules.write_text('{"idle_timeout": 60}')
    with serving(ruled) as loop:
        held = loop.observer.rule_files
        rules.write_text('{"idle_timeout": 0}')
        with pytest.raises(SettingsError, match="idle_timeout: a number of seconds above 0"):
            loop.reload()  # type: ignore[misc]
        assert loop.observer.rule_files is held
    with pytest.raises(SettingsError, match="idle_timeout: a number of seconds above 0"), serving(ruled):
        pass


def test_a_reload_that_fails_late_leaves_rules_and_settings_in_force(invocation: Invocation, tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text('{"idle_timeout": 60}')
    (tmp_path / "file").touch()
    environ = dict(invocation.environ)
    with serving(Invocation(environ)) as loop:
        held, policy = loop.observer.rule_files, loop.observer.policy
        environ["CP_CAP_AUTOSCALE_RULES"] = str(tmp_path / "rules.json")
        environ["CP_CAP_AUTOSCALE_WORKERS"] = "7"
        environ["CP_CAP_AUTOSCALE_LOGDIR"] = str(tmp_path / "file" / "log")
        loop._reload()
        assert (loop.observer.rule_files, loop.observer.policy) == (held, policy)
        assert "7" not in (loop.observer.store.service_settings.load() or {}).values()


def test_a_reload_changes_the_log_and_keeps_the_command_line_options(invocation: Invocation, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("")
    known = Invocation({**invocation.environ, "CP_CAP_AUTOSCALE_CONFIG": str(file)})
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        with serving(known, json_log=True) as loop:
            assert loop.reload is not None
            reporter = next(each for each in loop.listeners.attached if isinstance(each, PassReporter))
            file.write_text('CP_CAP_AUTOSCALE_VERBOSE = true\nCP_CAP_AUTOSCALE_LOGGING_LEVEL_CONSOLE = "DEBUG"\n')
            loop.reload()
            console = root.handlers[-1]
            line = console.format(root.makeRecord("autoscaler", logging.INFO, "", 0, "hello", (), None))
            assert (reporter.verbose, console.level, json.loads(line)["event"]) == (True, logging.DEBUG, "hello")
    finally:
        root.handlers[:], root.level = handlers, level
