"""The whole loop against EC2's protocol, where every launch is accepted and every instance ends at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoscaler.report.sentence import sentence
from autoscaler.report.status import Now, status, status_pairs
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region
from tests.simulated.autoscaler import POLICY, TAG, World, start, step

C5 = replace(POLICY, node_arrays=(replace(POLICY.node_arrays[0], instance_type="c5.large"),))
WORDS = "Client.InternalError: Client error on launch"


def test_instances_that_end_at_once_are_launched_only_to_the_limit_and_their_cause_is_reported(
    region: Region, tmp_path: Path
) -> None:
    plane = AwsPlane(region)
    region.control("doom", code="Client.InternalError", message="Client error on launch")
    world = World(tmp_path / "store.sqlite", policy=C5)
    world.cluster.submit(1)
    loop = start(world, provider=plane.connect(TAG))
    sentences = [sentence(done.plan) for _ in range(16) if (done := step(world, loop)) is not None]
    limit = C5.node_arrays[0].unavailability_count_failure
    assert 0 < len(region.control("machines")) <= limit
    assert any(WORDS in each for each in sentences)
    shown = dict(status_pairs(status(loop.store, Now(world.clock.now, "default", "aws", serving=True, holder=None))))
    assert WORDS in shown["launches"]
