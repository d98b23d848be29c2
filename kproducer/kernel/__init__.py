"""TODO owner: describe."""
