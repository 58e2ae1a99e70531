"""Which settings hold as soon as they are read again. Every other one changes only with a restart: what serves a cell
is built once, from the settings of its start.
"""

from __future__ import annotations

from dataclasses import fields

from autoscaler.core.policy import Limits, Policy
from autoscaler.settings.process_settings import Process
from autoscaler.settings.rows import extra

IN_POLICY = (
    *({each.name for kind in (Policy, Limits) for each in fields(kind)} - {"owner"}),  # that is `job_owner`
    *("budget", "job_owner"),
    *("circuit_breaker_window", "circuit_breaker_launches", "circuit_breaker_removals", "circuit_breaker_kills"),
)
_OTHERWISE = (
    "disable_default_queue",
    *("polling_delay", "verbose", "vm_sizes", "trusted_group"),
    *("log_directory", "log_format", "log_level_console", "log_level_file", "log_level_run"),
    *("notifications", "notify_resolved", "notify_interval", "notify_limit_after"),
    *("caller_url", "caller_token", "caller_ca", "caller_login"),  # callers read these, the service does not
)
HOLD_AT_ONCE = frozenset((*IN_POLICY, *_OTHERWISE))


def only_with_restart(before: Process, now: Process) -> tuple[str, ...]:
    """Environment names of changed settings that hold only after a restart."""
    return tuple(
        str(row.alias)
        for name, row in Process.model_fields.items()
        if name not in HOLD_AT_ONCE and getattr(before, name) != getattr(now, name)
        if not extra(Process, name, "no_effect") or extra(Process, name, "provider")
    )
