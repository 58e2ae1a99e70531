"""What Cloud Pipeline's people read when the settings of a queue are wrong: in `sge configure` and in logs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from autoscaler.commands import _queue_process
from autoscaler.commands._queue_process import append_output
from autoscaler.commands.main import main
from autoscaler.engine.queue_register import QueueProcess, QueueRegister
from autoscaler.providers.cloud_pipeline.credential import Credential
from autoscaler.store.lock import Holder
from tests.clouds.cloud_pipeline.plane import CloudPipelinePlane, Process, started

PROFILE = {
    "CP_CAP_SGE_QUEUE_NAME": "main.q",
    "CP_CAP_AUTOSCALE": "true",
    "CP_CAP_AUTOSCALE_TASK": "SGEAutoscaling",
    "CP_CAP_AUTOSCALE_WORKERS_1": "not even looked at",
}
VERIFY = {
    "CP_CAP_AUTOSCALE_DRY_INIT": "true",
    "CP_CAP_AUTOSCALE_LOGGING_FORMAT": "%(message)s",
    "CP_CAP_AUTOSCALE_LOGGING_LEVEL_RUN": "ERROR",
    "CP_CAP_AUTOSCALE_LOGGING_LEVEL_FILE": "ERROR",
}
"""As the platform's tool sets them."""


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with started() as server:
        yield server


@pytest.fixture
def platform(process: Process) -> CloudPipelinePlane:
    return CloudPipelinePlane(process)


class Queue:
    """The process of a queue, in a master's container."""

    def __init__(
        self, plane: CloudPipelinePlane, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.plane, self.folder, self._patch, self._capsys = plane, folder, patch, capsys

    def served(self, given: Mapping[str, str]) -> tuple[int, str]:
        """Exit code and output."""
        state = {"CP_CAP_AUTOSCALE_WORKDIR": str(self.folder / "state"), "LOG_DIR": str(self.folder / "logs")}
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **self.plane.environment, **state}
        for name in os.environ:
            self._patch.delenv(name)
        for name, text in {**environ, **PROFILE, **given}.items():
            self._patch.setenv(name, text)
        code = main(["platform", "serve", "/common/script.py"])
        printed = self._capsys.readouterr()
        return code, printed.out + printed.err

    def verified(self, **given: str) -> tuple[int, str]:
        """As `sge configure` verifies."""
        answer = self.served({**VERIFY, **given})
        assert list(self.folder.iterdir()) == [], "a verification leaves nothing behind"
        return answer


@pytest.fixture
def queue(
    platform: CloudPipelinePlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Queue]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield Queue(platform, tmp_path, monkeypatch, capsys)
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        if handler not in before:
            handler.close()
    for handler in before:
        root.addHandler(handler)
    root.setLevel(level)


def test_valid_settings_are_said_to_be_valid(queue: Queue) -> None:
    assert queue.verified() == (0, "the settings of queue main.q are valid\n")


@pytest.mark.parametrize(
    ("given", "said"),
    (
        ({"CP_CAP_AUTOSCALE_WORKERS": "three"}, ("CP_CAP_AUTOSCALE_WORKERS = 'three'", "Most additional workers")),
        ({"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.lage"}, ("CP_CAP_AUTOSCALE_INSTANCE_TYPE = m5.lage", "m5.large?")),
        (
            {"CP_CAP_AUTOSCALE_HYBRID": "true", "CP_CAP_AUTOSCALE_HYBRID_FAMILY": "x9"},
            ("CP_CAP_AUTOSCALE_HYBRID_FAMILY = x9", "Instance family of hybrid workers"),
        ),
        (
            {"CP_CAP_AUTOSCALE_HYBRID": "true", "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE": "1"},
            ("CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE = 1", "the smallest, m5.large, has 2"),
        ),
        ({"API_TOKEN": ""}, ("API_TOKEN: Field required", "  API_TOKEN: Token for it.")),
        ({"CLOUD_REGION_ID": ""}, ("CLOUD_REGION_ID", "The platform's number of the workers' region.")),
        ({"API_TOKEN": "wrong"}, ("API_TOKEN",)),
        ({"CP_CAP_SGE_HOSTLIST_NAME": "main"}, ("CP_CAP_SGE_HOSTLIST_NAME = 'main'", "write '@main'")),
        ({"RUN_ID": "77"}, ("RUN_ID=77",)),
        ({"CP_CAP_AUTOSCALE_LOGDIR": "/etc/passwd"}, ("cannot write a log in /etc/passwd", "Directory for a log file")),
        ({"CP_CAP_AUTOSCALE_LOGDIR": "/dev/full"}, ("/dev/full is no directory",)),
        ({"CP_CAP_AUTOSCALE_LOGGING_FORMAT": "%(mesage"}, ("CP_CAP_AUTOSCALE_LOGGING_FORMAT = '%(mesage'",)),
        ({"CP_CAP_AUTOSCALE_LOGGING_FORMAT": "%(foo)s"}, ("CP_CAP_AUTOSCALE_LOGGING_FORMAT = '%(foo)s'",)),
        ({"CP_CAP_AUTOSCALE": "maybe"}, ("CP_CAP_AUTOSCALE = 'maybe'",)),
        ({"CP_CAP_AUTOSCALE_DRY_RUN": "perhaps"}, ("CP_CAP_AUTOSCALE_DRY_RUN = 'perhaps'",)),
        ({"CP_CAP_AUTOSCALE_VERBOSE": "much"}, ("CP_CAP_AUTOSCALE_VERBOSE = 'much'",)),
        ({"CP_CAP_AUTOSCALE_ENGINE": "our"}, ("CP_CAP_AUTOSCALE_ENGINE = 'our'",)),
    ),
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_each_error_is_printed_with_the_help_of_its_setting(
    queue: Queue, given: dict[str, str], said: tuple[str, ...]
) -> None:
    code, printed = queue.verified(**given)
    assert code == 1
    assert [words for words in said if words not in printed] == [], printed


def test_a_log_that_is_a_link_verifies_nothing(queue: Queue, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("logs")
    (folder / "autoscaler.sge.main.q.log").symlink_to(folder / "elsewhere")
    code, printed = queue.verified(CP_CAP_AUTOSCALE_LOGDIR=str(folder))
    assert code == 1
    assert "is a link, which is not followed" in printed


@pytest.mark.parametrize("level", ("WARN", "CRITICAL", "FATAL"))
def test_the_names_of_levels_that_the_platform_takes_are_valid(queue: Queue, level: str) -> None:
    names = ("LEVEL_FILE", "LEVEL_RUN", "LEVEL_CONSOLE")
    assert queue.verified(**{f"CP_CAP_AUTOSCALE_LOGGING_{name}": level for name in names})[0] == 0


@pytest.mark.parametrize("engine", ("Ours", " platform "))
def test_an_engine_is_read_as_the_shim_reads_it(queue: Queue, engine: str) -> None:
    assert queue.verified(CP_CAP_AUTOSCALE_ENGINE=engine)[0] == 0


def test_a_platform_that_does_not_answer_verifies_nothing(queue: Queue) -> None:
    code, printed = queue.verified(API="http://127.0.0.1:1/")
    assert code == 1
    assert "the platform does not answer" in printed


def test_names_of_the_platforms_tools_fail_no_verification(queue: Queue) -> None:
    tools = {"CP_CAP_SGE_UTILITY_LOGGING_LEVEL_RUN": "INFO", "CP_CAP_AUTOSCALE_DNS_HOSTS_RESOLVE_DELAY": "5"}
    assert queue.verified(**tools)[0] == 0


def test_a_name_that_is_no_setting_is_told_and_fails_no_verification(queue: Queue) -> None:
    code, said = queue.verified(CP_CAP_AUTOSCALE_WROKERS="4")
    assert code == 0
    assert "CP_CAP_AUTOSCALE_WROKERS in the environment is not a setting; did you mean" in said


def test_at_the_start_errors_are_in_the_log_of_the_queue_and_of_the_run(
    queue: Queue, platform: CloudPipelinePlane, tmp_path: Path
) -> None:
    code, printed = queue.served({"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.lage"})
    logged = (tmp_path / "logs" / "autoscaler.sge.main.q.log").read_text()
    in_run = platform.process.state["master"]["log"]
    assert code == 1
    for text in (printed, logged, "".join(line["logText"] for line in in_run)):
        assert "queue main.q is not served:" in text
        assert "did you mean m5.large?" in text
    assert {line["taskName"] for line in in_run} == {"SGEAutoscaling"}
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    (
        ("CP_CAP_AUTOSCALE_WORKERS", "three"),
        ("CP_CAP_AUTOSCALE_PRICE_TYPE", "cheap"),
        ("CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT", "soon"),
        ("CP_CAP_AUTOSCALE_LOGGING_LEVEL_RUN", "LOUD"),
    ),
)
def test_at_the_start_a_value_that_cannot_be_read_is_in_both_logs_and_printed_once(
    queue: Queue, platform: CloudPipelinePlane, tmp_path: Path, name: str, text: str
) -> None:
    code, printed = queue.served({name: text})
    logged = (tmp_path / "logs" / "autoscaler.sge.main.q.log").read_text()
    in_run = platform.process.state["master"]["log"]
    assert code == 1
    for shown in (printed, logged, "".join(line["logText"] for line in in_run)):
        assert shown.count(f"{name} = '{text}'") == 1, shown
    assert {line["taskName"] for line in in_run} == {"SGEAutoscaling"}


def test_wrong_settings_are_printed_once_where_no_log_can_be_opened(queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = str(tmp_path / "file" / "logs")
    code, printed = queue.served({"CP_CAP_AUTOSCALE_WORKERS": "three", "CP_CAP_AUTOSCALE_LOGDIR": folder})
    assert code == 1
    assert printed.count("CP_CAP_AUTOSCALE_WORKERS = 'three'") == 1


def test_a_process_that_waits_keeps_the_token_good_with_which_it_may_have_to_decide(
    queue: Queue, platform: CloudPipelinePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_queue_process, "RENEWED", 0.0)
    first = platform.environment["API_TOKEN"]
    own = _queue_process.OwnQueue({**platform.environment, **PROFILE, "LOG_DIR": str(queue.folder)})
    with own.log():
        own.renew()
        assert own.environ["API_TOKEN"] == first, "it is not due"
        monkeypatch.setattr(Credential, "due", True)
        own.renew()
        renewed = own.environ["API_TOKEN"]
    platform.process.control("expire")
    assert renewed != first
    assert renewed in platform.process.state["tokens"]


def test_output_that_is_emptied_for_the_next_process_has_no_zeros(tmp_path: Path) -> None:
    output = tmp_path / ".nohup.autoscaler.sge.main.q.log"
    with output.open("wb", buffering=0) as old:
        old.write(b"a long line of the old process\n")
        append_output((old.fileno(), 999_999))
        with output.open("wb", buffering=0) as new:
            new.write(b"new\n")
            append_output((new.fileno(),))
            old.write(b"the old one ends\n")
            new.write(b"new goes on\n")
    assert output.read_bytes() == b"new\nthe old one ends\nnew goes on\n"


def test_a_process_of_a_queue_appends_to_its_output_from_its_start(
    queue: Queue, platform: CloudPipelinePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(_queue_process, "append_output", lambda: begun.append("output"))
    monkeypatch.setattr(_queue_process.QueueServing, "_remaining", lambda _: "")
    serving = object.__new__(_queue_process.QueueServing)  # a whole one needs a cell of Grid Engine
    serving.own = _queue_process.OwnQueue({**platform.environment, **PROFILE, "LOG_DIR": str(queue.folder)})
    serving._stop = "SIGTERM"
    assert serving.run() == 0
    assert begun == ["output"]


def test_the_task_of_a_further_queue_has_its_name(queue: Queue, platform: CloudPipelinePlane) -> None:
    queue.served({"CP_CAP_SGE_QUEUE_NAME": "big.q", "CP_CAP_AUTOSCALE_TASK": "", "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "x"})
    assert {line["taskName"] for line in platform.process.state["master"]["log"]} == {"GridEngineAutoscaling-big"}


@pytest.mark.parametrize(
    ("who", "said"),
    (
        (7, "process 7 decides for this cell, and writes here what it does"),
        (8, "process 8 gives our workers back since `platform uninstall`, and writes into /var/log/x.log what it does"),
        (9, "process 9 has this cell, and is none that the platform started for a queue"),
    ),
)
def test_a_process_that_waits_says_who_has_the_cell_and_where_that_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: int, said: str
) -> None:
    monkeypatch.setattr(_queue_process, "running", lambda _: Holder(who, "master", 0.0))
    register = QueueRegister(tmp_path)
    register.note_drain(8, Path("/var/log/x.log"))
    monkeypatch.setattr(QueueRegister, "processes", lambda _: (QueueProcess("other.q", 7, 0.0, {}),))
    serving = object.__new__(_queue_process.QueueServing)  # a whole one needs a cell of Grid Engine
    serving.own, serving.register = SimpleNamespace(name="x.q", invocation=SimpleNamespace(cell=None)), register  # type: ignore[assignment]
    assert serving._who_decides().startswith(said)
