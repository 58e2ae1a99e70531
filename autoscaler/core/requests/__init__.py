"""What callers ask for: request sets, the node arrays in force, created nodes, groups by name."""
