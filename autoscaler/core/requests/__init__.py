"""Requests of callers: request sets, the node arrays in force, created nodes, groups by name."""
