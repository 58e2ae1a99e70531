"""Rules at work in a plan: what they give workers, and which workers they let serve which jobs."""
