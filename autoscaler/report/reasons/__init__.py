"""The table of reasons: one row a code, with its sentence, its short form and its remedy.

Add a code to `core.model.reasons.Code` and its row to the module of its subject here; docs/reasons.md and the JSON
schema follow from both (`python -m autoscaler.report.pages`).
"""
