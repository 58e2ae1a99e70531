"""What of a snapshot can be read: one odd value is replaced by what allows nothing more, and told."""
