"""Rules in the language of cyclecloud-scalelib: what a node is and has, what a job may ask of it, and why it fits or
not. "Node" is the rules' word for a worker that exists or could.
"""
