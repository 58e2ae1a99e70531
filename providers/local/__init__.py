"""Machines made of namespaces on this very host, rented out as a cloud would."""
