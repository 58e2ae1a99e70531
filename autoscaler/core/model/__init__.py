"""Values that all of core uses: readings of Grid Engine, the provider and the store; reasons, memory."""
