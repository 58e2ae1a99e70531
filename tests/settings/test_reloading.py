"""A setting that is read again either holds at once, or is named as one that needs a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.settings import Process, load_settings
from autoscaler.settings.reloading import IN_POLICY, only_with_restart

BEFORE = load_settings({"CP_CAP_AUTOSCALE_PROVIDER": "fake", "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large"})
OTHERS = {"budget": 5.0, "currency": "EUR", "job_owner": "account", "lost_jobs": "keep", "protected_after": 1.0}


def changed(name: str) -> Process:
    """The settings with another value of this one; the same ones if no other value is known here."""
    value = getattr(BEFORE.process, name)
    other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else value
    return BEFORE.process.model_copy(update={name: OTHERS.get(name, other)})


@pytest.mark.parametrize("name", [name for name in Process.model_fields if changed(name) != BEFORE.process])
def test_exactly_what_changes_the_policy_is_known_to_hold_by_it(name: str) -> None:
    after = replace(BEFORE, process=changed(name))
    assert (after.policy(master="m") != BEFORE.policy(master="m")) is (name in IN_POLICY)


def test_what_is_built_once_is_named_by_its_environment_name() -> None:
    after = BEFORE.process.model_copy(update={"lease": 60.0, "grid_engine_timeout": 9.0, "order_grace": 5.0})
    assert only_with_restart(BEFORE.process, after) == (
        "CP_CAP_AUTOSCALE_LEASE",
        "CP_CAP_AUTOSCALE_GRID_ENGINE_TIMEOUT",
    )


def test_a_setting_without_effect_needs_no_restart() -> None:
    after = BEFORE.process.model_copy(update={"custom_requirements": "other", "active_timeout": 1.0})
    assert only_with_restart(BEFORE.process, after) == ("CP_CAP_AUTOSCALE_ACTIVE_TIMEOUT",)
