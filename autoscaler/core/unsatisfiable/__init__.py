"""Jobs that no allowed configuration could ever run: they are held or deleted, but only on proof."""
