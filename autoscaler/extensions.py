"""Finds extensions by name: entry points of a group, or an import path `package.module:Class` for one that is not
installed. Only the chosen one is imported.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from autoscaler.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Extensions:
    """One kind of extension."""

    group: str
    """The group of entry points."""
    what: str
    """The kind's name in errors: `provider`."""
    remedy: str = "install what it needs"
    """The remedy if an installed one cannot be imported; `{name}` stands for its name."""

    def known(self) -> tuple[str, ...]:
        """Names of all installed ones, sorted."""
        return tuple(self._points())

    def find(self, name: str) -> object:
        """The object behind a name or import path. Raises SettingsError that lists the known ones and a close one."""
        if ":" in name:
            return self._imported(name)
        points = self._points()
        if name not in points:
            close = difflib.get_close_matches(name, points, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise SettingsError(
                f"there is no {self.what} {name!r}: {meant}Known are {', '.join(points) or 'none'}; "
                "write package.module:NAME for one without an entry point"
            )
        return self._loaded(points[name])

    def _points(self) -> Mapping[str, EntryPoint]:
        return {point.name: point for point in sorted(entry_points(group=self.group), key=lambda point: point.name)}

    def _loaded(self, point: EntryPoint) -> object:
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            remedy = self.remedy.format(name=point.name)
            raise SettingsError(
                f"the {self.what} {point.name} ({point.value}) cannot be imported: {error}; {remedy}"
            ) from error

    def _imported(self, path: str) -> object:
        module, _, attribute = path.partition(":")
        if not module or not attribute:
            raise SettingsError(f"{path!r} is not an import path: write package.module:NAME")
        try:
            found: object = importlib.import_module(module)
        except ImportError as error:
            missing = error.name is not None and f"{module}.".startswith(f"{error.name}.")
            remedy = "put the whole path of its directory on PYTHONPATH" if missing else "install what it needs"
            raise SettingsError(f"the {self.what} {path} cannot be imported: {error}; {remedy}") from error
        try:
            for part in attribute.split("."):
                found = getattr(found, part)
        except AttributeError as error:
            raise SettingsError(f"the {self.what} {path} cannot be imported: {error}") from error
        return found
