"""What scripts for CycleCloud's jetpack call: `from autoscaler import jetpack`, then `jetpack.autoscale.set(…)`.

Needs nothing but the standard library, and imports nothing else: a script that runs every minute starts in no time.
"""

from autoscaler.jetpack import autoscale, config

__all__ = ["autoscale", "config"]
