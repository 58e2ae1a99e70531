"""A weak worker makes room for a stronger one where the limits are reached."""
