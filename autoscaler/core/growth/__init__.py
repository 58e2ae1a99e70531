"""Ways to choose what to launch for a demand, one strategy a file."""
