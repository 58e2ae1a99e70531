"""Growth strategies, one a file: a function that orders what could be launched for some demand, best first."""
