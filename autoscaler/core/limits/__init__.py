"""How much may be had: limits, backoff after failures, the circuit breaker, when which price type is taken."""
