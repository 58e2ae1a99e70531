"""The settings of this cell's running autoscaler, for commands that are called in another shell. One row."""

from __future__ import annotations

import json
from collections.abc import Mapping

from autoscaler.store.database import Migration, Table

TABLE: Migration = (
    """
    CREATE TABLE service_settings (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        at REAL NOT NULL,
        settings TEXT NOT NULL
    ) STRICT
    """,
)


class ServiceSettings(Table):
    """The table above."""

    def keep(self, settings: Mapping[str, str], at: float) -> None:
        """Store its settings from now on, by environment name; the caller leaves out secrets."""
        self._database.keep_only("service_settings", at=at, settings=json.dumps(dict(settings), sort_keys=True))

    def load(self) -> Mapping[str, str] | None:
        """None: no autoscaler has stored any."""
        row = self._database.row("SELECT settings FROM service_settings")
        if row is None:
            return None
        found = json.loads(row["settings"])
        return {str(name): str(value) for name, value in found.items()}
