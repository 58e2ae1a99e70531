"""All targets, and the share of inputs that each gets."""

from __future__ import annotations

from functools import partial

from tests.fuzz import files, servers
from tests.fuzz.campaign import Kind

KINDS = (
    Kind("rest", 18, partial(servers.opened, servers.Rest)),
    Kind("socket", 14, partial(servers.opened, servers.Requests)),
    Kind("auto-stop", 14, partial(servers.opened, servers.Stops)),
    Kind("readers", 24, partial(files.opened, "readers")),
    Kind("settings", 11, partial(files.opened, "settings")),
    Kind("rules", 12, partial(files.opened, "rules")),
    Kind("records", 7, partial(files.opened, "records")),
)
