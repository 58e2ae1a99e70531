"""The cost of workers, and the jobs that it was for."""
