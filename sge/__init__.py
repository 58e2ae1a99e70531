"""Grid Engine: reads its output into values, changes it by qconf, qmod and qdel, asks it, and follows its events."""
