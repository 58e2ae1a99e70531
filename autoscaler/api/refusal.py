"""What is answered 409."""

from __future__ import annotations


class Conflict(Exception):
    """A request that is understood and refused; the message says why and what to do."""
