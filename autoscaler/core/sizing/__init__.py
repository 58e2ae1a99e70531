"""What to launch for a demand: strategies, one a file, and how many of which offer."""
