"""What operators are notified of: which causes there are, and which messages are due."""
