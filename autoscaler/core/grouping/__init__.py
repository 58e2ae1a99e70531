"""Groups of workers near each other: ordered, opened to jobs, kept and let go as a whole."""
