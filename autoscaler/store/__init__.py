"""What outlives a pass: memory, journal, history, wishes, and the lock that keeps a second autoscaler away."""
