"""The pure part: values and decisions, without clock, log, environment or I/O."""
