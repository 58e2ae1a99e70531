"""What one pass leaves: verdicts, the memory for the next pass, a sample for the history, the next due time."""
