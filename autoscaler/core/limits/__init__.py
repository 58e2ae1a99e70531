"""How much may be launched: limits, backoff after failures, the circuit breaker, which price type when."""
