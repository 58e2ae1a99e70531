"""The facts of a pass before it decides: read off the snapshot once, and handed to the steps that decide."""
