"""What outlives a pass: the SQLite file, its migrations and its lock."""
