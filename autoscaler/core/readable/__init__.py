"""Replaces values of a snapshot that cannot be read by ones that allow nothing more, and reports them."""
