"""The Cloud Pipeline provider keeps the contract, against a server that accepts only what the API accepts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autoscaler.providers.contract import ProviderContract
from tests.clouds.cloud_pipeline.plane import CloudPipelinePlane, Process, started


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with started() as server:
        yield server


class TestCloudPipeline(ProviderContract):
    @pytest.fixture
    def plane(self, process: Process) -> Iterator[CloudPipelinePlane]:
        plane = CloudPipelinePlane(process)
        yield plane
        assert process.state["malformed"] == []
