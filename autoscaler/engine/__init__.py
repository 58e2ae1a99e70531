"""The running service: observes, plans, carries out, and waits for the next pass."""
