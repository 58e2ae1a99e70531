"""Do these demands fit on these hosts? Free hosts, and one exact placement for growth and shrink."""
