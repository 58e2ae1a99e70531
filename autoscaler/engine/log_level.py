"""How much the service logs, as an operator set it while it runs: this overrides its settings until the level is
`settings`.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field

from autoscaler.engine.pass_listener import PassListener
from autoscaler.engine.pass_reporter import PassReporter
from autoscaler.errors import StateNotKept
from autoscaler.report.log import print_from
from autoscaler.settings.process_settings import Process
from autoscaler.store.overrides import LevelInForce, LogLevel, OverrideTable

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LogLevelOverride(PassListener):
    """One for the life of a process."""

    title = "the log level"
    in_dry_run = True

    overrides: OverrideTable
    reporter: PassReporter
    process: Process
    _applied: LevelInForce | None = field(default=None, init=False)

    def reloaded(self, process: Process) -> None:
        """New settings have set the log up anew; the next `apply` restores the operator's level."""
        self.process, self._applied = process, None

    def begins(self) -> None:
        self.apply()

    def apply(self) -> None:
        """A level that cannot be read now is applied later."""
        with contextlib.suppress(StateNotKept):
            level = self.overrides.log_level()
            if level != self._applied:
                self._set(level)
                self._applied = level

    def _set(self, override: LevelInForce | None) -> None:
        level = LogLevel.SETTINGS if override is None else override.level
        printed = {LogLevel.SETTINGS: self.process.log_level_console, LogLevel.VERBOSE: "INFO"}
        print_from(printed.get(level, level.value.upper()))
        self.reporter.verbose = (
            self.process.verbose if override is None else level in (LogLevel.VERBOSE, LogLevel.DEBUG)
        )
        log.info("the log level is %s%s", level, "" if override is None else f", set by {override.who}")
