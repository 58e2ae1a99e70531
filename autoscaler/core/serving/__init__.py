"""Who stays in service and who leaves, and what swaps and launches are judged by."""
