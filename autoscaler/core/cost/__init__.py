"""What workers cost, and which jobs that was for."""
