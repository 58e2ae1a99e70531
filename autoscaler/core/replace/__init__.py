"""A stronger worker replaces a weak one if the limits are reached."""
