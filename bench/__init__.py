"""What reading and deciding cost, measured from outside against expat's bare walk of the same bytes."""
