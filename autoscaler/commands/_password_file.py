"""Where the users of the REST API are."""

from __future__ import annotations

from pathlib import Path

from autoscaler.commands.context import Invocation


def password_file(invocation: Invocation) -> Path:
    """Who may call by a password."""
    return invocation.settings.process.http_passwords or invocation.state_directory / "http-passwords"


def token_file(invocation: Invocation) -> Path:
    """Who may call by a token."""
    return password_file(invocation).with_name("http-tokens")
