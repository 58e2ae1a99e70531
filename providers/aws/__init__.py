"""Machines of Amazon EC2."""
