"""What there is and what is coming (supply), what could be launched now (offers), and the most that is allowed."""
