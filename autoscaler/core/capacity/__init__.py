"""Supply (what is there and coming), offers (what could be launched now), and the most that is allowed."""
