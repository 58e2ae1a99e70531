"""The values that scripts on a booted worker read: the same in a shell without Python as by our command."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler import worker_configuration
from autoscaler.engine.boot_script import WorkerBoot
from autoscaler.worker_configuration import answer, flat, order_key, read, stop_token
from tests.act.test_boot_script import BOOT, HOSTILE, SHELLS, Machine

ODD = f"a\\b\\n 100% \t{HOSTILE}\nnext \\\\ line\\"
CONFIGURATION = {
    "application_version": "1.2.3",
    "slurm": {"autoscale": True, "nodes": [1, 2], "note": None},
    "odd": ODD,
}
URL = "http://10.0.0.1:8650/autostop/0123abcd"
KEY = order_key(b"secret", "0123abcd")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def boot(tmp_path: Path) -> WorkerBoot:
    text = worker_configuration.write(flat(CONFIGURATION))
    return replace(BOOT, sge_root=str(tmp_path / "sge"), configuration=text, stop_url=URL, stop_key=KEY)


def booted(machine: Machine, boot: WorkerBoot) -> dict[str, str]:
    """The values in the file of a machine that booted with this script."""
    assert machine.boot(boot).returncode == 0
    return read((machine.root / "sge-autoscaler" / "worker.conf").read_text())


def jetpack(machine: Machine, *words: str, shell: str = "sh") -> tuple[int, str]:
    argv = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        [*argv, str(machine.root / "bin" / "jetpack"), *words], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("key", "value"),
    (
        ("application_version", "1.2.3"),
        ("slurm.autoscale", "true"),
        ("slurm.nodes", "[1, 2]"),
        ("slurm.note", ""),
        ("odd", ODD),
        ("cyclecloud.node.name", "w1"),
    ),
)
def test_a_shell_and_our_command_read_the_same_value(
    machine: Machine, boot: WorkerBoot, shell: str, key: str, value: str
) -> None:
    values = booted(machine, boot)
    assert (jetpack(machine, "config", key, shell=shell), values[key]) == ((0, f"{value}\n"), value)


@pytest.mark.parametrize("shell", SHELLS)
def test_without_a_key_a_shell_prints_every_value_without_escapes(
    machine: Machine, boot: WorkerBoot, shell: str
) -> None:
    values = booted(machine, boot)
    code, printed = jetpack(machine, "config", shell=shell)
    assert (code, sorted(printed.split("\n"))) == (
        0,
        sorted("".join(f"{key}\t{value}\n" for key, value in values.items()).split("\n")),
    )


def test_a_worker_makes_the_token_that_the_listener_expects(machine: Machine, boot: WorkerBoot) -> None:
    machine.fake("curl", 'case "$*" in *compute/name*) echo w-0abc ;; *) exit 22 ;; esac')
    values = booted(machine, replace(boot, provider="azure"))
    asked = values["cyclecloud.instance.id"], values["cyclecloud.cluster.autoscale.stop_callback"]
    assert asked == ("w-0abc", f"{URL}/{stop_token(KEY, 'w-0abc')}")


def of_tags(**known: str) -> str:
    """AWS's metadata, with these of the machine's own tags."""
    tags = "".join(f"*TOKEN*tags/instance/sge-autoscaler-{name}) echo '{value}' ;; " for name, value in known.items())
    return f'case "$*" in *api/token*) echo TOKEN ;; *TOKEN*instance-id) echo i-0abc ;; {tags} *) exit 22 ;; esac'


def test_a_worker_of_aws_makes_the_token_from_its_tags(machine: Machine, boot: WorkerBoot) -> None:
    """One boot script is used for all orders there: it has neither order, nor key, nor group."""
    shared = replace(boot, stop_url="http://10.0.0.1:8650/autostop", stop_key="")
    assert [text for text in (KEY, "0123abcd") if text in shared.script()] == []
    machine.fake("curl", of_tags(order="0123abcd", key=KEY, group="execute:2-1"))
    values = booted(machine, shared)
    assert values["cyclecloud.cluster.autoscale.stop_callback"] == f"{URL}/{stop_token(KEY, 'i-0abc')}"
    assert values["cyclecloud.node.group_id"] == "execute:2-1"


def test_a_worker_of_aws_without_such_tags_has_no_address_of_the_listener(machine: Machine, boot: WorkerBoot) -> None:
    machine.fake("curl", of_tags())
    values = booted(machine, replace(boot, stop_url="http://10.0.0.1:8650/autostop", stop_key=""))
    assert values["cyclecloud.instance.id"] == "i-0abc"
    assert "cyclecloud.cluster.autoscale.stop_callback" not in values
    assert "cyclecloud.node.group_id" not in values


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell != "busybox"])
def test_a_worker_that_its_image_enrols_writes_the_same_with_the_id_of_its_platform(
    machine: Machine, boot: WorkerBoot, shell: str
) -> None:
    script = machine.of_this_machine(replace(boot, provider="cloud_pipeline").configuration_script())
    assert machine.run(f"export RUN_ID=1002\n{script}", shell).returncode == 0
    values = read((machine.root / "sge-autoscaler" / "worker.conf").read_text())
    asked = values["cyclecloud.instance.id"], values["cyclecloud.cluster.autoscale.stop_callback"], values["odd"]
    assert asked == ("1002", f"{URL}/{stop_token(KEY, '1002')}", ODD)
    assert jetpack(machine, "config", "application_version", shell=shell) == (0, "1.2.3\n")


def test_a_machine_of_azure_reads_its_id_from_metadata(machine: Machine, boot: WorkerBoot) -> None:
    machine.fake("curl", 'case "$*" in *compute/name*) echo vm-7 ;; *) exit 22 ;; esac')
    assert booted(machine, replace(boot, provider="azure"))["cyclecloud.instance.id"] == "vm-7"


@pytest.mark.parametrize("metadata", ("exit 7", "echo '<html>$(touch x)</html>'", "true"))
def test_a_machine_without_an_id_in_metadata_uses_its_host_name(
    machine: Machine, boot: WorkerBoot, metadata: str
) -> None:
    machine.fake("curl", metadata)
    assert booted(machine, boot)["cyclecloud.instance.id"] == "w1"


def test_without_a_listener_there_is_no_callback_address(machine: Machine, boot: WorkerBoot) -> None:
    booted(machine, replace(boot, stop_url="", stop_key=""))
    absent = "cyclecloud.cluster.autoscale.stop_callback"
    assert (jetpack(machine, "config", absent), jetpack(machine, "config", absent, "none")) == ((1, ""), (0, "none\n"))


def test_every_user_may_read_the_configuration_which_has_no_key_of_the_order(
    machine: Machine, boot: WorkerBoot
) -> None:
    booted(machine, boot)
    file, program = machine.root / "sge-autoscaler" / "worker.conf", machine.root / "bin" / "jetpack"
    modes = file.stat().st_mode & 0o777, program.stat().st_mode & 0o777
    assert (*modes, KEY in file.read_text() + program.read_text()) == (0o644, 0o755, False)


def test_an_existing_jetpack_is_left_alone(machine: Machine, boot: WorkerBoot) -> None:
    machine.fake("jetpack")
    booted(machine, boot)
    assert not (machine.root / "bin" / "jetpack").exists()


def test_a_worker_joins_although_its_configuration_cannot_be_written(machine: Machine, boot: WorkerBoot) -> None:
    (machine.root / "sge-autoscaler").touch()
    ran = machine.boot(boot)
    assert (ran.returncode, "could not be written" in ran.stdout) == (0, True)


def test_a_configuration_does_not_override_the_values_of_the_autoscaler(machine: Machine, boot: WorkerBoot) -> None:
    claimed = worker_configuration.of_node_array({"cyclecloud": {"instance": {"id": "i-9"}, "mine": 1}}, cluster="c1")
    values = booted(machine, replace(boot, configuration=worker_configuration.write(claimed)))
    assert (values["cyclecloud.instance.id"], values["cyclecloud.mine"], values["cyclecloud.cluster.name"]) == (
        "w1",
        "1",
        "c1",
    )


def test_the_values_below_a_key_are_an_object() -> None:
    text = answer({"a.b": "1", "a.c.d": "2", "ab": "3"}, "a")
    assert json.loads(text or "") == {"b": "1", "c": {"d": "2"}}


def test_a_list_below_a_key_is_a_list() -> None:
    configuration = {"a": {"b": [1, {"c": "x"}], "text": "[no list", "version": "1.10"}}
    assert json.loads(answer(flat(configuration), "a") or "") == configuration["a"]


def test_an_unknown_key_has_no_answer() -> None:
    assert answer({"a.b": "1"}, "a.b.c") is None


def test_a_written_configuration_reads_back_the_same() -> None:
    values = {"a": ODD, "b\tc": "", "d": "\x00\x1f\x7f\r\u2028 é"}
    assert read(worker_configuration.write(values)) == values
