"""What all node arrays launch together, groups of workers included."""
