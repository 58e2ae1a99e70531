"""What to launch for a demand: which offer, by strategy, and how many workers of it."""
