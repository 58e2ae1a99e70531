"""Packs pieces of demand on machines, in plain numbers: it knows neither Grid Engine nor placement."""
