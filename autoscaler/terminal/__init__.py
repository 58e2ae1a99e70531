"""Live views of the autoscaler on a terminal."""
