"""Jobs that nothing allowed could ever run: found, asked about, and only on proof held or deleted."""
