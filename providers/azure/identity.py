"""Lets a worker delete its own machine, and no other: a role for its own identity, on that machine alone.

A shut down machine of Azure stays paid for, so one that finds no master must be able to ask for its own end.
"""

from __future__ import annotations

import logging
import uuid

from providers.azure.calls import Calls, Record
from providers.interface import ProviderError

VERSION = "2022-04-01"
_GRANTS = uuid.UUID("0e0a2a57-5f7c-5b0a-9a3f-6d1f2c7b4e55")

log = logging.getLogger(__name__)


def grant(calls: Calls, name: str, machine: Record) -> None:
    """Give the new machine's identity `worker_role` on itself, where the settings name one.

    One that fails is told: the machine works all the same, and is ended by the master as ever.
    """
    role, principal = calls.settings.worker_role, (machine.get("identity") or {}).get("principalId")
    if not role or not principal:
        return
    scope = str(machine["id"])
    path = f"{scope}/providers/Microsoft.Authorization/roleAssignments/{uuid.uuid5(_GRANTS, f'{scope} {role}')}"
    properties = {"roleDefinitionId": role, "principalId": principal, "principalType": "ServicePrincipal"}
    try:
        calls.put(path, VERSION, {"properties": properties})
    except ProviderError as error:
        log.warning("worker %s cannot end itself when its master is gone: %s", name, error)
