"""Renders a pass, its actions and its verdicts as a sentence, JSON and history."""

SCHEMA = 1
"""Of the JSON that commands print, which `schema` declares."""
