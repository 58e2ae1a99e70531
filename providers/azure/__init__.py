"""Machines of Azure."""
