"""The permissions that AWS asks for before it does a call: its own, and those of what it does on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NAMED_OTHERWISE = {"sqs:DeleteMessageBatch": "sqs:DeleteMessage"}
"""Calls whose permission has another's name."""


def permissions_of(service: str, name: str, parameters: dict[str, Any]) -> Iterable[str]:
    """As the service authorization reference lists them."""
    called = f"{service}:{name}"
    yield _NAMED_OTHERWISE.get(called, called)
    if service != "ec2":
        return
    if name == "CreateFleet":
        yield "ec2:RunInstances"
    if parameters.get("TagSpecifications"):
        yield "ec2:CreateTags"
    if parameters.get("IamInstanceProfile"):
        yield "iam:PassRole"
