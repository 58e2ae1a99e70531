"""What execution hosts show: whose they are, if they report, which values are missing, whose fault a failed job is."""
