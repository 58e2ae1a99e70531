"""Which workers in service stay and which leave, and the contexts of swaps and launches."""
