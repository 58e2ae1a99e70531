"""The API for CycleCloud's jetpack scripts: `from autoscaler import jetpack`, then `jetpack.autoscale.set(…)`.

Needs and imports only the standard library: a script that runs every minute starts quickly.
"""

from autoscaler.jetpack import autoscale, config

__all__ = ["autoscale", "config"]
