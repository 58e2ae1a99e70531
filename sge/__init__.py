"""Grid Engine: reading it, writing to it, and private cells of it."""
