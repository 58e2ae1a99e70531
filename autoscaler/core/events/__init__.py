"""What happened to jobs and workers, each reported once: events from one pass to the next."""
