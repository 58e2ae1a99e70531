"""Durations with units, JSON of acting commands, exit codes for unknown subjects, and suggestions."""

from __future__ import annotations

import json
import os
import time

import pytest

from autoscaler.commands import doctor
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.core.actions import Launch, LaunchSet
from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.snapshot import Plan
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.durations import seconds_of
from autoscaler.errors import SettingsError
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.interface import LaunchOrder
from autoscaler.settings import load_settings
from autoscaler.sge.checks import Level
from autoscaler.store.lock import hold, lock_directory
from autoscaler.store.observations import LastObservation, SeenWorker
from autoscaler.store.overrides import AUTOSCALER, MAY_COME, Verb
from autoscaler.store.store import Store
from tests.commands.test_commands import environ, worker_store
from tests.deadlines import replace_sleep

__all__ = ("environ", "worker_store")


@pytest.mark.parametrize(
    ("text", "seconds"),
    (
        ("90", 90.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        (" 7D ", 604_800.0),
        ("2w", 1_209_600.0),
    ),
)
def test_a_duration_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ("", "m", "10 m", "-5", "10x", "1h30", "nan", "1e3", "ten"))
def test_an_invalid_duration_reads_as_none(text: str) -> None:
    assert seconds_of(text) is None


def test_settings_take_durations_with_units_and_plain_seconds() -> None:
    settings = load_settings(
        {
            "CP_CAP_AUTOSCALE_POLLING_DELAY": "1m",
            "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "1h30m",
            "CP_CAP_AUTOSCALE_IDLE_TIMEOUT_1": "45",
            "CP_CAP_SGE_QUEUE_NAME_1": "second.q",
            "CP_CAP_SGE_HOSTLIST_NAME_1": "@second",
            "CP_CAP_AUTOSCALE_LEASE": "2d",
        }
    )
    queues = settings.queues
    assert (settings.process.polling_delay, settings.process.lease) == (60.0, 172_800.0)
    assert (queues[""].idle_timeout, queues["1"].idle_timeout) == (5400.0, 45.0)


@pytest.mark.parametrize("text", ("-5", "soon", "10x"))
def test_an_invalid_duration_in_a_setting_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_POLLING_DELAY"):
        load_settings({"CP_CAP_AUTOSCALE_POLLING_DELAY": text})


@pytest.mark.usefixtures("worker_store")
@pytest.mark.parametrize(
    ("words", "done"),
    (
        (["resume"], False),
        (["pause"], True),
        (["retry"], False),
        (["keep", "fake-1"], True),
        (["keep", "--undo", "fake-1"], False),
        (["drain", "fake-1"], True),
        (["drain", "--undo", "fake-1"], False),
        (["stop", "--now", "--no-wait"], True),
        (["serve", "token", "create", "ci", "--role", "reader"], True),
    ),
    ids=lambda words: " ".join(words) if isinstance(words, list) else None,
)
def test_acting_commands_report_in_json_whether_they_acted(
    words: list[str], done: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["schema"], printed["done"], bool(printed["message"])) == (1, done, True)


@pytest.mark.usefixtures("worker_store")
def test_tokens_and_calls_are_listed_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["serve", "token", "create", "ci", "--role", "reader"])
    capsys.readouterr()
    main(["serve", "token", "list", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["tokens"]
    assert (row["name"], row["role"], row["expired"]) == ("ci", "reader", False)
    main(["serve", "calls", "--json"])
    assert json.loads(capsys.readouterr().out)["calls"] == []


@pytest.mark.usefixtures("worker_store")
def test_ending_an_unknown_request_set_exits_with_3_and_names_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["autoscale", "--name", "execute", "--count", "1", "--request-set", "nightly"])
    capsys.readouterr()
    assert (main(["requests", "--end", "nightl"]), main(["requests", "--end", "other"])) == (3, 3)
    printed = capsys.readouterr().err
    assert "request set nightl does not exist; did you mean nightly?" in printed
    assert "request set other does not exist; there are: nightly" in printed
    assert main(["requests", "--end", "nightly", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["request_set"] == "nightly"


@pytest.mark.usefixtures("environ")
def test_a_mistyped_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["expalin", "12"]) == 2
    assert "No such command 'expalin'. Did you mean 'explain'?" in capsys.readouterr().err
    assert main(["xyzzy"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


def test_a_mistyped_worker_gets_a_suggestion(worker_store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keep", "fkae-1"]) == 3
    assert "has no worker fkae-1; did you mean fake-1? Its workers: fake-1" in capsys.readouterr().err


def test_doctor_and_status_name_workers_that_cost_and_on_which_only_a_person_decides(
    environ: dict[str, str], worker_store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = InstanceType("m5.large", "m5", 2, 8 << 30)
    why = (None, Condition.DISABLED_BY_HAND, Condition.UNKNOWN_ARRAY)
    seen = [
        SeenWorker(
            Worker(f"i-{n}", kind, "execute", MachineState.RUNNING, 1.0, f"w{n}"), Phase.READY, f"w{n}", decisive=each
        )
        for n, each in enumerate(why)
    ]
    worker_store.observations.keep(LastObservation(workers=tuple(seen)), 1.0)
    found = doctor.set_aside_findings(Invocation(environ))
    main(["status"])
    screen = " ".join(capsys.readouterr().out.split())
    assert [(each.found, each.level) for each in found] == [
        ("w1: disabled by hand", Level.WARN),
        ("w2: node array unknown", Level.WARN),
    ]
    assert ("set aside w1: disabled by hand; `qmod -e" in screen, "set aside w2: node array" in screen) == (True, True)


@pytest.mark.usefixtures("worker_store")
@pytest.mark.parametrize("words", (["keep", ""], ["keep", " "], ["drain", ""], ["keep", "--undo", ""]))
def test_an_empty_host_is_refused_with_a_hint(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "'HOST': it is empty; `sge-autoscaler workers` lists the workers" in capsys.readouterr().err


def test_a_stop_that_names_what_may_still_come_ends_with_exit_code_6(
    environ: dict[str, str], worker_store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason, now = because(Code.DEMAND), time.time()
    bucket = next(each for each in load_catalog().buckets() if each.type.name == "m5.large")
    worker_store.accept(Plan((Launch("execute", (LaunchSet((bucket,), 1),), reason),), Memory()), pass_number=1, at=now)
    (record,) = worker_store.journal.orders(0)
    asked = LaunchOrder(f"{record.id}-0", record.id, "tag", "execute", (bucket,), 1, "")
    worker_store.journal.send(asked, 0, now)
    worker_store.journal.answer(asked.token, ids=["i-9"], failures=(), message="", at=now)
    ended = f"{AUTOSCALER}: done{MAY_COME}m5.large i-9"
    rounds = iter((lambda: None, lambda: worker_store.overrides.end(Verb.STOP_NOW, who=ended, at=now)))
    replace_sleep(monkeypatch, "autoscaler.commands.stop", lambda _: next(rounds)())
    with hold(Invocation(environ).cell, lock_directory(), state=str(Invocation(environ).state_directory)):
        assert main(["stop", "--now"]) == 6
    printed = capsys.readouterr().out
    assert printed.count("waiting for m5.large i-9: ordered, and in no listing yet") == 1
    assert "m5.large i-9 may still come, and costs money then" in printed
    assert "all workers have been removed" not in printed


def test_a_waiting_stop_names_the_workers_that_a_person_disabled(
    environ: dict[str, str], worker_store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = InstanceType("m5.large", "m5", 2, 8 << 30)
    seen = [
        SeenWorker(
            Worker(f"i-{n}", kind, "execute", MachineState.RUNNING, 1.0, f"w{n}"),
            Phase.READY,
            f"w{n}",
            decisive=Condition.DISABLED_BY_HAND if n else None,
        )
        for n in range(6)
    ]
    worker_store.observations.keep(LastObservation(workers=tuple(seen)), 1.0)
    rounds = iter((lambda: None, lambda: worker_store.overrides.end(Verb.STOP_NOW, who="autoscaler", at=1.0)))
    replace_sleep(monkeypatch, "autoscaler.commands.stop", lambda _: next(rounds)())
    with hold(Invocation(environ).cell, lock_directory(), state=str(Invocation(environ).state_directory)):
        assert main(["stop", "--now"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("waiting for a person to decide on w1, w2, w3 and 2 more (disabled by hand): `qmod -e") == 1


def test_without_a_umask_no_file_is_made_that_everybody_may_write(capsys: pytest.CaptureFixture[str]) -> None:
    before = os.umask(0)
    try:
        main(["--version"])
        assert os.umask(0o077) == 0o022
        main(["--version"])
        assert os.umask(0o077) == 0o077, "a stricter one stays"
    finally:
        os.umask(before)
    assert "version" in capsys.readouterr().out
