"""Instance families as Cloud Pipeline's own templates write them in `CP_CAP_AUTOSCALE_HYBRID_FAMILY`.

They are those of the catalogues, but for two: a shared-core type of GCP is a family of its own (`e2-small`, beside
`e2-standard`), and a constrained size of Azure keeps what constrains it (`Standard_E4-2s_v5` is an `E-2sv5`).
"""

from __future__ import annotations

import re

from providers.catalog import family_of

_FIRST_NUMBER = re.compile(r"\d+")


def family_there(name: str, cloud: str) -> str:
    """The family of an instance type. `cloud`: AWS, AZURE or GCP, in any case."""
    match cloud.lower():
        case "gcp":
            return _gcp(name)
        case "azure" if "-" in name:
            return _FIRST_NUMBER.sub("", name.partition("_")[2].replace("_", ""), count=1)
        case _:
            return family_of(name, cloud)


def _gcp(name: str) -> str:
    """Series and kind, without the size and with what follows it: `c3-standard-8-lssd` is a `c3-standard-lssd`."""
    parts = name.split("-")
    if "custom" in parts:
        return family_of(name, "gcp")
    return "-".join((*parts[:2], *parts[3:4]))
