"""Why workers leave, who stays, and how a worker leaves step by step."""
