"""Which runs are in use, as the platform's people see it by a tag; and what a container has of a node's memory."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.model.cluster import Cluster, ExecutionHost, HostJob, QueueInstance
from autoscaler.core.model.fleet import Fleet, MachineState, Worker
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.in_use import InUse
from autoscaler.providers.cloud_pipeline.provider import CloudPipelineProvider
from autoscaler.providers.cloud_pipeline.reservations import GIB, left_of, read_reservations
from autoscaler.providers.interface import Machine, Refused, Unreachable
from tests.clouds.cloud_pipeline.plane import CloudPipelinePlane, Process, started
from tests.report.plans import BIG, NOW, snapshot

TIMEOUT = 30.0


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with started() as server:
        yield server


@pytest.fixture
def platform(process: Process) -> Iterator[CloudPipelinePlane]:
    plane = CloudPipelinePlane(process)
    yield plane
    assert process.state["malformed"] == []


def at_once(call: Callable[[], None], _: str) -> Future[None]:
    done: Future[None] = Future()
    call()
    done.set_result(None)
    return done


def host(name: str, *, busy: bool) -> ExecutionHost:
    jobs = (HostJob(7, "", "r", 1),) if busy else ()
    return ExecutionHost(name, instances=(QueueInstance("main.q", name, 2, len(jobs), 0, jobs=jobs),))


def seen(*hosts: ExecutionHost, at: float = 0.0, worker: str = "") -> Snapshot:
    workers = (Worker(worker, BIG, "execute", MachineState.RUNNING, NOW, name="w1"),) if worker else ()
    return replace(snapshot(), cluster=Cluster(hosts, (), {}, {}, {}), fleet=Fleet(workers, ()), now=NOW + at)


def tags(plane: CloudPipelinePlane, run: str) -> dict[str, str]:
    found: dict[str, str] = plane.process.state["tags"][run]
    return found


def test_master_static_and_additional_runs_are_tagged_while_jobs_run_and_a_while_longer(
    platform: CloudPipelinePlane,
) -> None:
    provider = platform.connect("cell")
    static, master = str(platform.process.control("static")), platform.environment["RUN_ID"]
    provider.mark({"mine": "kept"})
    use = InUse(provider, TIMEOUT, at_once)
    busy = [host(name, busy=True) for name in ("master", f"pipeline-{static}")]
    idle = [host(name, busy=False) for name in ("master", f"pipeline-{static}")]
    use.note(seen(*busy))
    assert [tags(platform, run).get("SGE_IN_USE") for run in (master, static)] == ["true", "true"]
    use.note(seen(*idle, at=29))
    assert tags(platform, static)["SGE_IN_USE"] == "true"
    provider.mark({"by": "a person meanwhile"})
    use.note(seen(*idle, at=31))
    assert "SGE_IN_USE" not in tags(platform, static)
    assert tags(platform, master) == {"project": "genomes", "mine": "kept", "by": "a person meanwhile"}


def test_after_a_stop_only_runs_where_jobs_run_keep_the_tag(platform: CloudPipelinePlane) -> None:
    static, master = str(platform.process.control("static")), platform.environment["RUN_ID"]
    use = InUse(platform.connect("cell"), TIMEOUT, at_once)
    use.note(seen(host("master", busy=True), host(f"pipeline-{static}", busy=True)))
    use.note(seen(host("master", busy=False), host(f"pipeline-{static}", busy=True), at=1))
    use.released()
    assert ["SGE_IN_USE" in tags(platform, run) for run in (master, static)] == [False, True]


def test_a_worker_that_leaves_keeps_no_tag_and_the_log_says_so(
    platform: CloudPipelinePlane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "autoscaler.engine.in_use")
    run = str(platform.process.control("static"))
    use = InUse(platform.connect("cell"), TIMEOUT, at_once)
    use.note(seen(host("w1", busy=True), worker=run))
    assert tags(platform, run)["SGE_IN_USE"] == "true"
    use.note(seen(at=1))
    assert "SGE_IN_USE" not in tags(platform, run)
    assert [record.message for record in caplog.records] == [
        "the run of w1 is tagged as in use",
        "the run of w1 is in use no longer: its tag is gone",
    ]
    assert {vars(record)["queue"] for record in caplog.records} == {"main.q"}, "in the log of its queue alone"


def test_another_tag_that_is_set_at_the_same_time_is_not_lost(platform: CloudPipelinePlane) -> None:
    provider, master = platform.connect("cell"), platform.environment["RUN_ID"]
    provider.api.get = lambda *_, **__: pytest.fail("it needs no reading, after which others could write")  # type: ignore[method-assign]
    provider.show_use(Machine("master", None, is_master=True), in_use=True)
    assert tags(platform, master) == {"project": "genomes", "SGE_IN_USE": "true"}


def test_a_tag_that_somebody_sets_while_ours_is_taken_away_is_not_lost(
    platform: CloudPipelinePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two of our calls somebody else may write."""
    provider, master = platform.connect("cell"), platform.environment["RUN_ID"]
    provider.show_use(Machine("master", None, is_master=True), in_use=True)
    call, others = provider.api._call, iter(range(100))

    def with_somebody_else(*args: Any, **options: Any) -> Any:
        answer = call(*args, **options)
        platform.process.control("tag", id=int(master), tags={f"by-{next(others)}": "somebody"})
        return answer

    monkeypatch.setattr(provider.api, "_call", with_somebody_else)
    provider.show_use(Machine("master", None, is_master=True), in_use=False)
    made = {f"by-{number}": "somebody" for number in range(next(others))}
    assert made
    assert tags(platform, master) == {"project": "genomes", **made}


def test_a_tag_that_somebody_sets_while_the_cell_is_marked_is_not_lost(
    platform: CloudPipelinePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, master = platform.connect("cell"), platform.environment["RUN_ID"]
    get = provider.api.get

    def then_somebody_else(*args: Any, **options: Any) -> Any:
        answer = get(*args, **options)
        platform.process.control("tag", id=int(master), tags={"by": "somebody"})
        return answer

    monkeypatch.setattr(provider.api, "get", then_somebody_else)
    provider.mark({"sge-autoscaler-cell": "cell"})
    assert tags(platform, master) == {"project": "genomes", "by": "somebody", "sge-autoscaler-cell": "cell"}


def test_a_server_that_keeps_a_tag_without_a_value_gets_all_tags_without_it(platform: CloudPipelinePlane) -> None:
    provider, master = platform.connect("cell"), platform.environment["RUN_ID"]
    platform.process.control("set", keeps_null=True)
    for in_use in (True, False):
        provider.show_use(Machine("master", None, is_master=True), in_use=in_use)
    assert tags(platform, master) == {"project": "genomes"}


def test_a_new_process_takes_away_what_an_earlier_one_left(platform: CloudPipelinePlane) -> None:
    provider, master = platform.connect("cell"), platform.environment["RUN_ID"]
    InUse(provider, TIMEOUT, at_once).note(seen(host("master", busy=True)))
    InUse(provider, TIMEOUT, at_once).note(seen(host("master", busy=False), at=5))
    assert tags(platform, master) == {"project": "genomes"}


def test_nothing_is_asked_again_while_nothing_changes(platform: CloudPipelinePlane) -> None:
    use = InUse(platform.connect("cell"), TIMEOUT, at_once)
    use.note(seen(host("master", busy=True)))
    before = len(platform.process.state["calls"])
    for second in range(1, 20):
        use.note(seen(host("master", busy=True), at=second))
    assert len(platform.process.state["calls"]) == before


def test_a_platform_that_does_not_answer_is_asked_again_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    class Silent:
        asked = 0

        def show_use(self, machine: Machine, *, in_use: bool) -> None:
            self.asked += 1
            if self.asked < 3:
                raise Unreachable("no answer")

    silent = Silent()
    use = InUse(silent, TIMEOUT, at_once)
    for second in range(5):
        use.note(seen(host("master", busy=True), at=second))
    assert silent.asked == 3
    assert [record.message for record in caplog.records] == [
        "the platform does not show which runs are in use: no answer"
    ]


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gib", "left"),
    ((4, 3), (8, 7), (16, 14), (32, 28), (61, 55), (256, 241), (1, 0)),
    # 32 GiB: 820 MiB for Kubernetes, 820 for the system, 1639 for the rest; 28.79 GiB are left.
)
def test_what_is_left_of_a_node_is_what_the_platform_leaves(gib: int, left: int) -> None:
    assert left_of(gib * GIB, read_reservations(lambda _: None)) == left * GIB


def test_the_platforms_preferences_replace_its_defaults() -> None:
    given = {"cluster.node.extra.mem.ratio": "0.5", "cluster.node.extra.mem.max.mib": "2048"}
    kube, _, extra = read_reservations(given.get)
    assert (extra.ratio, extra.most, kube.most) == (0.5, 2048.0, 1024.0)
    assert math.isinf(read_reservations(lambda _: None)[2].most)


def test_types_are_smaller_only_where_the_run_says_so(platform: CloudPipelinePlane) -> None:
    def memory(provider: CloudPipelineProvider) -> int:
        return next(each.type.memory for each in provider.buckets() if each.type.name == "m5.2xlarge")

    assert memory(platform.connect("cell")) == 32 * GIB
    assert memory(platform.connect("cell", CP_CAP_AUTOSCALE_NODE_MEM_RESERVATIONS="true")) == 28 * GIB


# -- workers of the platform's own autoscaler ------------------------------------------------------------------------


def theirs(plane: CloudPipelinePlane, queue: str = "main.q", **more: str) -> str:
    """A run with the marks of an additional worker, and none of ours."""
    given = {"CP_CAP_SGE_QUEUE_NAME": queue, "cluster_role": "worker", "cluster_role_type": "additional", **more}
    run = int(plane.process.control("static"))
    asked = {"instanceType": "m5.large", "parentRunId": int(plane.environment["RUN_ID"])}
    parameters = {name: {"value": text, "type": "string", "required": False} for name, text in given.items()}
    plane.process.control("run", id=run, asked={**asked, "params": parameters})
    return str(run)


TAKES = {"CP_CAP_AUTOSCALE_CLOUD_PIPELINE_TAKE_OVER": "main.q=execute"}


def test_they_are_taken_over_where_the_platforms_launcher_starts_us(
    platform: CloudPipelinePlane, caplog: pytest.LogCaptureFixture
) -> None:
    run = theirs(platform)
    others = [
        theirs(platform, "other.q"),
        theirs(platform, SGE_AUTOSCALER_CELL="somebody"),
        theirs(platform, cluster_role="x"),
    ]
    provider = platform.connect("cell", **TAKES)
    with caplog.at_level("INFO"):
        found = [(one.id, one.node_array, one.taken_over) for one in (*provider.workers(), *provider.workers())]
    assert found == [(run, "execute", True)] * 2
    said = [record.message for record in caplog.records if "own autoscaler" in record.message]
    assert said == [f"run {run} (pipeline-{run}) of the platform's own autoscaler is a worker of execute from now on"]
    provider.terminate([run])
    assert run not in platform.billable()
    assert set(others) <= set(platform.billable())


def test_elsewhere_they_are_left_alone_and_reported(platform: CloudPipelinePlane) -> None:
    run = theirs(platform)
    provider = platform.connect("cell")
    assert provider.workers() == ()
    assert provider.handed_back() == {run}
    (problem,) = provider.check()
    assert not problem.fatal
    assert f"left alone: runs {run} of main.q" in problem.what
    assert list(platform.connect("cell", **TAKES).check()) == []
    with pytest.raises(Refused):
        provider.terminate([run])


def test_those_of_a_queue_whose_process_is_away_are_not_handed_back(platform: CloudPipelinePlane) -> None:
    theirs(platform, "other.q")
    provider = platform.connect("cell", **TAKES)
    assert (provider.workers(), provider.handed_back()) == ((), frozenset())


def test_a_worker_that_only_a_file_of_the_platforms_autoscaler_names_is_reported_and_left_alone(
    platform: CloudPipelinePlane, tmp_path: Path
) -> None:
    marked, plain, ended = (
        theirs(platform),
        str(platform.process.control("static")),
        str(platform.process.control("static")),
    )
    platform.process.control("end", id=int(ended), status="STOPPED")
    lines = "".join(f"pipeline-{run}|11/27/2026 10:00:00\n" for run in (marked, plain, ended, "99999"))
    (tmp_path / ".autoscaler.main.q.storage").write_text(lines + "no host\n|\n")
    (tmp_path / ".autoscaler.main.q.static.storage").write_text(f"pipeline-{platform.process.control('static')}|x\n")
    os.mkfifo(tmp_path / ".autoscaler.x.q.storage")

    def written() -> dict[Path, tuple[int, int]]:
        return {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in tmp_path.iterdir()}

    before = written()
    platform.launcher = {"TMP_DIR": str(tmp_path)}
    (problem,) = platform.connect("cell", **TAKES).check()
    assert not problem.fatal
    assert problem.what.startswith(f"run {plain} is in {tmp_path}/.autoscaler.main.q.storage")
    assert written() == before, "the files are only read"
    assert plain in platform.billable()
