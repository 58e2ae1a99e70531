"""Do these demands fit on these hosts? Free hosts, and one exact placement in both directions."""
