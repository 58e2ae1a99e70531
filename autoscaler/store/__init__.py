"""Data that outlives a pass: memory, journal, history, overrides, and the lock that keeps a second autoscaler away."""
