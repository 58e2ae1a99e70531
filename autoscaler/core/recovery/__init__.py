"""Workers that Grid Engine or their cloud lost, and what becomes of their jobs."""
