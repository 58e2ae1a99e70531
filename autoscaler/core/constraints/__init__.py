"""Rules in the language of cyclecloud-scalelib: what a node is and has, what a job may ask of it, and why it was or was
not taken. "Node" is the rules' word for a worker that exists or could."""
