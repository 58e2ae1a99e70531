"""Our CycleCloud client as a process on a cell's master, where the server listens: `rent` a worker and wait until it
runs, or `end ID`. The settings come from the environment. Prints JSON: by id, state and host of all its workers.
"""

from __future__ import annotations

import json
import os
import sys
import time

from autoscaler.core.model.fleet import MachineState
from autoscaler.providers.cyclecloud.provider import CycleCloudProvider
from autoscaler.providers.cyclecloud.settings import CycleCloudSettings
from autoscaler.providers.interface import LaunchOrder
from autoscaler.providers.settings import read_settings


def main(verb: str, *ids: str) -> object:
    client = CycleCloudProvider(read_settings(CycleCloudSettings, os.environ), cell="their-cell")
    if verb == "rent":
        (bucket,) = client.buckets()
        client.launch(LaunchOrder("token-0", "order", client.cell, bucket.key.node_array, (bucket,), 1, "#!/bin/sh"))
        while [worker.state for worker in client.workers()] != [MachineState.RUNNING]:
            time.sleep(0.2)
    else:
        client.terminate(ids)
    return {worker.id: [worker.state.value, worker.name] for worker in client.workers()}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
