"""Workers that Grid Engine or their cloud lost, and what happens to their jobs."""
