"""Jobs that nothing allowed could ever run: found, doubted, asked about, and only on proof held or deleted."""
