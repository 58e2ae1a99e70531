"""A setting that is a secret: given as it is in the environment, or by reference, `env:NAME` or `file:PATH`, anywhere.

The type hides its value wherever it is printed; `value.get_secret_value()` alone shows it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, SecretStr


def _resolved(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    kind, separator, name = value.partition(":")
    if kind == "env" and separator:
        if not os.environ.get(name):
            raise ValueError(f"the environment variable {name} is not set")
        return os.environ[name]
    if kind == "file" and separator:
        try:
            text = Path(name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        if not text:
            raise ValueError(f"{name} is empty")
        return text
    return value


Secret = Annotated[SecretStr, BeforeValidator(_resolved)]
"""Declare it as a field of a provider's settings; the reference is followed when the settings are read."""
