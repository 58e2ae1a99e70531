"""Costs of reading and deciding, measured from outside against expat's bare walk of the same bytes."""
