"""Cloud Pipeline: workers are runs whose parent is the master run, in which the autoscaler itself works.

The platform rents the machine, starts the image, and the image enrols the worker in Grid Engine, disabled; the boot
script of an order only writes the worker configuration. The platform serves several clouds: this is how machines of GCP
are rented.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from autoscaler.core.model.fleet import Bucket, PriceType, Worker
from autoscaler.providers.cloud_pipeline.api import (
    BURST,
    RATE,
    Api,
    NotKnown,
    as_record,
    date_text,
    defaults,
    preference,
    run_path,
)
from autoscaler.providers.cloud_pipeline.catalogue import Catalogue
from autoscaler.providers.cloud_pipeline.credential import Credential
from autoscaler.providers.cloud_pipeline.in_use import run_of_host, show_use
from autoscaler.providers.cloud_pipeline.listing import Listing
from autoscaler.providers.cloud_pipeline.orders import LANES, Orders
from autoscaler.providers.cloud_pipeline.parameters import inheritance
from autoscaler.providers.cloud_pipeline.runs import Run, parameters_of
from autoscaler.providers.cloud_pipeline.settings import CloudPipelineSettings
from autoscaler.providers.cloud_pipeline.stored_hosts import stored_runs
from autoscaler.providers.ending import each, raise_errors
from autoscaler.providers.interface import (
    CallBudget,
    Launched,
    LaunchOrder,
    Machine,
    NotAuthenticated,
    Problem,
    ProviderError,
    Refused,
    Unreachable,
)
from autoscaler.providers.rate_limiter import RateLimiter, rate_limiter_of
from autoscaler.providers.rest import Deadline, Limits, Rest, reading

KEEP_INHERITED = 600.0
"""Seconds after which the master run's parameters are read again."""
LOG_LINE = 4000
"""Characters of a line that are written into the run's log."""


class NotOurs(Refused):
    """A run of somebody else."""


class CloudPipelineProvider:
    """Launches worker runs of one master run. Safe to be called by several threads."""

    name: ClassVar[str] = "cloud_pipeline"
    enrols_itself: ClassVar[bool] = True
    Settings: ClassVar[type[CloudPipelineSettings]] = CloudPipelineSettings

    def __init__(
        self,
        settings: CloudPipelineSettings,
        *,
        cell: str,
        rate_limiter: RateLimiter | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`environment`: the launcher's, whose values workers inherit by names that only the platform knows."""
        self.settings, self.cell, self._environment = settings, cell, environment
        self.api = api_of(settings, rate_limiter)
        self.catalogue = Catalogue(self.api, settings)
        self.listing = Listing(self.api, settings, cell, self.catalogue)
        self.orders = Orders(self.api, settings, self._inherited)
        self._guard = threading.Lock()
        self._passed_on: dict[str, str] = {}
        self._passed_on_until = float("-inf")

    @staticmethod
    def defaults(settings: CloudPipelineSettings) -> Mapping[str, str]:
        """The platform's defaults for settings that nobody set, by environment name."""
        return defaults(api_of(settings))

    def buckets(self) -> Sequence[Bucket]:
        with reading("the list of allowed instance types"):
            return self.catalogue.buckets()

    def workers(self) -> Sequence[Worker]:
        return self.listing.workers()

    def launch(self, order: LaunchOrder) -> Launched:
        if order.cell != self.cell:
            raise Refused(f"the order is for {order.cell}, not for {self.cell}")
        return self.orders.launch(order)

    def terminate(self, ids: Sequence[str]) -> None:
        """Stop these runs. All are checked first: if one is not ours, none is stopped."""
        found, unknown = each(ids, self._ours, LANES)
        theirs = [error for error in unknown.values() if isinstance(error, NotOurs)]
        if theirs:
            raise theirs[0]
        runs = {run.id: run for run in found.values() if run is not None and not run.is_final}
        _, failed = each(runs, lambda run_id: self._stop(runs[run_id]), LANES)
        raise_errors({**unknown, **failed})

    def handed_back(self) -> frozenset[str]:
        """Once none is taken over, workers of the platform's own autoscaler are its own again. While some queues' are,
        those of another may only wait for the process of their queue.
        """
        return frozenset() if self.settings.take_over else self.listing.foreign

    def call_budget(self) -> CallBudget:
        return self.api.rest.rate_limiter.budget()

    def troubles(self) -> Mapping[str, str]:
        return {**self.listing.advice.troubles(), **self.api.rest.rate_limiter.troubles()}

    def check(self) -> Sequence[Problem]:
        found = problems(self.settings, self.api, self.catalogue)
        return found if any(problem.fatal for problem in found) else [*found, *self._of_platform()]

    def _of_platform(self) -> Iterator[Problem]:
        """Workers that the platform's own autoscaler launched: what becomes of them."""
        taken, theirs = self.settings.arrays_taken_over, self.listing.of_platform()
        left = [run for run in theirs if run.parameters.get("CP_CAP_SGE_QUEUE_NAME") not in taken]
        if left:
            names = ", ".join(f"{run.id} of {run.parameters.get('CP_CAP_SGE_QUEUE_NAME', '?')}" for run in left)
            yield Problem(
                f"additional workers of the platform's own autoscaler are there and left alone: runs {names}",
                "where the platform's launcher starts us (`sge-autoscaler platform install`), the process of their "
                "queue takes them over; else stop them by `pipe stop`",
                fatal=False,
            )
        known = {run.id for run in theirs}
        for run_id, file in stored_runs(self._environment):
            run = None if run_id in known else self.listing.load(run_id)
            if run is not None and not run.is_final and run.cell is None and run.parent == self.settings.run_id:
                yield Problem(
                    f"run {run_id} is in {file}, so the platform's own autoscaler launched it; but its parameters do "
                    "not say that it is an additional worker, so it is left alone",
                    "stop it by `pipe stop` once its jobs have ended",
                    fatal=False,
                )

    def console(self, worker_id: str) -> str:
        """The output of the worker's set-up, and why its run is in its state; '' for one that is not ours."""
        run = self.listing.load(worker_id)
        if run is None or not self._is_ours(run):
            return ""
        lines = [str(item.get("logText") or "") for item in self.listing.set_up_log(worker_id)]
        return "\n".join(line.rstrip() for line in (*lines, f"run {run.id}: {run.status} {run.reason}") if line.strip())

    def tell(self, line: str) -> None:
        """Append to the master run's log."""
        body = {
            "runId": self.settings.run_id,
            "date": date_text(time.time()),
            "status": "RUNNING",
            "logText": line[:LOG_LINE],
            "taskName": self.settings.log_task,
        }
        self.api.post(run_path(self.settings.run_id, "log"), body, repeat=False)

    def mark(self, tags: Mapping[str, str]) -> None:
        """Set tags of the master run where they differ. The platform merges them into those that are there by then."""
        with self._guard:
            own = run_path(self.settings.run_id)
            before = as_record(as_record(self.api.get(own), own).get("tags") or {}, f"the tags of {own}")
            if any(before.get(name) != value for name, value in tags.items()):
                path = run_path(self.settings.run_id, "tag")
                self.api.post(path, {"tags": dict(tags)}, params={"overwrite": "false"}, repeat=True)

    @property
    def host_list(self) -> Path | None:
        return self.settings.host_list

    def credentials(self) -> Mapping[str, str]:
        self.api.renew_early()
        return {"API_TOKEN": self.api.credential.token}

    def show_use(self, machine: Machine, *, in_use: bool) -> None:
        run_id = str(self.settings.run_id) if machine.is_master else machine.worker_id or run_of_host(machine.name)
        if run_id:
            with self._guard:
                show_use(self.api, run_id, in_use=in_use)

    def _ours(self, run_id: str) -> Run | None:
        """The run as it is now; None if there is none (any more). Raises NotOurs."""
        run = self.listing.load(run_id)
        if run is not None and not self._is_ours(run):
            raise NotOurs(f"run {run_id} was not launched by {self.cell}: left alone")
        return run

    def _is_ours(self, run: Run) -> bool:
        """Another master run may have the same tag: in a committed image, in a copy of Grid Engine's files."""
        return run.cell == self.cell and run.parent == self.settings.run_id

    def _stop(self, run: Run) -> None:
        """A paused run is ended by a call of its own. The platform takes a plain stop of it as well, and leaves its
        machine and disk, paid for, without a run.
        """
        if run.status in ("PAUSING", "RESUMING"):
            raise Unreachable(f"run {run.id} is {run.status}: the autoscaler ends it once that is over")
        with contextlib.suppress(NotKnown):
            if run.status == "PAUSED":
                self.api.post(run_path(run.id, "terminate"), repeat=True)
            else:
                body = {"status": "STOPPED", "endDate": date_text(time.time())}
                self.api.post(run_path(run.id, "status"), body, repeat=True)

    def _inherited(self) -> Mapping[str, str]:
        """The master run's parameters for workers, as this process has them; those of its record are read again after
        a while.
        """
        with self._guard:
            if time.monotonic() >= self._passed_on_until:
                deadline, own = Deadline(10.0), run_path(self.settings.run_id)
                master = as_record(self.api.get(own, deadline=deadline), own)
                marked = preference(self.api, "launch.system.parameters", deadline)
                self._passed_on = inheritance(self.settings, marked).taken(parameters_of(master), self._environment)
                self._passed_on_until = time.monotonic() + KEEP_INHERITED
            return self._passed_on


def api_of(settings: CloudPipelineSettings, rate_limiter: RateLimiter | None = None) -> Api:
    """The platform's API, by these settings."""
    credential = Credential(settings.token.get_secret_value(), settings.token_duration)
    rest = Rest(
        settings.api,
        auth=credential,
        verify=settings.certificates or settings.verify,
        limits=Limits(connect=5.0, read=15.0, total=20.0),
        hidden=lambda: (credential.token,),
        rate_limiter=rate_limiter or rate_limiter_of(f"cloud_pipeline {settings.api}", RATE, BURST),
    )
    return Api(rest, credential, settings.token_duration)


def problems(settings: CloudPipelineSettings, api: Api, catalogue: Catalogue) -> list[Problem]:
    """All at once, except those that depend on an earlier one: token and run, allowed types, image. Raises Unreachable:
    a platform that does not answer now may do so later, and the caller asks again.
    """
    found = _of_run(settings, api)
    if any(problem.fatal for problem in found):
        return found
    return [*found, *_of_types(settings, catalogue), *_of_image(settings)]


def _of_run(settings: CloudPipelineSettings, api: Api) -> list[Problem]:
    own = run_path(settings.run_id)
    try:
        record = as_record(api.get(own), own)
    except NotKnown as error:
        return [
            Problem(
                str(error), f"RUN_ID={settings.run_id} must be the master run, in whose container the autoscaler runs"
            )
        ]
    except (NotAuthenticated, Refused) as error:
        return [Problem(str(error), "API_TOKEN must be valid, and its user must be allowed to see and launch runs")]
    if record.get("status") != "RUNNING":
        remedy = "a worker cannot join a master that does not run: set RUN_ID to the run of this container"
        return [Problem(f"run {settings.run_id} is {record.get('status')}, not RUNNING", remedy)]
    return []


def _of_types(settings: CloudPipelineSettings, catalogue: Catalogue) -> list[Problem]:
    try:
        allowed = catalogue.allowed()
    except Unreachable:
        raise
    except ProviderError as error:
        return [Problem(str(error), f"CLOUD_REGION_ID={settings.region_id} must be a region of the platform")]
    if not allowed:
        what = f"no instance type is allowed in region {settings.region_id}"
        return [Problem(what, "ask the platform's administrators for instance types, or choose another region")]
    # A type that is not allowed at all is reported for every provider alike, by the check of settings.
    if (settings.instance_type, PriceType.ON_DEMAND) in allowed and (
        settings.instance_type,
        PriceType.SPOT,
    ) not in allowed:
        what = f"{settings.instance_type} is not allowed as spot"
        return [Problem(what, "leave CP_CAP_AUTOSCALE_PRICE_TYPE at on_demand", fatal=False)]
    return []


def _of_image(settings: CloudPipelineSettings) -> list[Problem]:
    """The platform's images are `registry/group/tool[:version]`; the default is the master's own, which runs here."""
    if settings.image.count("/") >= 2 and not any(character.isspace() for character in settings.image):
        return []
    what = f"{settings.image} is not an image of the platform"
    return [Problem(what, "write CP_CAP_AUTOSCALE_INSTANCE_IMAGE=REGISTRY/GROUP/TOOL:VERSION")]
