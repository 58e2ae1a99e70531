"""Each worker: matched with its execution host, its state, and the one step that it takes in a pass."""
