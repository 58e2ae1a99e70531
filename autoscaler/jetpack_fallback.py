"""Answers `import jetpack` where nothing else does: the last to be asked, so it can hide no jetpack there is or comes.

`sge-autoscaler jetpack --install` has it imported at the start of Python; it imports nothing that is not there by then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from types import ModuleType

NAME = "jetpack"


class Fallback:
    """A finder that knows one name."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The package of ours under the other name."""
        own = find_spec(f"autoscaler.{NAME}") if name == NAME else None
        if own is None or own.origin is None:
            return None
        return spec_from_file_location(NAME, own.origin, submodule_search_locations=own.submodule_search_locations)


def install() -> None:
    """Be asked last."""
    if Fallback not in sys.meta_path:
        sys.meta_path.append(Fallback)
