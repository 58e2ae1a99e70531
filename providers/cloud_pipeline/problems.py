"""What would fail, found before anything is launched."""

from __future__ import annotations

from autoscaler.core.model.fleet import PriceType
from providers.cloud_pipeline.api import Api, as_record, run_path
from providers.cloud_pipeline.catalogue import Catalogue
from providers.cloud_pipeline.settings import CloudPipelineSettings
from providers.cloud_pipeline.words import NotKnown
from providers.interface import Problem, ProviderError, Unreachable


def problems(settings: CloudPipelineSettings, api: Api, catalogue: Catalogue) -> list[Problem]:
    """All at once, but for what hangs on an earlier one: token and run, allowed types, image. Raises Unreachable: a
    platform that does not answer now may do so later, and whoever waits for that asks again.
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
    except Unreachable:
        raise
    except ProviderError as error:
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
    # A type that is not allowed at all is told of every provider alike, by whoever checks settings.
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
