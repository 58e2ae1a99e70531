"""Renders a pass, its actions and its verdicts as a sentence, JSON and history."""
