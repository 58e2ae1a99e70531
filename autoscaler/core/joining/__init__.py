"""How a machine becomes a worker in service."""
