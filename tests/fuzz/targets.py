"""All targets, and the share of inputs that each gets."""

from __future__ import annotations

from functools import partial

from tests.fuzz import files, servers
from tests.fuzz.campaign import InputKind

KINDS = (
    InputKind("rest", 18, partial(servers.opened, servers.Rest)),
    InputKind("socket", 14, partial(servers.opened, servers.Requests)),
    InputKind("auto-stop", 14, partial(servers.opened, servers.Stops)),
    InputKind("readers", 24, partial(files.opened, "readers")),
    InputKind("settings", 11, partial(files.opened, "settings")),
    InputKind("rules", 12, partial(files.opened, "rules")),
    InputKind("records", 7, partial(files.opened, "records")),
)
