"""Answers `import jetpack` if nothing else does: it is the last finder, so it never hides a real jetpack.

`sge-autoscaler jetpack --install` has it imported when Python starts; it imports only modules that are loaded by then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from types import ModuleType

NAME = "jetpack"


class Fallback:
    """A finder for one name."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Our package under the other name."""
        own = find_spec(f"autoscaler.{NAME}") if name == NAME else None
        if own is None or own.origin is None:
            return None
        return spec_from_file_location(NAME, own.origin, submodule_search_locations=own.submodule_search_locations)


def install() -> None:
    """Become the last finder."""
    if Fallback not in sys.meta_path:
        sys.meta_path.append(Fallback)
