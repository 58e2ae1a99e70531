"""Machines of played clouds are hosts, which take a moment to start; a listing in the meantime is still right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import RLock, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from tests.clouds.cloud_pipeline.platform import Run, usual_platform

MACHINE = SimpleNamespace(id="i-1", state="running", private_dns_name="ip-10-1-0-4.ec2.internal")


class SlowHosts:
    """One host. While it starts, another thread does something, as far as it gets."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile, self.living = meanwhile, False

    def start(self, *_: object) -> str:
        self.meanwhile()
        self.living = True
        return "10.1.0.4"

    def lives(self, _: str) -> bool:
        return self.living

    def end(self, _: str) -> None:
        self.living = False


def beside(act: Callable[[], object], begun: list[Thread]) -> Callable[[], None]:
    """Lets another thread do this, and waits for it only briefly."""

    def begin() -> None:
        begun.append(Thread(target=act))
        begun[-1].start()
        begun[-1].join(0.2)

    return begin


@pytest.mark.parametrize("what", ("listed", "ended"))
def test_an_aws_machine_whose_host_is_starting_is_not_ended_and_does_not_outlive_its_end(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    from tests.clouds.aws import machines as aws  # importing moto takes a second, in every worker of a run

    ended: list[str] = []
    begun: list[Thread] = []
    launching = SimpleNamespace(guard=RLock())
    layer: Any = SimpleNamespace(
        launching=launching,
        backend=lambda: SimpleNamespace(
            create_vpc=lambda _: SimpleNamespace(id="vpc"), create_subnet=lambda *_, **__: SimpleNamespace(id="subnet")
        ),
    )
    doing = {"listed": lambda: layer.on_look([MACHINE]), "ended": lambda: layer.on_ended(MACHINE)}
    hosts = SlowHosts(beside(doing[what], begun))
    monkeypatch.setattr(aws, "RealHosts", SimpleNamespace(of=lambda _: hosts))
    monkeypatch.setattr(aws, "serve_metadata", lambda _: None)
    monkeypatch.setattr(aws, "_end", lambda machine, *_: ended.append(machine.id))
    monkeypatch.setattr(aws, "script_of", lambda _: "#!/bin/sh")
    aws.rent_out_hosts(layer, Path("tree"))

    with launching.guard:  # as a launch holds it
        launching.on_launched(MACHINE, {"InstanceType": "c5.large"})
    begun[0].join(60)

    assert (ended, hosts.living) == ([], what == "listed")


def test_a_run_is_listed_only_once_its_host_has_started() -> None:
    platform, master = usual_platform()
    begun: list[Thread] = []
    listed: list[str] = []

    def running(run: Run) -> None:
        beside(
            lambda: listed.extend(str(platform.record(each).get("podIP")) for each in platform.listed()[:1]), begun
        )()
        run.address = "10.1.0.4"

    platform.on_running = running
    platform.launch(
        {"instanceType": "m5.large", "parentRunId": master.id, "params": {"parent-id": {"value": master.id}}}
    )
    begun[0].join(60)

    assert listed == ["10.1.0.4"]
