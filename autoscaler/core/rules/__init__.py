"""Rules: what a node is and has, what a job may ask of it, and why it was or was not taken. "Node" is the rules' word
for a worker that exists or could.

Everything here is a value or a function of values; documents and files are read in `autoscaler.nodearrays`.
"""
