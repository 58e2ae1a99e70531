"""Why workers leave or stay, and how a worker leaves step by step."""
