"""Which cloud an instance type is of."""

from __future__ import annotations


def cloud_by_name(instance_type: str) -> str:
    """The cloud of an instance type by the form of its name: aws, azure or gcp; '' if it has none of theirs."""
    if "." in instance_type:
        return "aws"
    if "_" in instance_type:
        return "azure"
    return "gcp" if "-" in instance_type else ""
