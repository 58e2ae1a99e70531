"""Values that everything speaks of: readings of Grid Engine, the provider and the store; actions, reasons, memory."""
