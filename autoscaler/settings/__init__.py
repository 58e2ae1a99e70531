"""Settings: declared once in `table`, read in `loading`, written out as sample file and reference page in `pages`."""

from autoscaler import CONFIG_ENV
from autoscaler.settings.loading import POLICY_PREFIX, Origin, Settings, is_secret, load_settings, master_type_problem
from autoscaler.settings.machine import Machine, this_machine
from autoscaler.settings.process_settings import Process
from autoscaler.settings.queue_settings import QueueSettings

__all__ = [
    "CONFIG_ENV",
    "POLICY_PREFIX",
    "Machine",
    "Origin",
    "Process",
    "QueueSettings",
    "Settings",
    "is_secret",
    "load_settings",
    "master_type_problem",
    "this_machine",
]
