"""The pure part: values and decisions, without clock, log, environment or I/O.

"(rule 4)", here and in all of the project, is rule 4 of docs/safety.md.
"""
