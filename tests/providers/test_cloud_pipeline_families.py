"""Families as Cloud Pipeline templates write them: `CP_CAP_AUTOSCALE_HYBRID_FAMILY` means the same here as there."""

from __future__ import annotations

import pytest

from autoscaler.providers.cloud_pipeline.catalogue import family_there, instance_type


@pytest.mark.parametrize(
    ("name", "cloud", "family"),
    (
        ("e2-small", "GCP", "e2-small"),
        ("e2-standard-4", "GCP", "e2-standard"),
        ("n1-highmem-16", "GCP", "n1-highmem"),
        ("a2-highgpu-1g", "GCP", "a2-highgpu"),
        ("c3-standard-8-lssd", "GCP", "c3-standard-lssd"),
        ("custom-4-16384", "GCP", "custom"),
        ("n2-custom-4-16384", "GCP", "n2-custom"),
        ("gpu-custom-4-16384-k80-1", "GCP", "gpu-custom-k80"),
        ("Standard_D2s_v3", "AZURE", "Dsv3"),
        ("Standard_B1ms", "AZURE", "Bms"),
        ("Standard_E4-2s_v5", "AZURE", "E-2sv5"),
        ("c5.2xlarge", "AWS", "c5"),
    ),
)
def test_families_are_named_as_the_platform_names_them(name: str, cloud: str, family: str) -> None:
    assert family_there(name, cloud) == family
    item = {"name": name, "vcpu": 2, "memory": 4.0, "gpu": 0}
    assert instance_type(item, cloud).family == family
