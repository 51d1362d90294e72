"""The HTTP API: routes, what they take and give, and the wire formats."""
