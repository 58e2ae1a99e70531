"""What happened to jobs and workers, told once each: events from one pass to the next."""
