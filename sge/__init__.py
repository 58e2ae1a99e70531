"""Grid Engine: reads its answers into values, writes by qconf, qmod and qdel, asks it, and follows its events."""
