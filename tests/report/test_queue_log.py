"""The log of each queue, where Cloud Pipeline starts a process for each: its writer, its format, its lines."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.model.cluster import ExecutionHost, JobRequest, QueueInstance
from autoscaler.core.model.fleet import Bucket, BucketKey, Fleet, MachineState, Worker
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.policy import NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import BucketVerdict, Plan, Snapshot
from autoscaler.engine.observe import Observation
from autoscaler.engine.pass_reporter import PassReporter
from autoscaler.engine.queue_log import QueueLines, lines_taken
from autoscaler.engine.queue_register import QueueRegister
from autoscaler.engine.queue_reporter import QueueReporter, plan_of
from autoscaler.errors import SettingsError
from autoscaler.report.log import configure_queue_log
from autoscaler.settings.process_settings import Process
from autoscaler.sge.cluster import Outputs
from tests.deadlines import wait_for
from tests.report.plans import BIG, NOW, disable, kept, launch, plan, snapshot, waiting


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield root
    for handler in root.handlers[:]:
        if handler not in before:
            root.removeHandler(handler)
            handler.close()
    for handler in before:
        if handler not in root.handlers:
            root.addHandler(handler)
    root.setLevel(level)


def settings(folder: Path, **given: str) -> Process:
    return Process.model_validate({"CP_CAP_AUTOSCALE_LOGDIR": str(folder)} | given)


def written(folder: Path, queue: str = "main.q") -> list[str]:
    return (folder / f"autoscaler.sge.{queue}.log").read_text().splitlines()


def test_file_and_format_are_the_platforms(root: logging.Logger, tmp_path: Path) -> None:
    configure_queue_log(settings(tmp_path), {}, "main.q")
    root.debug("three\nlines\x1b[1m")
    (line,) = written(tmp_path)
    assert line.endswith("[MainThread] [DEBUG] three | lines\\x1b[1m")


def test_its_folder_is_the_runs_where_none_is_set(root: logging.Logger, tmp_path: Path) -> None:
    configure_queue_log(Process(), {"LOG_DIR": str(tmp_path)}, "x.q")
    root.info("one")
    assert len(written(tmp_path, "x.q")) == 1


def test_levels_and_format_are_those_of_its_variables(
    root: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"FORMAT": "%(levelname)s %(message)s", "LEVEL_FILE": "ERROR", "LEVEL_CONSOLE": "WARNING"}
    given = {f"CP_CAP_AUTOSCALE_LOGGING_{name}": text for name, text in names.items()}
    configure_queue_log(settings(tmp_path, **given), {"API_TOKEN": "very-secret"}, "main.q")
    root.warning("token very-secret")
    root.error("broken %s", "disk")
    assert written(tmp_path) == ["ERROR broken disk"]
    assert capsys.readouterr().out == "WARNING token (secret)\nERROR broken disk\n"


def test_a_format_that_is_none_is_refused(root: logging.Logger, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_LOGGING_FORMAT = 'all'"):
        configure_queue_log(settings(tmp_path, CP_CAP_AUTOSCALE_LOGGING_FORMAT="all"), {}, "main.q")


@pytest.mark.parametrize("style", ("%(mesage", "%(foo)s", "%(message)s %(mesage", "%(message)d"))
def test_a_format_with_which_no_line_can_be_made_is_refused(root: logging.Logger, tmp_path: Path, style: str) -> None:
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_LOGGING_FORMAT = "):
        configure_queue_log(settings(tmp_path, CP_CAP_AUTOSCALE_LOGGING_FORMAT=style), {}, "main.q")


def test_levels_are_those_that_the_platform_hands_to_pythons_logging(tmp_path: Path) -> None:
    names = {"WARN": "WARNING", "FATAL": "CRITICAL", "CRITICAL": "CRITICAL", "NOTSET": "DEBUG"}
    read = {name: settings(tmp_path, CP_CAP_AUTOSCALE_LOGGING_LEVEL_FILE=name).log_level_file for name in names}
    assert read == names


@pytest.mark.parametrize(
    ("given", "printed"),
    (({}, ""), ({"VERBOSE": "true"}, "a run\n"), ({"VERBOSE": "true", "LOGGING_LEVEL_CONSOLE": "WARNING"}, "")),
)
def test_verbose_prints_all_details_unless_another_level_is_asked_for(
    root: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, str], printed: str
) -> None:
    names = {f"CP_CAP_AUTOSCALE_{name}": text for name, text in given.items()}
    configure_queue_log(settings(tmp_path, CP_CAP_AUTOSCALE_LOGGING_FORMAT="%(message)s", **names), {}, "main.q")
    root.debug("a run")
    assert capsys.readouterr().out == printed


def test_lines_reach_the_process_of_their_queue_and_lines_of_the_cell_reach_all(tmp_path: Path) -> None:
    taken: list[str] = []
    channel = tmp_path / ("long" * 25) / "x.sock"
    channel.parent.mkdir()
    lines = QueueLines({"x.q": channel})
    with lines_taken(channel, lambda record: taken.append(f"{record.levelname} {record.threadName} {record.msg}")):
        for queue in ("x.q", "main.q", None):
            record = logging.LogRecord("a", logging.INFO, "f", 1, "of %s", (queue,), None)
            if queue:
                record.queue = queue
            lines.emit(record)
        assert wait_for(lambda: len(taken) == 2, 10)
    lines.close()
    assert taken == ["INFO MainThread of x.q", "INFO MainThread of None"]
    assert not channel.exists()


def test_a_process_that_is_gone_costs_its_lines_and_nothing_else(tmp_path: Path) -> None:
    taken, channel = list[str](), tmp_path / "y.sock"
    lines = QueueLines({"x.q": tmp_path / "none.sock", "y.q": channel})
    with lines_taken(channel, lambda record: taken.append(str(record.msg))):
        lines.emit(logging.LogRecord("a", logging.INFO, "f", 1, "of all", (), None))
        assert wait_for(lambda: bool(taken), 10)
    lines.close()
    assert taken == ["of all"]


# -- the register ------------------------------------------------------------------------------------------------------


def test_a_queue_has_one_process_and_another_one_waits(tmp_path: Path) -> None:
    register = QueueRegister(tmp_path / "queues")
    with register.registered("x.q", {"A": "1"}) as first, register.registered("x.q", {"A": "2"}) as second:
        assert first is not None
        assert second is None
        assert [(each.queue, each.pid, each.settings) for each in register.processes()] == [
            ("x.q", os.getpid(), {"A": "1"})
        ]
    assert register.processes() == ()


def test_a_process_knows_the_settings_of_the_last_one_of_its_queue_and_of_no_other(tmp_path: Path) -> None:
    register, former = QueueRegister(tmp_path / "queues"), []
    for queue, settings in (("x.q", {"A": "1"}), ("y.q", {"A": "2"}), ("x.q", {"A": "3"})):
        with register.registered(queue, settings) as own:
            assert own is not None
            former.append(own.former)
    assert former == [None, None, {"A": "1"}]


def test_what_is_registered_is_for_its_user_alone(tmp_path: Path) -> None:
    register = QueueRegister(tmp_path / "queues")
    with register.registered("x.q", {}), lines_taken(register.channel("x.q"), lambda _: None):
        register.keep_numbers({"x.q": "1"})
        modes = {path.name: path.stat().st_mode & 0o777 for path in register.directory.iterdir()}
    assert modes.keys() == {"x.q.lock", "x.q.json", "x.q.sock", "numbers.json"}
    assert set(modes.values()) == {0o600}
    register.directory.chmod(0o777)
    with pytest.raises(SettingsError, match="others"), register.registered("x.q", {}):
        pass


def test_a_killed_process_is_registered_no_more(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from autoscaler.engine.queue_register import QueueRegister\n"
        "with QueueRegister(Path(sys.argv[1])).registered('a/b.q', {}): print('in', flush=True); time.sleep(60)"
    )
    register = QueueRegister(tmp_path / "queues")
    with subprocess.Popen([sys.executable, "-c", code, str(register.directory)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert [each.queue for each in register.processes()] == ["a/b.q"]
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert register.processes() == ()
    with register.registered("a/b.q", {}) as own:
        assert own is not None


def test_a_stop_by_a_person_lasts_until_a_process_is_started_again(tmp_path: Path) -> None:
    register = QueueRegister(tmp_path / "queues")
    with register.registered("x.q", {}) as own:
        assert own is not None
        assert register.stopped_at() is None
        register.note_stop(own.since + 1)
        assert register.stopped_at() == own.since + 1
        register.note_stop(own.since - 1)
        assert register.stopped_at() is None


def test_queues_whose_workers_are_given_back_are_remembered_until_ours_is_installed_again(tmp_path: Path) -> None:
    register = QueueRegister(tmp_path / "queues")
    assert register.leaving() == ()
    with register.registered("x.q", {"A": "1"}) as own:
        register.note_leaving(register.processes())
    assert register.processes() == ()
    assert register.leaving() == (own,)
    assert (register.directory / "leaving.json").stat().st_mode & 0o777 == 0o600
    register.forget_leaving()
    assert register.leaving() == ()


# -- what is in it -----------------------------------------------------------------------------------------------------


def two_queues(*workers: tuple[str, str]) -> Snapshot:
    fleet = Fleet(
        tuple(Worker(f"i-{name}", BIG, array, MachineState.RUNNING, NOW, name=name) for name, array in workers), (), ()
    )
    policy = Policy(
        queues=(QueuePolicy("main.q", "execute"), QueuePolicy("x.q", "execute_1", default=False)),
        node_arrays=(
            NodeArrayPolicy("execute", "main.q", "@allhosts", BIG.name),
            NodeArrayPolicy("execute_1", "x.q", "@x.q", BIG.name),
        ),
        master="master",
    )
    return replace(snapshot(), fleet=fleet, policy=policy, overrides=Overrides())


def reported(
    reporter: QueueReporter, of: Plan, seen: Snapshot, caplog: pytest.LogCaptureFixture
) -> dict[str, list[str]]:
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="autoscaler.pass"):
        reporter.report(Observation(seen, Outputs(b""), {}), of)
    found: dict[str, list[str]] = {}
    for record in caplog.records:
        found.setdefault(vars(record)["queue"], []).append(f"{record.levelname} {record.getMessage()}")
    return found


def test_each_queue_has_its_own_sentence_and_nothing_of_others(caplog: pytest.LogCaptureFixture) -> None:
    seen = two_queues(("w1", "execute"), ("w2", "execute_1"))
    other = replace(waiting(2, first=20), ask=JobRequest("qw", queues=("x.q",)))
    of = plan(launch(1), disable("w2"), job_categories=(waiting(3), other), workers=(kept("w1"), kept("w2")))
    found = reported(QueueReporter(PassReporter(silent=True), {}), of, seen, caplog)
    assert found["main.q"][0] == "INFO pass 812: 3 jobs wait; launching 1 c5.4xlarge; keeping w1 (job 4411 runs)"
    assert found["x.q"][0] == "INFO pass 812: 2 jobs wait; disabling w2 (idle 11m > 10m)"
    assert "DEBUG   1 of at most 3 additional workers: w1; 0 jobs run; 3 have been able" in found["main.q"][2]
    assert not any("w2" in line for line in found["main.q"])


def test_a_queue_shows_no_reasons_of_another_that_launches_in_the_same_pass(caplog: pytest.LogCaptureFixture) -> None:
    notes = tuple(because(Code.BATCH_DELAY, node_array=array, delay_s=1.0) for array in ("execute", "execute_1:g"))
    verdicts = (
        BucketVerdict(
            BucketKey(BIG.name, zone="eu-1a"), False, because(Code.BUCKET_NOT_ALLOWED, type=BIG.name), "execute"
        ),
        BucketVerdict(
            BucketKey("x9"), False, because(Code.BUCKET_NOT_PREFERRED, type="x9", preferred=BIG.name), "execute_1"
        ),
        BucketVerdict(BucketKey(BIG.name), True, because(Code.BUCKET_CHOSEN), "execute_1"),
    )
    bought = replace(launch(1), node_array="execute_1")
    of = replace(plan(bought, notes=notes), buckets=verdicts)
    policy = two_queues().policy
    shown = {queue.name: plan_of(queue, of, two_queues()) for queue in policy.queues}
    assert {name: own.buckets for name, own in shown.items()} == {"main.q": (), "x.q": verdicts[1:]}
    assert {name: own.notes for name, own in shown.items()} == {"main.q": notes[:1], "x.q": notes[1:]}
    assert "not allowed" not in str(reported(QueueReporter(PassReporter(silent=True), {}), of, two_queues(), caplog))


def test_a_pass_without_news_of_a_queue_writes_nothing_there(caplog: pytest.LogCaptureFixture) -> None:
    seen = two_queues(("w1", "execute"), ("w2", "execute_1"))
    reporter = QueueReporter(PassReporter(silent=True), {})
    of = plan(job_categories=(waiting(3),), workers=(kept("w1"), kept("w2")))
    assert reported(reporter, of, seen, caplog).keys() == {"main.q", "x.q"}
    assert reported(reporter, replace(of, memory=replace(of.memory, passes=813)), seen, caplog) == {}
    assert reported(reporter, replace(of, actions=(disable("w2"),)), seen, caplog).keys() == {"x.q"}


def test_what_workers_may_be_and_which_hosts_stay_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    seen = two_queues(("w1", "execute"))
    instances = {name: (QueueInstance("main.q", name, 2, 0, 0),) for name in ("master", "w1")}
    hosts = tuple(ExecutionHost(name, instances=own) for name, own in instances.items())
    offers = tuple(Bucket(BucketKey(type_.name), type_) for type_ in (BIG, replace(BIG, name="x9", family="x")))
    seen = replace(
        seen,
        cluster=replace(seen.cluster, hosts=hosts),
        fleet=replace(seen.fleet, buckets=offers),
        policy=replace(seen.policy, node_arrays=(seen.policy.node_arrays[0], watched(seen.policy.node_arrays[1]))),
    )
    reporter, of = QueueReporter(PassReporter(silent=True), {}), plan(job_categories=())
    found = reported(reporter, of, seen, caplog)
    size = f"{BIG.vcpus} cores, {BIG.memory >> 30} GiB"
    assert f"DEBUG   workers may be {BIG.name} ({size}); hosts that stay: master (2 slots)" in found["main.q"]
    assert "DEBUG   no worker is launched; no other hosts" in found["x.q"]
    again = reported(reporter, of, seen, caplog)
    assert "may be" not in str(again)


def watched(array: NodeArrayPolicy) -> NodeArrayPolicy:
    return replace(array, limits=replace(array.limits, max_workers=0))


def test_verbose_shows_the_details_to_everybody_who_reads_the_log(caplog: pytest.LogCaptureFixture) -> None:
    of = plan(job_categories=(waiting(3),))
    found = reported(QueueReporter(PassReporter(silent=True), {"main.q": True}), of, two_queues(), caplog)
    assert [line.split()[0] for line in found["main.q"]] == ["INFO"] * len(found["main.q"])
    assert "DEBUG" in found["x.q"][1]
