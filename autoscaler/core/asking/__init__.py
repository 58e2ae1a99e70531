"""What callers ask for, in a plan: node arrays of theirs, targets, created nodes, workers that ask to stop."""
